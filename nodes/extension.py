"""What the pack adds to ComfyUI."""

from pathlib import Path

from comfy_api.latest import ComfyExtension, io

from . import host, live
from .avatar import DittoLoadAvatar, DittoRegisterAvatar, DittoSaveAvatar
from .bulletin import DittoBulletinSegment
from .compare import DittoCompareVideos
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
        host.serve_live_videos(live.VIDEOS.find)
        host.let_pages_play_what_they_make()
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
            DittoCompareVideos,
            DittoBulletinSegment,
        ]
