"""The client against a server that answers as no server should; over real sockets."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bulletin import workflow_nodes
from support.loopback import Loopback

from ditto_core.bulletin import ComfyServer, Output, ServerAnswerError, ServerLimits, ServerUnreachableError, Workflow
from ditto_core.bulletin.answers import float_inputs, local_names, outcome_of, places_in_queue, printable, uploaded_name
from ditto_core.errors import InvalidValueError

WORKFLOW = Workflow(workflow_nodes())
SMALL = ServerLimits(silence_s=2, answer_bytes=1000, result_bytes=1000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "status", "status_str", "outputs", "messages", "3", "images", "filename", "type"]),
            inner | st.sampled_from(["success", "output", "execution_error"]),
            max_size=4,
        )
    ),
    max_leaves=20,
)
RESULT = Output(filename="news_00001_.mp4", subfolder="", type="output")


@pytest.fixture
def loopback():
    with Loopback() as server:
        yield server


@given(answer=st.dictionaries(st.sampled_from(["id", "queue_running", "queue_pending", "name", "subfolder"]), JSON))
def test_any_json_is_understood_or_refused(answer):
    def floats(answer):
        return float_inputs(answer, "id")

    def outcome(answer):
        return outcome_of(answer, "id", WORKFLOW)

    for read in (places_in_queue, uploaded_name, floats, outcome):
        try:
            read(answer)
        except ServerAnswerError as error:
            assert error.remedy


@given(names=st.lists(st.text(max_size=12) | st.sampled_from(["../../x.MP4", "a.sh", "C:\\x.exe", ".png"]), max_size=4))
def test_a_name_from_a_server_never_becomes_a_path(names):
    outputs = tuple(Output(filename=name, subfolder="../..", type="output") for name in names)
    local = local_names("001", outputs)
    assert len({name.casefold() for name in local}) == len(names)
    for name in local:
        assert name.startswith("001.") and name.replace(".", "").isalnum()
        assert not name.endswith((".sh", ".exe"))


def test_a_path_in_a_name_is_written_in_the_output_folder_only(loopback, tmp_path):
    loopback.results["../../evil.mp4"] = b"video"
    out = tmp_path / "a" / "b"
    out.mkdir(parents=True)
    evil = Output(filename="../../evil.mp4", subfolder="../..", type="output")
    (name,) = local_names("001", (evil,))
    assert ComfyServer(loopback.url).download(evil, out / name).size == 5
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")] == ["a/b/001.mp4"]


@pytest.mark.parametrize("headers", [{}, {"Content-Length": ""}], ids=["length told", "length hidden"])
def test_a_huge_answer_is_refused(loopback, tmp_path, headers):
    loopback.headers = headers
    loopback.answers = {path: [(200, b"x" * 5_000_000)] for path in ("/queue", "/view")}
    server = ComfyServer(loopback.url, limits=SMALL)
    with pytest.raises(ServerAnswerError, match="/queue is larger than 1000 bytes"):
        server.queue()
    with pytest.raises(ServerAnswerError, match="/view is larger than 1000 bytes|without its length"):
        server.download(RESULT, tmp_path / "001.mp4")
    assert not list(tmp_path.iterdir())


def test_a_huge_promise_is_refused_before_a_byte_of_it_is_read(loopback, tmp_path):
    loopback.headers = {"Content-Length": "1000000000000"}
    loopback.answers["/view"] = [(200, b"")]
    with pytest.raises(ServerAnswerError, match="larger than 1000 bytes"):
        ComfyServer(loopback.url, limits=SMALL).download(RESULT, tmp_path / "001.mp4")


def test_an_answer_ends_where_it_promised_to(loopback, tmp_path):
    loopback.headers = {"Content-Length": "900"}
    loopback.answers["/view"] = [(200, b"x" * 5_000_000)]
    assert ComfyServer(loopback.url, limits=SMALL).download(RESULT, tmp_path / "001.mp4").size == 900


def test_a_result_that_breaks_off_leaves_no_file(loopback, tmp_path):
    loopback.headers = {"Content-Length": "900"}
    loopback.answers["/view"] = [(200, b"half")]
    with pytest.raises(ServerUnreachableError, match="broke off|does not answer"):
        ComfyServer(loopback.url, limits=SMALL).download(RESULT, tmp_path / "001.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b"[" * 900, b'{"system":', b"{}"])
def test_what_is_no_comfyui_is_told(loopback, body):
    loopback.answers["/system_stats"] = [(200, body)]
    with pytest.raises(ServerAnswerError, match="Check (the address|that it is a ComfyUI)"):
        ComfyServer(loopback.url, limits=SMALL).check()


def test_a_redirect_is_not_followed(loopback):
    loopback.headers = {"Location": "http://127.0.0.1:9/"}
    loopback.answers["/system_stats"] = [(302, b"")]
    with pytest.raises(ServerAnswerError, match="answers 302"):
        ComfyServer(loopback.url).check()


def test_a_proxy_without_its_server_counts_as_away(loopback):
    loopback.answers["/queue"] = [(503, b"later")]
    with pytest.raises(ServerUnreachableError, match="answers 503"):
        ComfyServer(loopback.url).queue()


def test_a_dripping_answer_meets_the_clock():
    """Each byte comes in time, the whole never does. The clock is ours: each look at it lets one byte through."""
    listener = socket.create_server(("127.0.0.1", 0))
    looked = threading.Semaphore(0)

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            for _ in range(2):
                looked.acquire()
                connection.sendall(b" ")
            connection.recv(1)

    ticks = iter(range(0, 1000, 100))

    def clock() -> float:
        looked.release()
        return next(ticks)

    thread = threading.Thread(target=drip)
    thread.start()
    with listener, pytest.raises(ServerAnswerError, match="takes longer than 120 s"):
        ComfyServer(f"http://127.0.0.1:{listener.getsockname()[1]}", clock=clock).queue()
    thread.join()


def test_no_server_is_told_with_the_address():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ServerUnreachableError, match=f"http://127.0.0.1:{port} does not answer.*refused"):
        ComfyServer(f"http://127.0.0.1:{port}").check()


@pytest.mark.parametrize("url", ["", "host:8188", "ftp://host", "http://", "http://me:secret@host", "http://h:99999"])
def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(InvalidValueError, match="Write http://HOST:PORT"):
        ComfyServer(url)


def test_a_refused_prompt_says_which_node_and_why(loopback):
    answer = {
        "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation"},
        "node_errors": {"1": {"errors": [{"message": "Value too big", "details": "color\x1b[2J"}], "class_type": "X"}},
    }
    server = ComfyServer(loopback.url)
    for status, told in ((400, "refused: Picture: Value too big"), (200, "refused in part: Picture: Value too big")):
        loopback.answers["/prompt"] = [(status, json.dumps({**answer, "prompt_id": "p"}).encode())]
        with pytest.raises(ServerAnswerError, match=told) as caught:
            server.submit(workflow_nodes(), prompt_id="p", client_id="c", workflow=WORKFLOW)
        assert "\x1b" not in str(caught.value)


def test_a_server_that_gives_prompts_names_of_its_own_is_refused(loopback):
    """Without our own identity, a prompt whose answer gets lost could never be found again."""
    loopback.answers["/prompt"] = [(200, b'{"prompt_id": "other"}')]
    with pytest.raises(ServerAnswerError, match="does not take a prompt_id.*Update ComfyUI"):
        ComfyServer(loopback.url).submit({}, prompt_id="p", client_id="c", workflow=WORKFLOW)


@given(text=st.text(max_size=2000))
def test_a_servers_text_is_one_printable_line(text):
    line = printable(text)
    assert len(line) <= 500 and (line.isprintable() or not line)


def test_a_password_in_a_url_is_not_shown():
    with pytest.raises(InvalidValueError) as caught:
        ComfyServer("http://me:secret@host")
    assert "secret" not in str(caught.value)
