"""A presenter and a sentence that come with the pack."""

from __future__ import annotations

from comfy_api.latest import io

from . import media
from .types import CATEGORY, check_choices, verdict

_PRESENTERS = {"presenter": "presenter.png"}
_SENTENCES = {"news": "news.wav"}


class DittoExample(io.ComfyNode):
    """Something to start with."""

    @classmethod
    def define_schema(cls) -> io.Schema:
        """Inputs and outputs."""
        return io.Schema(
            node_id="DittoExample",
            display_name="Ditto Example",
            category=CATEGORY,
            description="A drawn presenter and a spoken sentence to try everything with. Put LoadImage and LoadAudio "
            "in its place for your own.",
            inputs=[
                io.Combo.Input(
                    "presenter", options=list(_PRESENTERS), tooltip="The picture, of the kind that the miniature knows."
                ),
                io.Combo.Input("sentence", options=list(_SENTENCES), tooltip="What is said."),
            ],
            outputs=[
                io.Image.Output(display_name="image", tooltip="The presenter."),
                io.Audio.Output(display_name="audio", tooltip="The sentence."),
            ],
        )

    @classmethod
    def validate_inputs(cls, sentence: str | None) -> bool | str:
        """Checks the word."""
        return verdict(lambda word: check_choices({"sentence": (word, list(_SENTENCES))}), sentence)

    @classmethod
    def execute(cls, presenter: str, sentence: str) -> io.NodeOutput:
        """Reads the files."""
        check_choices({"presenter": (presenter, list(_PRESENTERS)), "sentence": (sentence, list(_SENTENCES))})
        return io.NodeOutput(
            media.image_of_file(media.BUNDLED / _PRESENTERS[presenter]),
            media.audio_of_file(media.BUNDLED / _SENTENCES[sentence]),
        )
