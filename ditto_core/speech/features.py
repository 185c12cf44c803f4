"""Speech features: one row a video frame, whole or as the sound arrives, with the same bits."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InvalidValueError
from .hubert import SpeechEncoder
from .windows import SpeechWindows, frame_count

MAX_BATCH = 256


class FeatureStream:
    """Computes rows of speech features from a signal that arrives bit by bit.

    Window k is always encoded at place k mod batch of a batch of exactly `batch` windows, empty places being
    silent. A library's kernels may differ in their last bits between batch sizes and places; only this makes
    the rows independent of how the signal is cut.

    Args:
        encoder: the speech encoder.
        windows: the geometry.
        batch: windows a call, 1 to 256. A larger one is faster for whole files; 1 wastes nothing when live.

    Raises:
        InvalidValueError: batch is out of range.
    """

    def __init__(self, encoder: SpeechEncoder, windows: SpeechWindows, *, batch: int) -> None:
        if not 1 <= batch <= MAX_BATCH:
            raise InvalidValueError(f"speech batch of {batch!r} windows", remedy=f"use 1 to {MAX_BATCH}")
        self._encoder = encoder
        self._windows = windows
        self._batch = batch
        self._held = np.zeros(windows.lead, np.float32)
        self._received = 0
        self._next_window = 0
        self._finished = False

    def push(self, signal: NDArray[np.float32]) -> Tensor:
        """Takes more of the signal.

        Args:
            signal: (n,) mono at 16 kHz; n may be 0.

        Returns:
            (rows, F) float32 on the CPU: the rows that became computable, maybe none.

        Raises:
            InvalidValueError: another shape, or the signal was already finished.
        """
        if self._finished:
            raise InvalidValueError("speech signal pushed after its end", remedy="use a new FeatureStream")
        if signal.ndim != 1:
            raise InvalidValueError(f"speech signal of shape {signal.shape}", remedy="pass mono samples (n,)")
        self._received += len(signal)
        self._held = np.concatenate([self._held, signal.astype(np.float32, copy=False)])
        return self._up_to(self._windows.ready(self._received))

    def finish(self, rows: int | None = None) -> Tensor:
        """Ends the signal; silence follows it.

        Args:
            rows: rows of the whole signal; by default its video frames. Upstream's plans ask for others.

        Returns:
            (rows, F) float32 on the CPU: the remaining rows.

        Raises:
            InvalidValueError: more rows than asked for were already given.
        """
        given = self._next_window * self._windows.hop
        total = frame_count(self._received) if rows is None else rows
        if total < given:
            raise InvalidValueError(f"{total} rows asked for, {given} already given", remedy="ask for more rows")
        self._finished = True
        end = self._windows.count(total)
        missing = (end - 1 - self._next_window) * self._windows.step + self._windows.length - len(self._held)
        self._held = np.concatenate([self._held, np.zeros(max(0, missing), np.float32)])
        return self._up_to(end)[: total - given]

    def _up_to(self, end: int) -> Tensor:
        rows = [torch.empty(0, self._encoder.features)]
        first = self._next_window
        while first < end:
            stop = min(end, (first // self._batch + 1) * self._batch)
            rows.append(self._encode(first, stop))
            first = stop
        drop = (first - self._next_window) * self._windows.step
        self._held = self._held[drop:]
        self._next_window = first
        return torch.cat(rows)

    def _encode(self, first: int, stop: int) -> Tensor:
        geometry, place = self._windows, first % self._batch
        batch = torch.zeros(self._batch, geometry.length)
        for i in range(stop - first):
            start = (first + i - self._next_window) * geometry.step
            batch[place + i] = torch.from_numpy(self._held[start : start + geometry.length])
        frames = self._encoder.encode(batch)
        expected = (self._batch, geometry.encoder_frames, self._encoder.features)
        if frames.shape != expected:
            raise InvalidValueError(
                f"speech encoder that gives {tuple(frames.shape)} for {tuple(batch.shape)}, not {expected}",
                remedy="use a HuBERT encoder of 50 frames a second",
            )
        kept = frames[place : place + stop - first, geometry.kept_frames].float().cpu()
        pairs = kept.reshape(stop - first, geometry.hop, 2, self._encoder.features)
        return pairs.mean(dim=2).flatten(0, 1)


def speech_features(
    signal: NDArray[np.float32],
    encoder: SpeechEncoder,
    *,
    hop: int,
    lead: int,
    batch: int,
    rows: int | None = None,
) -> Tensor:
    """Speech features of a whole signal; bit for bit what a `FeatureStream` gives.

    Args:
        signal: (n,) mono at 16 kHz.
        encoder: the speech encoder.
        hop: rows a window, 1 to 5.
        lead: samples of silence before the signal.
        batch: windows a call of the encoder, 1 to 256.
        rows: rows wanted; by default the signal's video frames, ceil(n / 640).

    Returns:
        (rows, F) float32 on the CPU, 25 rows a second.

    Raises:
        InvalidValueError: an argument is out of range.
    """
    stream = FeatureStream(encoder, SpeechWindows.with_hop(hop, lead=lead), batch=batch)
    return torch.cat([stream.push(signal), stream.finish(rows)])
