"""A bulletin: many segments rendered by a ComfyUI server through its public API, one prompt each.

    server = ComfyServer("http://127.0.0.1:8188")
    workflow = Workflow.load(Path("workflows/api/offline.json"))
    segments = read_segments(Path("news.csv"), workflow.with_floats(server.float_inputs(workflow)))
    with open_manifest(folder / "manifest.jsonl") as manifest:
        run_bulletin(segments, server, manifest, folder)

It imports nothing of ComfyUI, and looks at the server by polling `/queue` and `/history/ID`: they alone say, after an
outage of either side, what became of a prompt.
"""

from .errors import ManifestError, ServerAnswerError, ServerUnreachableError, TableError, WorkflowError
from .manifest import Manifest, open_manifest
from .run import BulletinView, QueueOptions, run_bulletin
from .server import ComfyServer, ServerLimits
from .states import Output, Progress, ResultFile, State, Step
from .table import LocalFile, Segment, read_segments
from .workflow import Place, Workflow

__all__ = [
    "BulletinView",
    "ComfyServer",
    "LocalFile",
    "Manifest",
    "ManifestError",
    "Output",
    "Place",
    "Progress",
    "QueueOptions",
    "ResultFile",
    "Segment",
    "ServerAnswerError",
    "ServerLimits",
    "ServerUnreachableError",
    "State",
    "Step",
    "TableError",
    "Workflow",
    "WorkflowError",
    "open_manifest",
    "read_segments",
    "run_bulletin",
]
