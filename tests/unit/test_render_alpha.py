"""Green screen: known mixes are taken apart, and files with alpha are read back."""

from __future__ import annotations

import resource
import wave
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from ditto_core.errors import FileError, InvalidValueError
from ditto_core.render import GreenScreen, fitted_background
from ditto_core.speech import Sound
from ditto_core.video import VideoWriteError, alpha_file

SCREEN = (30, 180, 50)
SIZE = (64, 96)


def mixed(colour: Any, alpha: Tensor) -> Tensor:
    """(n,) shares of a colour before the screen -> (1, 1, n, 3) uint8."""
    front, back = torch.tensor(colour).double(), torch.tensor(SCREEN).double()
    return (alpha[:, None] * front + (1 - alpha[:, None]) * back).round().to(torch.uint8)[None, None]


def ramp() -> Tensor:
    """(1, H, W, 4): colours that change across, alpha down the rows."""
    y, x = torch.meshgrid(torch.linspace(0, 1, SIZE[0]), torch.linspace(0, 1, SIZE[1]), indexing="ij")
    return (torch.stack([x, 1 - x, 0.5 + 0 * x, y], -1) * 255).round().to(torch.uint8)[None]


@settings(max_examples=50)
@given(st.integers(0, 255), st.integers(0, 255), st.floats(0, 1))
def test_a_mix_is_taken_apart(red: int, blue: int, between: float) -> None:
    """A colour whose green equals the larger of the others: its alpha and its own colour come back.

    Blue is the larger one, as in the screen; there the mix is exactly as the formula has it.
    """
    red, blue = sorted((red, blue))
    colour = (red, blue, blue)
    screen = GreenScreen(colour=SCREEN, clear=1, solid=0)
    alpha = torch.tensor([0.0, 0.3, 0.5 + between / 2, 1.0], dtype=torch.float64)
    made = screen.straight(mixed(colour, alpha))[0, 0].double()
    assert (made[:, 3] / 255 - alpha).abs().max() <= 0.01  # the mix is rounded to levels
    assert made[0].tolist() == [0, 0, 0, 0]
    assert (made[2:, :3] - torch.tensor(colour)).abs().max() <= 6


def test_spill_goes_and_skin_stays() -> None:
    screen = GreenScreen(colour=SCREEN)
    skin, spilled = torch.tensor([[200, 150, 120], [120, 126, 110]], dtype=torch.uint8)
    assert screen.straight(skin.view(1, 1, 1, 3)).flatten().tolist() == [200, 150, 120, 255]
    red, green, blue, alpha = screen.straight(spilled.view(1, 1, 1, 3)).flatten().tolist()
    assert alpha == 255 and green == max(red, blue) == 120


def test_the_screen_is_measured_where_the_presenter_is_not() -> None:
    picture = torch.tensor(SCREEN, dtype=torch.uint8).expand(100, 80, 3).clone()
    picture[20:, 20:60] = torch.tensor([200, 150, 120], dtype=torch.uint8)
    picture[60:] = torch.tensor([20, 20, 80], dtype=torch.uint8)
    assert GreenScreen.of(picture).colour == SCREEN


def test_before_another_picture() -> None:
    screen, background = GreenScreen(colour=SCREEN), torch.tensor([10, 20, 200], dtype=torch.uint8).expand(4, 6, 3)
    pictures = torch.tensor(SCREEN, dtype=torch.uint8).expand(2, 4, 6, 3).clone()
    pictures[:, :, 3:] = torch.tensor([200, 150, 120], dtype=torch.uint8)
    made = screen.over(pictures, background)
    assert torch.equal(made[:, :, :3], background[None, :, :3].expand(2, -1, -1, -1))
    assert torch.equal(made[:, :, 3:], pictures[:, :, 3:])


@pytest.mark.parametrize("size", [(64, 96), (96, 64), (30, 200)])
def test_a_background_fills_the_frame_and_keeps_its_shape(size: tuple[int, int]) -> None:
    """A ramp across: it is cut evenly at both ends, never stretched in one direction."""
    picture = torch.linspace(0, 255, 120).round().to(torch.uint8)[None, :, None].expand(80, -1, 3)
    made = fitted_background(picture, size)
    assert made.shape == (*size, 3)
    scale = max(size[0] / 80, size[1] / 120)
    slope = (made[0, -1, 0].item() - made[0, 0, 0].item()) / (size[1] - 1)
    assert slope == pytest.approx(255 / 119 / scale, rel=0.05)
    assert made.float().mean() == pytest.approx(127.5, abs=3)


