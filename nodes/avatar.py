"""Presenters: registered, saved, loaded."""

from __future__ import annotations

from typing import Any

from comfy_api.latest import io

from ..ditto_core.avatar import Avatar, CropRequest, analysis_for, register
from . import host, media, paths
from .types import CATEGORY, AvatarType, Models, ModelsType, check_choices, verdict

_CROPS = ("auto", "full", "box")
_EYES_NEUTRAL = "eyes not measured: neutral values stand for them"


class DittoRegisterAvatar(io.ComfyNode):
    """A picture or a video becomes a presenter."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoRegisterAvatar",
            display_name="Ditto Register Avatar",
            category=CATEGORY,
            description="Finds the face in a picture or a video and keeps all that rendering needs of it.",
            inputs=[
                ModelsType.Input("models", tooltip="From Load Ditto Models."),
                io.MultiType.Input(
                    "image",
                    [io.Image, io.Video],
                    tooltip="One picture, from LoadImage; or a video of the presenter, from LoadVideo.",
                ),
                io.Combo.Input(
                    "crop",
                    options=list(_CROPS),
                    default="auto",
                    tooltip="auto finds the face (the official models need their detectors for that); full takes the "
                    "whole picture as the face's square; box takes the square below.",
                ),
                io.Int.Input(
                    "face",
                    default=0,
                    min=0,
                    max=63,
                    tooltip="With auto and detectors: which face, counted from 0, the largest. Else 0.",
                ),
                io.Float.Input(
                    "box_x",
                    default=0.0,
                    min=-100000.0,
                    max=100000.0,
                    step=1.0,
                    tooltip="With box: left edge of the square, in pixels of the picture.",
                ),
                io.Float.Input(
                    "box_y",
                    default=0.0,
                    min=-100000.0,
                    max=100000.0,
                    step=1.0,
                    tooltip="With box: top edge of the square, in pixels of the picture.",
                ),
                io.Float.Input(
                    "box_size",
                    default=512.0,
                    min=32.0,
                    max=100000.0,
                    step=1.0,
                    tooltip="With box: side of the square, in pixels of the picture; 2.3 times the face's height.",
                ),
                io.Float.Input(
                    "box_degrees",
                    default=0.0,
                    min=-180.0,
                    max=180.0,
                    step=0.5,
                    tooltip="With box: how far the square is turned clockwise, to set a tilted head upright.",
                ),
            ],
            outputs=[AvatarType.Output(display_name="avatar", tooltip="The presenter.")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def validate_inputs(cls, crop: str | None) -> bool | str:
        """Checks the word."""
        return verdict(_check_crop, crop)

    @classmethod
    def execute(
        cls,
        models: Models,
        image: Any,
        crop: str,
        face: int,
        box_x: float,
        box_y: float,
        box_size: float,
        box_degrees: float,
    ) -> io.NodeOutput:
        """Registers, and says on the node where the eyes could not be measured."""
        _check_crop(crop)
        request = CropRequest(mode=crop, box=(box_x, box_y, box_size, box_degrees) if crop == "box" else None)
        source = media.presenter_of(image)
        host.bring_in(models)
        avatar = register(
            source,
            models.networks,
            analysis=analysis_for(models.networks, request),
            crop=request,
            face=face,
            progress=host.show_progress,
            check_cancelled=host.check_interrupted,
        )
        if not avatar.eyes_measured:
            host.say_on_node(_EYES_NEUTRAL, cls.hidden.unique_id)
        return io.NodeOutput(avatar)


class DittoSaveAvatar(io.ComfyNode):
    """A presenter becomes a file."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoSaveAvatar",
            display_name="Ditto Save Avatar",
            category=CATEGORY,
            description="Writes a presenter to the output folder. The file holds the picture or video as well, "
            "and fits only the models that it was registered with.",
            inputs=[
                AvatarType.Input("avatar", tooltip="From Ditto Register Avatar."),
                io.String.Input(
                    "filename_prefix",
                    default="avatars/presenter",
                    tooltip="Folder and name below ComfyUI's output folder; a number is added.",
                ),
            ],
            outputs=[
                AvatarType.Output(display_name="avatar", tooltip="The presenter, unchanged."),
                io.String.Output(display_name="file", tooltip="The file, as Ditto Load Avatar names it."),
            ],
            hidden=[io.Hidden.unique_id],
            is_output_node=True,
        )

    @classmethod
    def validate_inputs(cls, filename_prefix: str | None) -> bool | str:
        """Checks that the file lies below the output folder."""
        return verdict(host.check_prefix, filename_prefix)

    @classmethod
    def execute(cls, avatar: Avatar, filename_prefix: str) -> io.NodeOutput:
        """Saves."""
        file = host.output_file(filename_prefix, ".safetensors")
        avatar.save(file.path)
        name = "/".join(part for part in (file.saved.subfolder, file.saved.filename) if part) + " [output]"
        host.say_on_node(name, cls.hidden.unique_id)
        return io.NodeOutput(avatar, name, ui={"text": [name]})


class DittoLoadAvatar(io.ComfyNode):
    """A file becomes a presenter."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoLoadAvatar",
            display_name="Ditto Load Avatar",
            category=CATEGORY,
            description="Reads a presenter that Ditto Save Avatar or the command line wrote.",
            inputs=[
                ModelsType.Input("models", tooltip="The models that the presenter was registered with."),
                io.Combo.Input(
                    "file",
                    options=host.avatar_names(),
                    tooltip="A .safetensors file in ComfyUI's input or output folder, or in models/ditto/avatars.",
                ),
            ],
            outputs=[AvatarType.Output(display_name="avatar", tooltip="The presenter.")],
        )

    @classmethod
    def validate_inputs(cls, file: str | None) -> bool | str:
        """Checks that the file is there, and where it may be."""
        return verdict(host.avatar_file, file)

    @classmethod
    def fingerprint_inputs(cls, file: str | None, **_: Any) -> str | float:
        """Changes with the file; always, where a link brings its name."""
        return float("nan") if file is None else paths.state([host.avatar_file(file)])

    @classmethod
    def execute(cls, models: Models, file: str) -> io.NodeOutput:
        """Reads."""
        return io.NodeOutput(Avatar.load(host.avatar_file(file), models=models.networks.fingerprint))


def _check_crop(word: str) -> None:
    check_choices({"crop": (word, _CROPS)})
