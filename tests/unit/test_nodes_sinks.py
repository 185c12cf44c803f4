"""Where a node may send a stream: what the server's owner allows, and nothing that only looks like it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pack import pack_module

sinks = pack_module("nodes.sinks")
errors = pack_module("ditto_core.errors")

words = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=8)
hosts = st.lists(words.filter(lambda word: word[0] != "-"), min_size=1, max_size=3).map(".".join)
protocols = st.sampled_from(["rtmp", "rtmps", "srt", "udp", "tcp", "s3", "memory"])
ports = st.one_of(st.just(""), st.integers(1, 65535).map(":{}".format))
folders = st.lists(words, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))


@given(protocols, hosts, ports, folders, folders)
def test_all_below_a_prefix_is_allowed(protocol, host, port, base, rest) -> None:
    prefix = f"{protocol}://{host}{port}{base}"
    assert sinks.allows(prefix, prefix + rest)
    assert sinks.allows(f"{prefix}/", f"{prefix}/x{rest}")


@given(protocols, hosts, ports, folders, words)
def test_a_longer_host_port_or_folder_is_another_one(protocol, host, port, base, more) -> None:
    prefix = f"{protocol}://{host}{port}{base}"
    assert not sinks.allows(prefix, f"{prefix}{more}" if base or not port else f"{prefix}{int(port[1:]) % 65535 + 1}")
    assert not sinks.allows(prefix, f"{protocol}://{host}.{more}{port}{base}/x")
    assert not sinks.allows(prefix, f"{protocol}://{more}.{host}{port}{base}/x")


@given(protocols, hosts, words, folders)
def test_what_logs_in_can_not_stand_for_the_host(protocol, host, other, base) -> None:
    assert not sinks.allows(f"{protocol}://{host}{base}", f"{protocol}://{host}@{other}-{host}{base}/x")
    assert not sinks.allows(f"{protocol}://{host}{base}", f"{protocol}://{host}:1@evil.{other}{base}/x")


@given(hosts, folders, st.sampled_from(["..", ".", "%2e%2e", "%2E.", "..%2f..", "a%2f..%2f.."]), words)
def test_no_path_climbs_out(host, base, climb, rest) -> None:
    assert not sinks.allows(f"s3://{host}{base}", f"s3://{host}{base}/{climb}/{rest}.mp4")


@given(st.text(max_size=40))
def test_any_text_is_answered(text) -> None:
    assert not sinks.allows("rtmp://a.example/live", text) or text.lower().startswith("rtmp://")
    sinks.without_credentials({"class_type": "NVENCVideoWriter", "inputs": {"sink": text}})


@pytest.mark.parametrize(
    ("prefix", "address", "expected"),
    [
        ("rtmp://a.example", "rtmp://a.example/live/key", True),
        ("rtmp://a.example", "rtmp://me:secret@A.Example:1935/live", True),
        ("rtmp://a.example:1935", "RTMP://a.example/live", True),
        ("srt://a.example:9000", "srt://a.example:9000?passphrase=secret", True),
        ("rtmp://a.example/live", "rtmp://a.example/live", True),
        ("s3://bucket/a/", "s3://bucket/a/b.mp4", True),
        ("rtmp://a.example", "rtmp://a.example.evil/", False),
        ("rtmp://a.example", "rtmp://a.example@evil/", False),
        ("rtmp://a.example", "rtmp://evil/a.example", False),
        ("rtmp://a.example", "rtmp://a.example:99/", False),
        ("rtmp://a.example", "rtmps://a.example/", False),
        ("rtmp://a.example/live", "rtmp://a.example/liver", False),
        ("rtmp://a.example/live", "rtmp://a.example", False),
        ("rtmp://a.example/live", "rtmp://a.example/live/../other", False),
        ("rtmp://a.example/live", "rtmp://a.example/live\\..\\other", False),
        ("rtmp://a.example", "rtmp://a.example\n.evil/", False),
        ("rtmp://a.example", "rtmp:a.example", False),
        ("rtmp://a.example", "rtmp://a.example:port/", False),
        ("rtmp://", "rtmp://a.example", False),
        ("memory://a", "memory://a/b.mp4::file:///c.mp4", False),
        ("s3://bucket", "s3://other@bucket/b.mp4", False),
        ("s3://bucket", "s3://bucket/b.mp4?x", False),
        ("", "rtmp://a.example", False),
        ("*", "rtmp://a.example", False),
    ],
)
def test_known_pairs(prefix: str, address: str, expected: bool) -> None:
    assert sinks.allows(prefix, address) is expected


@pytest.mark.parametrize("variable", [None, "", " , ", "rtmp://b.example, s3://bucket"])
def test_what_is_not_allowed_is_refused_without_its_key(monkeypatch, variable: str | None) -> None:
    monkeypatch.delenv(sinks.VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(sinks.VARIABLE, variable)
    with pytest.raises(errors.InvalidValueError, match=sinks.VARIABLE) as caught:
        sinks.check_sink("rtmp://me:hunter2@a.example/live/hunter2")
    assert "hunter2" not in str(caught.value) and "rtmp://a.example" in str(caught.value)


@pytest.mark.parametrize("variable", ["rtmp://b.example,rtmp://a.example", "udp://x:1 rtmp://a.example/live"])
def test_commas_and_spaces_part_what_is_allowed(monkeypatch, variable: str) -> None:
    monkeypatch.setenv(sinks.VARIABLE, variable)
    sinks.check_sink("rtmp://a.example/live/hunter2")


@pytest.mark.parametrize(
    "address", ["video.mp4", "/etc/video.mp4", "file:", "rtmp://[hunter2", "tcp://a b", "x" * 5000]
)
def test_a_sink_is_an_address(monkeypatch, address: str) -> None:
    monkeypatch.setenv(sinks.VARIABLE, "rtmp://a.example")
    with pytest.raises(errors.InvalidValueError, match="no plain address") as caught:
        sinks.check_sink(address)
    assert "hunter2" not in str(caught.value)


def test_a_file_names_sinks_without_their_keys() -> None:
    address, other = "rtmp://me:hunter2@a.example/live/hunter2", "srt://b.example:9000?passphrase=hunter2"
    writer = {"class_type": "NVENCVideoWriter", "inputs": {"sink": address, "frames": ["1", 0], "fps": 25.0}}
    prompt = {"1": {"class_type": "LoadImage", "inputs": {"image": "http://c.example/?a=b"}}, "2": writer}
    muted = {"type": "NVENCVideoWriter", "mode": 2, "widgets_values": [25, "auto", other]}
    subgraph = {"type": "3fae-uuid", "widgets_values": [address]}
    workflow = {"workflow": {"nodes": [muted, subgraph, {"type": "Note", "widgets_values": ["see http://d.example"]}]}}
    kept = sinks.without_credentials([prompt, workflow])
    assert "hunter2" not in json.dumps(kept)
    assert kept[0]["2"]["inputs"] == {"sink": "rtmp://a.example", "frames": ["1", 0], "fps": 25.0}
    assert kept[1]["workflow"]["nodes"][0]["widgets_values"] == [25, "auto", "srt://b.example:9000"]
    assert kept[0]["1"] == prompt["1"] and kept[1]["workflow"]["nodes"][2] == workflow["workflow"]["nodes"][2]
    assert prompt["2"]["inputs"]["sink"] == address, "the prompt that runs is left alone"
