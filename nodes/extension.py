"""What the pack adds to ComfyUI."""

from pathlib import Path

from comfy_api.latest import ComfyExtension, io

from . import host
from .avatar import DittoLoadAvatar, DittoRegisterAvatar, DittoSaveAvatar
from .bulletin import DittoBulletinSegment
from .engine import BuildFusedPostWarpEngine
from .example import DittoExample
from .models import LoadDittoModels
from .motion import DittoAudioToMotion, DittoControls, DittoEmotionSchedule
from .render import DittoRenderFusedTRT
from .stream import DittoStreamChunked
from .video import DittoFramesToImages, NVENCVideoWriter


class DittoExtension(ComfyExtension):
    """The pack's nodes."""

    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        """All nodes of the pack. Called once, before ComfyUI asks any of them for its inputs."""
        host.register_model_folder()
        host.serve_page_files(Path(__file__).parents[1] / "web")
        return [
            LoadDittoModels,
            BuildFusedPostWarpEngine,
            DittoExample,
            DittoRegisterAvatar,
            DittoSaveAvatar,
            DittoLoadAvatar,
            DittoAudioToMotion,
            DittoEmotionSchedule,
            DittoControls,
            DittoRenderFusedTRT,
            DittoStreamChunked,
            NVENCVideoWriter,
            DittoFramesToImages,
            DittoBulletinSegment,
        ]
