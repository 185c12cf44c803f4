"""The motion diffusion network with the same numbers in fewer operations, made from a loaded one.

What does not depend on the noisy motion is computed before the loop, in one batch: the condition encoder and what
stands in for it, the start row's share of the input, every layer's keys and values of the condition tokens, and for all
steps the time tokens' keys and values and every layer's modulation. A step is one batch of both guidance passes.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import wide
from .motion_diffusion import Attention, Condition, DecoderLayer, MotionDiffusion
from .presets import MOTION_SIZE, WINDOW_ROWS

_FILMS = 3
_ALIGN = 8


class WindowTables(NamedTuple):
    """What all steps of a window share.

    Attributes:
        start: (2 b, 1, latent) share of the start row in the input.
        memory: (layers, 2, 2 b, heads, 82, latent / heads) keys and values; the last two rows are each step's own.
    """

    start: Tensor
    memory: Tensor


class StepTables(NamedTuple):
    """What each step has of its own; the first axis is the step.

    Attributes:
        memory: (s, layers, 2, 1, heads, 2, latent / heads) keys and values of the time tokens.
        films: (s, layers, 3, 2, 2 b, 1, latent) scale, 1 included, and shift of each modulation.
    """

    memory: Tensor
    films: Tensor


class FusedDenoiser(nn.Module):
    """`MotionDiffusion.guided`, with all that can be shared made beforehand.

    Sums over rows stay in float32 at least, and so does the residual stream; in half precision only products are half.

    Args:
        network: the loaded network. It is left as it is; the merged weights are copies.
        dtype: type of the matrix products; by default the network's own.
    """

    def __init__(self, network: MotionDiffusion, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.plain = network
        self.dtype = dtype or network.final_layer.weight.dtype
        self.heads = network.layers()[0].self_attn.heads
        self.films = _joined([cast(nn.Linear, film.block[1]) for layer in network.layers() for film in layer.films()])
        self.memory_keys = _joined([_third(layer.multihead_attn, 1) for layer in network.layers()])
        self.memory_values = _joined([_third(layer.multihead_attn, 2) for layer in network.layers()])
        self.layers = nn.ModuleList(_FusedLayer(layer, self.dtype) for layer in network.layers())
        weight = network.input_projection.weight
        self.spare = -MOTION_SIZE % _ALIGN
        self.input_motion = _linear(F.pad(weight[:, :MOTION_SIZE], (0, self.spare)), None, self.dtype)
        self.input_start = _linear(weight[:, MOTION_SIZE:], network.input_projection.bias, weight.dtype)
        final = network.final_layer
        self.output = _linear(
            F.pad(final.weight, (0, 0, 0, self.spare)), F.pad(final.bias, (0, self.spare)), self.dtype
        )

    @property
    def row(self) -> int:
        """Values of a row of `step`'s motion: 265, and zeros up to a multiple of 8."""
        return MOTION_SIZE + self.spare

    def tables(self, condition: Tensor, start: Tensor, times: Tensor) -> tuple[WindowTables, StepTables]:
        """Everything that does not depend on the noisy motion.

        Args:
            condition: (b, 80, condition_size) condition rows.
            start: (b, 265) motion of the row before the window.
            times: (s,) diffusion time of each step.
        """
        net = self.plain
        kind = net.final_layer.weight.dtype
        encoded = net.encode(condition)
        both = Condition(*(torch.cat(p) for p in zip(encoded, net.unconditioned(len(condition)), strict=True)))
        embedded = net.embed(times)  # (s, 4 latent)
        hidden = net.to_time_cond(embedded)[:, None] + both.hidden  # (s, 2 b, latent)
        films = self.films(F.mish(hidden)).unflatten(-1, (len(self.layers), _FILMS, 2, -1))
        scale, shift = films.unbind(-2)  # (s, 2 b, layers, 3, latent) each
        films = torch.stack([1 + scale, shift], dim=-2).permute(0, 2, 3, 4, 1, 5)[..., None, :]
        memory = self._keys_and_values(net.norm_cond(both.tokens), 0)
        moments = self._keys_and_values(net.norm_cond(net.to_time_tokens(embedded)), WINDOW_ROWS)
        room = F.pad(memory, (0, 0, 0, moments.shape[-2])).to(self.dtype)
        begun = self.input_start(start.to(kind))[:, None]
        begun = torch.cat([begun, begun]).to(wide(self.dtype))
        steps = StepTables(moments.movedim(2, 0)[:, :, :, None].to(self.dtype), films.to(wide(self.dtype)).contiguous())
        return WindowTables(begun, room), steps

    def _keys_and_values(self, tokens: Tensor, first: int) -> Tensor:
        """(n, m, latent), tokens from position `first` -> (layers, 2, n, heads, m, latent / heads)."""
        turned = self.plain.rotary.turn(tokens, first)
        pair = torch.stack([self.memory_keys(turned), self.memory_values(tokens)])  # (2, n, m, layers latent)
        return pair.unflatten(-1, (len(self.layers), self.heads, -1)).permute(3, 0, 1, 4, 2, 5)

    def step(self, x: Tensor, start: Tensor, memory: Tensor, films: Tensor, guidance: float) -> Tensor:
        """Estimates the clean motion, guided.

        Args:
            x: (b, 80, row) noisy motion, float32 at least, zeros beyond 265.
            start: of `WindowTables`.
            memory: of `WindowTables`, with this step's rows of `StepTables` in place.
            films: of `StepTables`, this step's.
            guidance: weight of classifier-free guidance.

        Returns:
            (b, 80, row), zeros beyond 265.
        """
        rows = self.input_motion(x.to(self.dtype)).to(x.dtype)
        y = torch.cat([rows, rows]) + start
        for layer, pair, modulation in zip(self.layers, memory, films, strict=True):
            y = layer(y, pair, modulation)
        conditioned, free = y.chunk(2)
        mixed = free + guidance * (conditioned - free)  # before the last layer, which is affine
        return self.output(mixed.to(self.dtype)).to(x.dtype)


