"""Motion diffusion network: the clean motion of a window, from noisy motion and what is heard."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .layers import wide
from .presets import MOTION_SIZE, WINDOW_ROWS, Preset

_TIME_TOKENS = 2


class Condition(NamedTuple):
    """What the network keeps of a window's condition; it depends on neither noise nor time.

    Attributes:
        tokens: (b, 80, latent) condition tokens.
        hidden: (b, latent), added to the time embedding.
    """

    tokens: Tensor
    hidden: Tensor


class RotaryEmbedding(nn.Module):
    """Rotates neighbouring pairs of a row by its position (RoFormer, arXiv:2104.09864, section 3.2.2)."""

    freqs: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        exponents = torch.arange(size // 2, dtype=torch.float64) / (size // 2)
        self.register_buffer("freqs", (10000.0**-exponents).to(torch.get_default_dtype()))

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, size) -> (b, n, size); row i is turned as position i."""
        return self.turn(x, 0)

    def turn(self, x: Tensor, first: int) -> Tensor:
        """(b, n, size) -> (b, n, size); row i is turned as position first + i."""
        high = wide(x.dtype)
        positions = torch.arange(first, first + x.shape[1], device=x.device, dtype=high)
        angles = positions[:, None] * self.freqs.to(high)  # (n, size / 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


