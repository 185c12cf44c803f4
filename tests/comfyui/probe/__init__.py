"""A custom node pack for the tests only: tells what happens inside the server's process, and breaks frames.

GET /ditto_probe answers with the objects of ditto_core that are alive, by class name, and with each process and each
connection that code of the pack has started.
"""

import dataclasses
import gc
import sys
from collections import Counter

from aiohttp import web
from server import PromptServer

_PACK = "Ditto"
_WATCHED = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn", "socket.connect"}
_started = []


def _watch(event, arguments):
    if event in _WATCHED:
        frame = sys._getframe()
        while frame is not None:
            if _PACK in frame.f_code.co_filename:
                _started.append(f"{event} {arguments!r:.200} at {frame.f_code.co_filename}:{frame.f_lineno}")
                return
            frame = frame.f_back


sys.addaudithook(_watch)


@PromptServer.instance.routes.get("/ditto_probe")
async def _answer(request):
    gc.collect()
    kinds = (type(thing) for thing in gc.get_objects())
    alive = Counter(kind.__name__ for kind in kinds if ".ditto_core." in str(kind.__module__))
    return web.json_response({"alive": alive, "started": _started})


class _Breaking:
    """Frames of which the first chunk can be made, and no other."""

    def __init__(self, recipe):
        self._recipe = recipe

    def __getattr__(self, name):
        return getattr(self._recipe, name)

    def __len__(self):
        return len(self._recipe)

    def pull(self, **options):
        yield next(self._recipe.pull(**options))
        raise RuntimeError("the ice is thin")


class ProbeBreakingFrames:
    """DITTO_FRAMES that break while they are pulled."""

    RETURN_TYPES = ("DITTO_FRAMES",)
    FUNCTION = "run"
    CATEGORY = "probe"

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"frames": ("DITTO_FRAMES",)}}

    def run(self, frames):
        return (dataclasses.replace(frames, recipe=_Breaking(frames.recipe)),)


NODE_CLASS_MAPPINGS = {"ProbeBreakingFrames": ProbeBreakingFrames}