class _FusedLayer(nn.Module):
    """A decoder layer whose memory and modulation are given."""

    def __init__(self, layer: DecoderLayer, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads, self.dtype, self.rotary = layer.self_attn.heads, dtype, layer.rotary
        self.norm1, self.norm2, self.norm3 = (_wide_norm(norm) for norm in (layer.norm1, layer.norm2, layer.norm3))
        queries_keys = _joined([_third(layer.self_attn, 0), _third(layer.self_attn, 1)])
        self.queries_keys = queries_keys.to(dtype)
        self.values = _third(layer.self_attn, 2).to(dtype)
        self.queries = _third(layer.multihead_attn, 0).to(dtype)
        self.out_self, self.out_memory, self.linear1, self.linear2 = (
            _linear(old.weight, old.bias, dtype)
            for old in (layer.self_attn.out_proj, layer.multihead_attn.out_proj, layer.linear1, layer.linear2)
        )

    def forward(self, x: Tensor, memory: Tensor, films: Tensor) -> Tensor:
        """(n, 80, latent), (2, n, heads, 82, latent / heads), (3, 2, n, 1, latent) -> (n, 80, latent)."""
        y = self.norm1(x)
        queries, keys = self.queries_keys(self._turned(y)).chunk(2, dim=-1)
        attended = self._attend(self._split(queries), self._split(keys), self._split(self.values(y.to(self.dtype))))
        x = x + films[0, 0] * self.out_self(attended).to(x.dtype) + films[0, 1]
        queries = self._split(self.queries(self._turned(self.norm2(x))))
        x = x + films[1, 0] * self.out_memory(self._attend(queries, *memory)).to(x.dtype) + films[1, 1]
        y = self.linear2(F.gelu(self.linear1(self.norm3(x).to(self.dtype))))
        return x + films[2, 0] * y.to(x.dtype) + films[2, 1]

    def _turned(self, y: Tensor) -> Tensor:
        return self.rotary(y).to(self.dtype)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _attend(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(queries, keys, values).transpose(1, 2).flatten(2)


def _third(attention: Attention, part: int) -> nn.Linear:
    """The projection of the queries (0), keys (1) or values (2)."""
    weight, bias = attention.in_proj_weight.chunk(3)[part], attention.in_proj_bias.chunk(3)[part]
    return _linear(weight, bias, weight.dtype)


def _joined(layers: list[nn.Linear]) -> nn.Linear:
    """One layer whose outputs are those of several over one input."""
    weight = torch.cat([layer.weight for layer in layers])
    return _linear(weight, torch.cat([layer.bias for layer in layers]), weight.dtype)


def _wide_norm(norm: nn.LayerNorm) -> nn.LayerNorm:
    high = wide(norm.weight.dtype)
    made = nn.LayerNorm(norm.normalized_shape, eps=norm.eps, device="meta")
    made.weight, made.bias = (nn.Parameter(p.detach().to(high), requires_grad=False) for p in (norm.weight, norm.bias))
    return made


def _linear(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> nn.Linear:
    outputs, inputs = weight.shape
    made = nn.Linear(inputs, outputs, bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach().to(dtype).contiguous(), requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().to(dtype).contiguous(), requires_grad=False)
    return made