@pytest.mark.parametrize("arguments", [{"colour": (200, 150, 120)}, {"colour": SCREEN, "solid": 0.95}])
def test_what_is_no_screen(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match="screen of colour|solid"):
        GreenScreen(**arguments)


def rgba_of(frame: av.VideoFrame) -> NDArray[np.uint8]:
    return frame.reformat(format="rgba", src_colorspace=1).to_ndarray()


def test_prores_4444_keeps_colour_alpha_and_sound(tmp_path: Path) -> None:
    pictures, sound = ramp().expand(10, -1, -1, -1), Sound(np.zeros((2, 16000), np.float32), 16000)
    with alpha_file(tmp_path / "a.mov", size=SIZE, sound=sound, metadata={"title": "News"}) as writer:
        writer.write(pictures[:4])
        writer.write(pictures[4:])
    with av.open(str(tmp_path / "a.mov")) as container:
        assert container.metadata["title"] == "News"
        assert container.streams.video[0].codec_context.name == "prores"
        audio = container.streams.audio[0]
        assert float(audio.duration * audio.time_base) == pytest.approx(0.4, abs=0.001)
        frames = list(container.decode(video=0))
        container.seek(0)
        packet = next(packet for packet in container.demux(video=0) if packet.size)
        header = bytes(packet)[8 + 14 : 8 + 17]
        context = container.streams.video[0].codec_context
        assert (context.colorspace, context.color_range, context.color_primaries, context.color_trc) == (1, 1, 1, 1)
        assert header == b"\1\1\1", "primaries, transfer and matrix of the frame itself"
    assert len(frames) == 10
    assert frames[0].format.name.startswith("yuva444p")
    error = np.abs(rgba_of(frames[3]).astype(int) - pictures[3].numpy())
    assert error[..., 3].max() <= 1
    assert error[..., :3].mean() < 2


def test_a_folder_of_png_is_exact_and_has_the_sound(tmp_path: Path) -> None:
    pictures, samples = ramp().expand(3, -1, -1, -1), np.full((1, 1000), 0.5, np.float32)
    with alpha_file(tmp_path / "out", size=SIZE, sound=Sound(samples, 16000), fps=Fraction(25)) as writer:
        writer.write(pictures)
    names = sorted(entry.name for entry in (tmp_path / "out").iterdir())
    assert names == ["000000.png", "000001.png", "000002.png", "sound.wav"]
    with av.open(str(tmp_path / "out" / "000001.png")) as container:
        frame = next(container.decode(video=0))
    assert frame.format.name == "rgba"
    assert np.array_equal(frame.to_ndarray(), pictures[1])
    with wave.open(str(tmp_path / "out" / "sound.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (16000, 1, 3 * 640)
        heard = np.frombuffer(file.readframes(3 * 640), "<i2") / 32767
    assert np.allclose(heard[:1000], 0.5, atol=1e-4) and not heard[1000:].any()


@pytest.mark.parametrize("name", ["a.mov", "out"])
def test_a_stop_midway_leaves_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), alpha_file(tmp_path / name, size=SIZE) as writer:
        writer.write(ramp())
        raise KeyboardInterrupt
    with pytest.raises(VideoWriteError, match="no frame"), alpha_file(tmp_path / name, size=SIZE):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.mov", "out"])
def test_an_error_of_the_rendering_is_not_one_of_the_file(name: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the camera is gone"), alpha_file(tmp_path / name, size=SIZE) as writer:
        writer.write(ramp())
        raise OSError("the camera is gone")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a.mov", "out"])
def test_full_disk(name: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    noise = torch.randint(0, 256, (30, *SIZE, 4), dtype=torch.uint8)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, hard))
    try:
        with (
            pytest.raises(VideoWriteError, match="could not be written.*room"),
            alpha_file(tmp_path / name, size=SIZE) as writer,
        ):
            writer.write(noise)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_names_and_shapes_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match=r"a\.mp4"), alpha_file(tmp_path / "a.mp4", size=SIZE):
        pass
    with pytest.raises(InvalidValueError, match="pictures of shape"), alpha_file(tmp_path / "o", size=SIZE) as writer:
        writer.write(ramp()[..., :3])
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    with pytest.raises(FileError, match="exists already"), alpha_file(tmp_path / "taken", size=SIZE):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