class Attention(nn.Module):
    """Multi-head attention with the parameter names of nn.MultiheadAttention."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * size, size))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * size))
        self.out_proj = nn.Linear(size, size)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(b, n, size), (b, m, size), (b, m, size) -> (b, n, size)."""
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(x, weight, bias).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (b, heads, n, size / heads)
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class _EncoderLayer(nn.Module):
    """Pre-norm transformer encoder layer; queries and keys are rotated before the attention's projections."""

    def __init__(self, preset: Preset, rotary: RotaryEmbedding) -> None:
        super().__init__()
        size = preset.latent_size
        self.self_attn = Attention(size, preset.heads)
        self.linear1 = nn.Linear(size, preset.feed_forward)
        self.linear2 = nn.Linear(preset.feed_forward, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.rotary = rotary

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        turned = self.rotary(y)
        x = x + self.self_attn(turned, turned, y)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Film(nn.Module):
    """A scale and shift from the time embedding (FiLM, arXiv:1709.07871)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Mish(), nn.Linear(size, 2 * size))

    def forward(self, y: Tensor, time: Tensor) -> Tensor:
        """(b, n, size) and (b, size) -> (b, n, size)."""
        scale, shift = self.block(time)[:, None].chunk(2, dim=-1)
        return (1 + scale) * y + shift


class DecoderLayer(nn.Module):
    """Self-attention, attention to the condition, feed-forward; each modulated by time before it is added."""

    def __init__(self, preset: Preset, rotary: RotaryEmbedding) -> None:
        super().__init__()
        size = preset.latent_size
        self.self_attn = Attention(size, preset.heads)
        self.multihead_attn = Attention(size, preset.heads)
        self.linear1 = nn.Linear(size, preset.feed_forward)
        self.linear2 = nn.Linear(preset.feed_forward, size)
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)
        self.norm3 = nn.LayerNorm(size)
        self.film1 = Film(size)
        self.film2 = Film(size)
        self.film3 = Film(size)
        self.rotary = rotary

    def films(self) -> list[Film]:
        """The three modulations, in order."""
        return [self.film1, self.film2, self.film3]

    def forward(self, x: Tensor, memory: Tensor, time: Tensor) -> Tensor:
        """(b, 80, latent), memory (b, m, latent) and time (b, latent) -> (b, 80, latent)."""
        y = self.norm1(x)
        turned = self.rotary(y)
        x = x + self.film1(self.self_attn(turned, turned, y), time)
        y = self.rotary(self.norm2(x))
        x = x + self.film2(self.multihead_attn(y, self.rotary(memory), memory), time)
        y = self.linear2(F.gelu(self.linear1(self.norm3(x))))
        return x + self.film3(y, time)


class _DecoderStack(nn.Module):
    def __init__(self, preset: Preset, rotary: RotaryEmbedding) -> None:
        super().__init__()
        self.stack = nn.ModuleList(DecoderLayer(preset, rotary) for _ in range(preset.decoder_layers))

    def forward(self, x: Tensor, memory: Tensor, time: Tensor) -> Tensor:
        for layer in self.stack:
            x = layer(x, memory, time)
        return x


class _Sinusoids(nn.Module):
    """Sines, then cosines, of the diffusion time at size / 2 frequencies."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, time: Tensor) -> Tensor:
        """(b,) -> (b, size); frequency k is exp(-k ln(10000) / (size / 2 - 1))."""
        half = self.size // 2
        k = torch.arange(half, device=time.device, dtype=time.dtype)
        angles = time[:, None] * torch.exp(k * (-math.log(10000) / (half - 1)))
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class MotionDiffusion(nn.Module):
    """Denoiser of motion windows (Ditto, arXiv:2411.19509, section 3.3; decoder as in EDGE, arXiv:2211.10658)."""

    def __init__(self, preset: Preset) -> None:
        super().__init__()
        size = preset.latent_size
        rotary = RotaryEmbedding(size)
        self.null_cond_embed = nn.Parameter(torch.randn(1, WINDOW_ROWS, size))
        self.null_cond_hidden = nn.Parameter(torch.randn(1, size))
        self.rotary = rotary  # one for all layers; the files repeat it under each
        self.time_mlp = nn.Sequential(_Sinusoids(size), nn.Linear(size, 4 * size), nn.Mish())
        self.to_time_cond = nn.Sequential(nn.Linear(4 * size, size))
        self.to_time_tokens = nn.Sequential(
            nn.Linear(4 * size, _TIME_TOKENS * size), nn.Unflatten(-1, (_TIME_TOKENS, size))
        )
        self.norm_cond = nn.LayerNorm(size)
        self.input_projection = nn.Linear(2 * MOTION_SIZE, size)
        self.cond_encoder = nn.Sequential(*(_EncoderLayer(preset, rotary) for _ in range(preset.encoder_layers)))
        self.cond_projection = nn.Linear(preset.condition_size, size)
        self.non_attn_cond_projection = nn.Sequential(
            nn.LayerNorm(size), nn.Linear(size, size), nn.SiLU(), nn.Linear(size, size)
        )
        self.seqTransDecoder = _DecoderStack(preset, rotary)
        self.final_layer = nn.Linear(size, MOTION_SIZE)

    def encode(self, condition: Tensor) -> Condition:
        """The condition rows as the decoder reads them; once a window, not once a step.

        Args:
            condition: (b, 80, condition_size).

        Returns:
            Tokens (b, 80, latent) and hidden (b, latent).
        """
        tokens = self.cond_encoder(self.cond_projection(condition.to(self.final_layer.weight.dtype)))
        return Condition(tokens, self.non_attn_cond_projection(tokens.mean(1)))

    def embed(self, time: Tensor) -> Tensor:
        """(b,) diffusion times -> (b, 4 latent)."""
        dtype = self.final_layer.weight.dtype
        return self.time_mlp[1:](self.time_mlp[0](time.to(wide(dtype))).to(dtype))

    def layers(self) -> list[DecoderLayer]:
        """The decoder's layers, first to last."""
        return [cast(DecoderLayer, layer) for layer in self.seqTransDecoder.stack]

    def unconditioned(self, batch: int) -> Condition:
        """What stands in for `encode`'s result where nothing is heard, (batch, ...)."""
        return Condition(self.null_cond_embed.expand(batch, -1, -1), self.null_cond_hidden.expand(batch, -1))

    def forward(self, x: Tensor, start: Tensor, condition: Condition, time: Tensor) -> Tensor:
        """Estimates the clean motion.

        Args:
            x: (b, 80, 265) noisy motion.
            start: (b, 265) motion of the row before the window.
            condition: from `encode` or `unconditioned`.
            time: (b,) diffusion time, 0..999.

        Returns:
            (b, 80, 265), float32 at least.
        """
        dtype = self.final_layer.weight.dtype
        rows = torch.cat([x, start[:, None].expand_as(x)], dim=-1).to(dtype)
        t = self.embed(time)
        memory = self.norm_cond(torch.cat([condition.tokens, self.to_time_tokens(t)], dim=1))  # (b, 82, latent)
        modulation = self.to_time_cond(t) + condition.hidden
        y = self.seqTransDecoder(self.input_projection(rows), memory, modulation)
        return self.final_layer(y).to(wide(dtype))

    def guided(self, x: Tensor, start: Tensor, condition: Condition, time: Tensor, guidance: float) -> Tensor:
        """`forward` with classifier-free guidance (arXiv:2207.12598): unc + guidance * (cond - unc).

        Both passes are one batch.
        """
        both = Condition(*(torch.cat(p) for p in zip(condition, self.unconditioned(len(x)), strict=True)))
        conditioned, free = self(torch.cat([x, x]), torch.cat([start, start]), both, torch.cat([time, time])).chunk(2)
        return free + guidance * (conditioned - free)
