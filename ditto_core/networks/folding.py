"""Folding: spectral norm and batch norm become part of the weights, once, after loading."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import fuse_conv_bn_weights

from .layers import SpectralNormConv2d

_BatchNorm = nn.BatchNorm2d | nn.BatchNorm3d


class ChannelAffine(nn.Module):
    """Scale and shift of every channel: what is left of a batch norm that follows no convolution."""

    def __init__(self, scale: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.shift = nn.Parameter(shift, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, ...) -> (b, c, ...)."""
        shape = (-1, *[1] * (x.ndim - 2))
        return x * self.scale.view(shape) + self.shift.view(shape)


@torch.no_grad()
def fold(network: nn.Module) -> None:
    """Replaces, in place, each spectral norm and batch norm by equivalent plain weights.

    A module names in `folds` which of its convolutions a batch norm follows directly. The network then computes the
    same function in evaluation mode, with fewer steps, and can no longer be trained or saved under the official names.

    Args:
        network: a loaded network on the CPU or a GPU, in any floating type.
    """
    for parent in list(network.modules()):
        for conv_name, norm_name in getattr(parent, "folds", {}).items():
            _fold_into(getattr(parent, conv_name), getattr(parent, norm_name))
            setattr(parent, norm_name, nn.Identity())
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, SpectralNormConv2d):
                setattr(parent, name, _plain_convolution(child))
            elif isinstance(child, nn.BatchNorm2d | nn.BatchNorm3d):
                setattr(parent, name, _channel_affine(child))


def _fold_into(conv: nn.Conv2d | nn.Conv3d, norm: _BatchNorm) -> None:
    weight, bias = fuse_conv_bn_weights(
        conv.weight.double(),
        None if conv.bias is None else conv.bias.double(),
        _statistics(norm.running_mean),
        _statistics(norm.running_var),
        norm.eps,
        norm.weight.double(),
        norm.bias.double(),
    )
    dtype = conv.weight.dtype
    conv.weight = nn.Parameter(weight.to(dtype), requires_grad=False)
    conv.bias = nn.Parameter(bias.to(dtype), requires_grad=False)


def _channel_affine(norm: _BatchNorm) -> ChannelAffine:
    scale = norm.weight.double() * torch.rsqrt(_statistics(norm.running_var) + norm.eps)
    shift = norm.bias.double() - _statistics(norm.running_mean) * scale
    return ChannelAffine(scale.to(norm.weight.dtype), shift.to(norm.weight.dtype))


def _statistics(values: Tensor | None) -> Tensor:
    if values is None:
        raise ValueError("a batch norm without running statistics can't be folded")
    return values.double()


def _plain_convolution(conv: SpectralNormConv2d) -> nn.Conv2d:
    weight = conv.normalised_weight()
    out, inputs, kernel, _ = weight.shape
    plain = nn.Conv2d(inputs, out, kernel, padding=conv.padding, bias=conv.bias is not None, device="meta")
    plain.weight = nn.Parameter(weight, requires_grad=False)
    if conv.bias is not None:
        plain.bias = nn.Parameter(conv.bias.detach(), requires_grad=False)
    return plain
