"""ComfyUI itself: memory, folders, progress, interruption. No other file of the pack imports its internals."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import comfy.model_management
import comfy.model_patcher
import folder_paths
from aiohttp import web
from comfy.cli_args import args
from comfy_api.latest import ComfyAPISync, io, ui
from comfy_execution.progress import get_progress_state
from PIL import Image
from server import PromptServer
from torch import Tensor, device, nn

from ..ditto_core.backends import PRECISIONS, choose_backend, precision_type
from ..ditto_core.checkpoints import MINIATURE_SOURCE, find_models, load_models
from ..ditto_core.checkpoints.layout import NETWORKS
from ..ditto_core.checkpoints.models import BUNDLED as MINIATURE_FOLDER
from ..ditto_core.errors import CheckpointError, InvalidValueError
from ..ditto_core.speech import TransformersHubert, speech_encoder_for
from . import paths
from .types import Models

if TYPE_CHECKING:
    from .live import LiveVideo

_log = logging.getLogger(__name__)

MINIATURE = "miniature (bundled)"
DEVICES = ("auto", "cuda", "cpu")
PRECISION_WORDS = ("auto", *PRECISIONS)
AVATAR_FOLDER, ENGINE_FOLDER = "avatars", "engines"
_MODEL_FOLDERS = "ditto"
_PREVIEW_SIDE = 512
_LIVE_ROUTE = "/ditto/live/"
_LIVE_HEADERS = {
    "Content-Type": "video/mp4",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_POLICY = "Content-Security-Policy"
_LIVE_BYTES = 1 << 18
_LIVE_SECONDS = 0.05


def register_model_folder() -> None:
    """Makes `models/ditto` known, beside what `extra_model_paths.yaml` says."""
    folder_paths.add_model_folder_path(_MODEL_FOLDERS, str(Path(folder_paths.models_dir) / _MODEL_FOLDERS))


def serve_page_files(folder: Path) -> None:
    """Serves the pack's scripts and help pages where ComfyUI can't.

    Its own route never matches where the name of the pack's folder has to be quoted in an address.

    Args:
        folder: `web`, below the pack's folder.
    """
    name = folder.parent.name
    if quote(name) == name:
        return

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return web.FileResponse(paths.existing(folder, request.match_info["file"]))
        except InvalidValueError:
            raise web.HTTPNotFound() from None

    PromptServer.instance.routes.get(f"/extensions/{{pack:{re.escape(name)}}}/{{file:.+}}")(answer)


def serve_live_videos(find: Callable[[str], LiveVideo | None]) -> None:
    """Serves videos while they are made, each to whom knows the token of its run, and as long as that lasts.

    Args:
        find: the video of a token; None for any other text.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        video = find(request.match_info["token"])
        if video is None or request.method != "GET":  # HEAD, too, would wait for the end of the run
            raise web.HTTPNotFound()
        response = web.StreamResponse(headers=_LIVE_HEADERS)
        await response.prepare(request)
        start = 0
        while not video.is_over:
            if data := video.read(start, _LIVE_BYTES):
                await response.write(data)
                start += len(data)
            else:
                await asyncio.sleep(_LIVE_SECONDS)
        await response.write_eof()
        return response

    PromptServer.instance.routes.get(_LIVE_ROUTE + "{token}")(answer)


def let_pages_play_what_they_make() -> None:
    """Lets pages play a video that a script of theirs puts together, as they may show such pictures.

    Under --disable-api-nodes ComfyUI says what its pages may load, and there forgets videos.
    """

    async def extend(_: web.Request, response: web.StreamResponse) -> None:
        policy = response.headers.get(_POLICY)
        if policy is not None and "media-src" not in policy:
            response.headers[_POLICY] = f"{policy.rstrip('; ')}; media-src 'self' blob:"

    PromptServer.instance.app.on_response_prepare.append(extend)


def model_names() -> list[str]:
    """The bundled miniature, and every folder below a model folder that holds models."""
    return list(_models_by_name())


def model_folder(name: str) -> Path:
    """The folder of one of `model_names`; it may be a link, which only the owner of the machine can have made.

    Raises:
        InvalidValueError: there are no such models.
    """
    found = _models_by_name()
    if name not in found:
        raise InvalidValueError(f"models {name!r}", remedy=f"choose {', '.join(found)}")
    return found[name]


def input_names(*endings: str) -> list[str]:
    """Files in ComfyUI's input folder and below, by their endings."""
    return _names(Path(folder_paths.get_input_directory()), endings)


