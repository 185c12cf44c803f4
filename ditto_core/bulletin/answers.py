"""What a ComfyUI server answers, read as data that nobody vouches for. Pure: bytes and JSON in, checked values out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .errors import ServerAnswerError
from .states import Outcome, Output, State
from .workflow import Workflow

_LONGEST_TEXT = 500
_LONGEST_NAME = 1024
_MOST_OUTPUTS = 1000
# Endings that a result may have here; under any other one it is kept, but nothing opens it by itself.
_ENDINGS = frozenset(
    "mp4 mov mkv webm avi gif png apng jpg jpeg webp exr tiff avif wav flac mp3 opus ogg m4a json txt srt vtt".split()
)
_UNKNOWN_ENDING = "bin"


def printable(text: object) -> str:
    """A server's text for a terminal: one line, no control characters, at most 500 letters."""
    line = " ".join(str(text)[: 4 * _LONGEST_TEXT].split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"


def parse_object(data: bytes, what: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ServerAnswerError: it is something else.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _strange(what, "no JSON") from error
    if not isinstance(value, dict):
        raise _strange(what, "no JSON object")
    return value


def places_in_queue(answer: Mapping[str, Any]) -> dict[str, State]:
    """Prompt id to QUEUED or RUNNING, from `GET /queue`.

    Raises:
        ServerAnswerError: the answer has another form.
    """
    places: dict[str, State] = {}
    for name, state in (("queue_pending", State.QUEUED), ("queue_running", State.RUNNING)):
        items = answer.get(name)
        if not isinstance(items, list):
            raise _strange("/queue", f"no list '{name}'")
        for item in items:
            if not isinstance(item, list) or len(item) < 2:
                raise _strange("/queue", "an item that is no list")
            places[str(item[1])] = state
    return places


def outcome_of(answer: Mapping[str, Any], prompt_id: str, workflow: Workflow) -> Outcome | None:
    """How a prompt ended, from `GET /history/ID`; None where the history does not have it.

    Raises:
        ServerAnswerError: the answer has another form.
    """
    entry = answer.get(prompt_id)
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise _strange("/history", "an entry that is no object")
    status = entry.get("status")
    if not isinstance(status, dict):
        raise _strange("/history", "an entry without status")
    if status.get("status_str") == "success":
        return Outcome(outputs=tuple(_saved(entry.get("outputs"))))
    return Outcome(error=_error_in(status.get("messages"), workflow))


def refusal(data: bytes, workflow: Workflow) -> str:
    """Why a prompt was refused, from the body of the answer to `POST /prompt`."""
    try:
        answer = parse_object(data, "/prompt")
    except ServerAnswerError:
        return printable(data[:_LONGEST_TEXT].decode(errors="replace")) or "no reason given"
    complaints = node_complaints(answer, workflow)
    error = answer.get("error")
    if not complaints and isinstance(error, dict):
        complaints = f"{error.get('message', '')} {error.get('details', '')}"
    return printable(complaints or error or "no reason given")


def node_complaints(answer: Mapping[str, Any], workflow: Workflow) -> str:
    """What the answer to `POST /prompt` says against single nodes; empty where nothing."""
    nodes = answer.get("node_errors")
    found = []
    for node, value in nodes.items() if isinstance(nodes, dict) else ():
        errors = value.get("errors") if isinstance(value, dict) else None
        for error in errors if isinstance(errors, list) else ():
            if isinstance(error, dict):
                found.append(f"{workflow.title(node)}: {error.get('message', '')} ({error.get('details', '')})")
    return printable("; ".join(found))


def uploaded_name(answer: Mapping[str, Any]) -> str:
    """What to call an uploaded file in a prompt, from `POST /upload/image`.

    Raises:
        ServerAnswerError: the answer has another form.
    """
    name, subfolder = answer.get("name"), answer.get("subfolder")
    if not isinstance(name, str) or not isinstance(subfolder, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise _strange("/upload/image", "no name")
    return f"{subfolder}/{name}" if subfolder else name


def float_inputs(answer: Mapping[str, Any], node_class: str) -> set[str]:
    """The inputs of a node class that take fractions, from `GET /object_info/CLASS`; none where it is not known."""
    node = answer.get(node_class)
    groups = node.get("input") if isinstance(node, dict) else None
    return {
        name
        for inputs in (groups.values() if isinstance(groups, dict) else ())
        for name, kind in (inputs.items() if isinstance(inputs, dict) else ())
        if isinstance(kind, list) and kind[:1] == ["FLOAT"]
    }


def local_names(segment: str, outputs: tuple[Output, ...]) -> list[str]:
    """File names here for a segment's results. Of the server's names only a known ending is kept.

    Args:
        segment: the segment's name, without dots.
        outputs: its results.

    Returns:
        `NAME.mp4`, `NAME.2.png`, ... in the order of `outputs`.
    """
    names = []
    for number, output in enumerate(outputs, 1):
        ending = output.filename.rpartition(".")[2].lower()
        ending = ending if ending in _ENDINGS else _UNKNOWN_ENDING
        names.append(f"{segment}.{ending}" if number == 1 else f"{segment}.{number}.{ending}")
    return names


def _saved(outputs: object) -> Iterator[Output]:
    """The files that nodes saved for good; previews lie in the server's temporary folder and are left out."""
    if not isinstance(outputs, dict):
        raise _strange("/history", "no outputs")
    seen: set[Output] = set()
    for lists in outputs.values():
        for items in lists.values() if isinstance(lists, dict) else ():
            for item in items if isinstance(items, list) else ():
                if not isinstance(item, dict) or item.get("type") != "output":
                    continue
                words = (item.get("filename"), item.get("subfolder", ""))
                if not all(isinstance(word, str) and len(word) <= _LONGEST_NAME for word in words) or not words[0]:
                    raise _strange("/history", "a result without a usable name")
                output = Output(filename=words[0], subfolder=str(words[1]), type="output")
                if output not in seen:
                    seen.add(output)
                    yield output
                if len(seen) > _MOST_OUTPUTS:
                    raise _strange("/history", f"more than {_MOST_OUTPUTS} results for one segment")


def _error_in(messages: object, workflow: Workflow) -> str:
    for message in messages if isinstance(messages, list) else ():
        if not isinstance(message, list) or len(message) != 2 or not isinstance(message[1], dict):
            continue
        name, told = message
        if name == "execution_interrupted":
            return "interrupted on the server"
        if name == "execution_error":
            node = workflow.title(str(told.get("node_id")))
            return printable(f"{node}: {told.get('exception_type', 'error')}: {told.get('exception_message', '')}")
    return "it failed on the server, which does not say why"


def _strange(what: str, found: str) -> ServerAnswerError:
    return ServerAnswerError(f"the server's answer to {what} has {found}", remedy="check that it is a ComfyUI")
