"""A comparison in words: its main figures, and what they mean."""

from __future__ import annotations

from typing import Any

CHROMA_BELOW_LUMA_DB = 6.0
"""Coders keep chroma at least as well as luma; further below it, the colour planes were read wrongly."""
APERTURE_PERCENT = 10.0
"""Mean difference of aperture above which mouths differ: what also counts as closed."""
LAG_FRAMES = 0.5
"""Sound and picture part from here on."""
_NAMED = 12


def findings(report: dict[str, Any]) -> list[str]:
    """Sentences on what is wrong with the test; none where nothing was found.

    Args:
        report: of `compare_videos`.
    """
    found: list[str] = []
    a, b = report["reference"], report["test"]
    if a["frames"] != b["frames"]:
        found.append(f"the test has {b['frames']} frames, the reference {a['frames']}")
    pictures = report["pictures"]
    if pictures is not None and pictures["psnr_chroma_db"] < pictures["psnr_y_db"] - CHROMA_BELOW_LUMA_DB:
        found.append(
            f"colour differs where brightness agrees (chroma {pictures['psnr_chroma_db']:.1f} dB, luma "
            f"{pictures['psnr_y_db']:.1f} dB): chroma planes are exchanged or read in another format"
        )
    if spikes := report["steps"]["spikes"]:
        found.append(f"{len(spikes)} spike{'s' * (len(spikes) > 1)} from frame to frame, at {_names(spikes)}")
    shown = report["shown"]
    if shown is not None:
        found += _frames_shown(shown)
    aperture = report["aperture"]
    if aperture is not None:
        found += _mouth(aperture)
    sound = report["lips_and_sound"]
    late = None if sound is None else sound["lips_late_by_frames"]
    if late is not None and abs(late) > LAG_FRAMES:
        side = "after" if late > 0 else "before"
        found.append(f"lips come {abs(late):.1f} frames {side} their sound, compared with the reference")
    return found


def summary(report: dict[str, Any]) -> list[str]:
    """The main figures of a comparison, what was found, and what could not be measured, a line each.

    Args:
        report: of `compare_videos`.
    """
    lines = []
    pictures, aperture, sound = (report[name] for name in ("pictures", "aperture", "lips_and_sound"))
    if pictures is not None:
        lines.append(
            f"{report['compared_frames']} frames: PSNR {pictures['psnr_y_db']:.2f} dB (Y), "
            f"{pictures['psnr_rgb_db']:.2f} dB (RGB), SSIM {pictures['ssim']:.4f}, difference "
            f"{pictures['mean_delta']:.3f} on average, {pictures['largest_delta']:.0f} at most"
        )
    if aperture is not None and aperture["mean_delta_percent"] is not None:
        lines.append(
            f"aperture differs by {aperture['mean_delta_percent']:.2f} % on average, "
            f"{aperture['largest_delta_percent']:.2f} % at most (frame {aperture['largest_delta_frame']})"
        )
    if sound is not None and sound["sound_late_ms"] is not None:
        lines.append(f"sound comes {sound['sound_late_ms']:.0f} ms after the reference's")
    lines += [f"found: {line}" for line in report["findings"]] or ["nothing found"]
    return lines + [f"not measured: {what}: {why}" for what, why in report["not_measured"].items()]


def _frames_shown(shown: dict[str, Any]) -> list[str]:
    found = []
    if shown["late_frames"]:
        side = "after" if shown["late_frames"] > 0 else "before"
        found.append(f"the picture comes {abs(shown['late_frames'])} frames {side} the reference's")
    if shown["duplicated"]:
        found.append(f"{len(shown['duplicated'])} frames are shown twice, at {_names(shown['duplicated'])}")
    if shown["missing"]:
        found.append(f"{len(shown['missing'])} frames of the reference are missing, at {_names(shown['missing'])}")
    return found


def _mouth(aperture: dict[str, Any]) -> list[str]:
    opened, shut = aperture["reference_95th_percentile"], aperture["test_95th_percentile"]
    if opened and shut <= opened * APERTURE_PERCENT / 100:
        return ["the test's mouth stays closed where the reference's opens"]
    if opened and aperture["mean_delta_percent"] > APERTURE_PERCENT:
        return [f"mouths are open {aperture['mean_delta_percent']:.1f} % differently on average"]
    return []


def _names(frames: list[int]) -> str:
    named = ", ".join(str(frame) for frame in frames[:_NAMED])
    return f"{named} and more" if len(frames) > _NAMED else named