def input_file(name: str) -> Path:
    """A file below ComfyUI's input folder.

    Raises:
        InvalidValueError: see `paths.existing`.
    """
    return paths.existing(folder_paths.get_input_directory(), name)


def avatar_names() -> list[str]:
    """Saved avatars by name and place, such as "anna.safetensors [output]"."""
    return [
        name if place == "input" else f"{name} [{place}]"
        for place, folders in _avatar_folders().items()
        for folder in folders
        for name in _names(folder, (".safetensors",))
    ]


def avatar_file(name: str) -> Path:
    """The file of one of `avatar_names`.

    Raises:
        InvalidValueError: there is no such file, or the name leads elsewhere.
    """
    bare, place = name, "input"
    if name.endswith("]") and " [" in name:
        bare, _, place = name[:-1].rpartition(" [")
    for folder in _avatar_folders().get(place, ()):
        path = paths.inside(folder, bare)
        if path.is_file():
            return path
    raise InvalidValueError(f"avatar {name!r}", remedy="choose a file that Ditto Save Avatar wrote")


def engine_folder() -> Path:
    """Where built engines are kept: below ComfyUI's own model folder, wherever else models lie."""
    return Path(folder_paths.models_dir, _MODEL_FOLDERS, ENGINE_FOLDER)


@dataclass(frozen=True, kw_only=True)
class ResultFile:
    """A file that is to be written below ComfyUI's output or temporary folder.

    Attributes:
        path: where.
        saved: what ComfyUI's page is told.
    """

    path: Path
    saved: ui.SavedResult


def check_prefix(prefix: str) -> None:
    """Raises InvalidValueError where a file name's prefix leads out of the output folder."""
    paths.inside(folder_paths.get_output_directory(), prefix)


def output_file(prefix: str, ending: str, size: tuple[int, int] = (0, 0)) -> ResultFile:
    """The next free name of a prefix in the output folder.

    Args:
        prefix: a name, after folders joined by /; may hold ComfyUI's %date% words.
        ending: such as ".mp4".
        size: height and width, for %height% and %width%.

    Raises:
        InvalidValueError: the prefix leads out of the output folder.
    """
    check_prefix(prefix)
    return _next_file(prefix, ending, size, folder_paths.get_output_directory(), io.FolderType.output)


def show_picture(picture: Image.Image) -> ui.SavedImages:
    """Saves a picture among the temporary files, to be shown on the node."""
    file = _next_file("ditto/plot", ".png", (0, 0), folder_paths.get_temp_directory(), io.FolderType.temp)
    picture.save(file.path, compress_level=1)
    return ui.SavedImages([file.saved])


def temporary_file(prefix: str, ending: str) -> Path:
    """The next free name of a prefix among the files that last until ComfyUI ends."""
    return _next_file(prefix, ending, (0, 0), folder_paths.get_temp_directory(), io.FolderType.temp).path


def _model_folders() -> list[Path]:
    return [Path(folder) for folder in folder_paths.get_folder_paths(_MODEL_FOLDERS)]


def _models_by_name() -> dict[str, Path]:
    found = {MINIATURE: MINIATURE_FOLDER}
    for folder in _model_folders():
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            if entry.is_dir() and entry.name not in (AVATAR_FOLDER, ENGINE_FOLDER) and _holds_models(entry):
                found.setdefault(entry.name, entry)
    return found


def _holds_models(folder: Path) -> bool:
    try:
        find_models(folder)
    except CheckpointError:
        return False
    return True


def _avatar_folders() -> dict[str, list[Path]]:
    return {
        "input": [Path(folder_paths.get_input_directory())],
        "output": [Path(folder_paths.get_output_directory())],
        "models": [folder / AVATAR_FOLDER for folder in _model_folders()],
    }


def _names(folder: Path, endings: tuple[str, ...]) -> list[str]:
    if not folder.is_dir():
        return []
    found = (
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in endings and path.is_file() and not path.is_symlink()
    )
    return sorted(path.relative_to(folder).as_posix() for path in found)


def _next_file(prefix: str, ending: str, size: tuple[int, int], folder: str, kind: io.FolderType) -> ResultFile:
    into, name, counter, subfolder, _ = folder_paths.get_save_image_path(prefix, folder, size[1], size[0])
    filename = f"{name}_{counter:05}_{ending}"
    return ResultFile(path=Path(into, filename), saved=ui.SavedResult(filename, subfolder, kind))


class DittoNetworks(nn.ModuleDict):
    """All networks of one source, whose memory ComfyUI loads and frees as one."""


def load(name: str, device_word: str, precision: str) -> Models:
    """Loads models, in ordinary memory until they are run.

    Args:
        name: one of `model_names`.
        device_word: where they shall run, one of `DEVICES`.
        precision: one of `PRECISION_WORDS`.

    Raises:
        CheckpointError: a file is missing, damaged, unsafe, or does not fit.
        InvalidValueError: there are no such models, or the device can't do that.
    """
    runs_on, rests_on = _device(device_word), comfy.model_management.unet_offload_device()
    source = MINIATURE_SOURCE if name == MINIATURE else model_folder(name)
    loaded = load_models(source, device=rests_on, dtype=precision_type(precision, runs_on))
    networks = dataclasses.replace(loaded, device=runs_on)
    encoder = speech_encoder_for(networks)
    modules = DittoNetworks({name: getattr(networks, name) for name in NETWORKS})
    if isinstance(encoder, TransformersHubert):
        modules["speech_encoder"] = encoder.model.to(rests_on)
    patcher = comfy.model_patcher.ModelPatcher(modules, load_device=runs_on, offload_device=rests_on)
    return Models(networks=networks, encoder=encoder, backend=choose_backend("auto", networks), patcher=patcher)


def bring_in(*models: Models) -> None:
    """Has ComfyUI load models to their device, whole, freeing what else is there where it must."""
    comfy.model_management.load_models_gpu([each.patcher for each in models], force_full_load=True)


def free_memory() -> int:
    """Bytes of the machine's own memory that can be taken."""
    return int(comfy.model_management.get_free_memory(device("cpu")))


def _device(word: str) -> device:
    usual = comfy.model_management.get_torch_device()
    if word == "cpu" or (word == "auto" and usual.type != "cuda"):
        return device("cpu")
    if usual.type != "cuda":
        raise InvalidValueError(
            f"device {word}, where ComfyUI runs on {usual.type}", remedy="choose auto or cpu, or start ComfyUI on a GPU"
        )
    return usual


def check_interrupted() -> None:
    """Raises ComfyUI's own exception where the user has pressed stop."""
    comfy.model_management.throw_exception_if_processing_interrupted()


def is_from_comfy(error: BaseException) -> bool:
    """Whether ComfyUI treats an exception by its type: an interruption, or memory that ran out."""
    kinds = (comfy.model_management.InterruptProcessingException, comfy.model_management.OOM_EXCEPTION)
    return isinstance(error, kinds)


def show_progress(done: int, total: int, *, node: str | None = None, picture: Tensor | None = None) -> None:
    """Moves a node's bar.

    Args:
        done: how much is done.
        total: of how much.
        node: its id; None is the node that runs.
        picture: (H, W, 3) uint8 RGB to show with it.
    """
    preview = None if picture is None else Image.fromarray(picture.cpu().numpy())
    if preview is not None:
        preview.thumbnail((_PREVIEW_SIDE, _PREVIEW_SIDE))
    ComfyAPISync().execution.set_progress(done, total, node_id=node, preview_image=preview)


def end_progress(node: str) -> None:
    """Marks a node that is not the running one as finished."""
    get_progress_state().finish_progress(node)


def say_on_node(text: str, node: str) -> None:
    """Shows a line of text on a node."""
    server = PromptServer.instance
    server.send_progress_text(text, node, server.client_id)


def mark_failed(node: str) -> None:
    """Has the page mark a node that is not the running one as failed."""
    server = PromptServer.instance
    server.send_sync("ditto.frames_failed", {"node": node}, server.client_id)


def has_page() -> bool:
    """Whether whoever started the run listens to what happens."""
    server = PromptServer.instance
    return server.client_id is not None and server.client_id in server.sockets


def show_live_video(node: str, token: str, media_type: str) -> None:
    """Tells the page that started the run, and no other one, where a node's video can be seen while it is made.

    Args:
        node: its id.
        token: see `serve_live_videos`.
        media_type: what a browser calls such a video.
    """
    server = PromptServer.instance
    run = get_progress_state().prompt_id
    told = {"node": node, "prompt_id": run, "address": _LIVE_ROUTE + token, "type": media_type}
    if server.client_id is not None:  # None would tell all pages
        server.send_sync("ditto.live_video", told, server.client_id)


def file_metadata(prompt: Any, extra: Mapping[str, Any] | None) -> dict[str, str]:
    """Prompt and workflow as a file keeps them, so that dropping it on the canvas restores them.

    Empty where ComfyUI was started with --disable-metadata.
    """
    if args.disable_metadata:
        return {}
    texts = {} if prompt is None else {"prompt": json.dumps(prompt)}
    return texts | {name: json.dumps(value) for name, value in (extra or {}).items()}
