"""Who may ask, what is refused, and live questions over a WebSocket."""

from __future__ import annotations

import json
import socket
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from sgfi.explorer.inputs import BYTES
from sgfi.explorer.server import Gate
from sgfi.explorer.site import Site
from tests.explorer.serving import TOKEN, Running, picture


def names(site: Site) -> tuple[str, str]:
    return next(iter(site.workspace.lenses)), next(iter(site.workspace.inputs))


def live(running: Running, **options: Any):
    return connect(f"ws://127.0.0.1:{running.port}/live?token={TOKEN}", **options)


def heard(talk, until=("done", "failed", "cancelled"), count: int = 1) -> list[dict]:
    """Messages until ``count`` of them end something."""
    messages: list[dict] = []
    while sum(message["state"] in until for message in messages) < count:
        messages.append(json.loads(talk.recv(timeout=60)))
    return messages


def test_the_page_and_its_policy_need_no_token_and_everything_else_does(running: Running) -> None:
    assert running.get("/", token=None)[0] == 200
    assert running.get("/assets/explorer.js", token=None)[0] == 200
    for token in (None, "wrong", TOKEN[:-1]):
        status, body = running.get("/api/models", token=token)
        assert status == 403 and set(json.loads(body)["error"]) == {"expected", "got", "todo"}
    assert running.get(f"/api/health?token={TOKEN}", token=None)[0] == 200


def test_strict_headers(running: Running) -> None:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/") as reply:
        policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}", ""]
)
def test_a_forged_host_is_refused(running: Running, host: str) -> None:
    for path in ("/", "/api/health"):
        assert running.get(path, Host=host.format(port=running.port))[0] in (400, 403)


def test_pages_from_elsewhere_may_not_ask(running: Running) -> None:
    assert running.get("/api/health", Origin="http://evil.example")[0] == 403
    assert running.get("/api/health", Origin="null")[0] == 403
    assert running.get("/api/health", Origin=f"http://127.0.0.1:{running.port}")[0] == 200
    with pytest.raises(InvalidStatus), live(running, origin="http://evil.example"):
        pass
    with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{running.port}/live?token=wrong"):
        pass


def test_any_address_still_needs_an_address_in_the_host() -> None:
    gate = Gate(TOKEN, "0.0.0.0", 80)
    gate.check_origin({"host": "192.168.1.7:80"})
    with pytest.raises(Exception, match="Host"):
        gate.check_origin({"host": "rebound.example:80"})


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/server.py",
        "/input/{lens}/%2e%2e%2ftoken.png",
        "/inverse/{lens}/..%2f..%2ftoken/two:3.safetensors",
        "/assets/explorer.js/..",
        "/" + "a" * 5000,
    ],
)
def test_traversal_is_refused(running: Running, path: str) -> None:
    lens, _ = names(running.site)
    with socket.create_connection(("127.0.0.1", running.port)) as raw:  # no client that would tidy the path up
        head = f"GET {path.format(lens=lens)} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n"
        raw.sendall(f"{head}Authorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.split()[1] in (b"400", b"404")
    assert b"root:" not in answer and running.site.workspace.store.token().encode() not in answer


def test_an_upload_is_named_by_its_bytes_and_can_be_asked_about(running: Running) -> None:
    status, body = running.get("/api/inputs?name=new", data=picture(7), Content_Type="image/png")
    assert status == 201
    sha = json.loads(body)["sha"]
    lens, _ = names(running.site)
    assert running.get(f"/inverse/{lens}/{sha}/two:3.png")[0] == 200
    assert sha in {entry["sha"] for entry in running.json("/api/inputs")}


def huge_picture() -> bytes:
    """A few bytes that say 20,000 by 20,000 pixels."""
    file = BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")
    return file.getvalue()


def oversized(running: Running, *parts: bytes) -> bytes:
    """The status that an upload gets which is too large."""
    with socket.create_connection(("127.0.0.1", running.port)) as raw:
        head = f"POST /api/inputs HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(head.encode())
        for part in parts:
            raw.sendall(part)
        return raw.recv(4096).split()[1]


def test_uploads_are_limited_in_bytes_pixels_and_kind(running: Running) -> None:
    before = len(running.site.workspace.inputs)
    assert oversized(running, f"Content-Length: {BYTES + 1}\r\n\r\n".encode()) == b"413"  # said, and not sent
    chunk = b"100000\r\n" + b"x" * 2**20 + b"\r\n"  # sent, and not said
    assert oversized(running, b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * (BYTES // 2**20 + 1)) == b"413"
    status, body = running.get("/api/inputs", data=huge_picture(), Content_Type="image/png")
    assert status == 400 and b"megapixels" in body
    assert running.get("/api/inputs", data=b"import os", Content_Type="image/png")[0] == 400
    assert running.get("/api/inputs", data=b"\xff\xfe", Content_Type="text/plain")[0] == 400
    assert running.get("/api/inputs", data=picture(9), token="wrong")[0] == 403
    assert len(running.site.workspace.inputs) == before


def test_live_stages_are_labelled_and_come_in_order(running: Running) -> None:
    lens, sha = names(running.site)
    with live(running) as talk:
        ask = {"lens": lens, "input": sha, "query": "two:3", "stages": ["preview", "final", "trust"]}
        talk.send(json.dumps({"id": 5, "ask": ask}))
        messages = heard(talk, count=3)
    assert {message["id"] for message in messages} == {5}
    done = [message["stage"] for message in messages if message["state"] == "done"]
    assert done == ["preview", "final", "trust"]
    assert messages[-1]["facts"]["verdict"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", "null", "[" * 5000, "x" * 20000, '{"id": "1"}', '{"id": true, "ask": {}}', '{"id": 1}'),
        '{"id": 1, "ask": 3}',
        '{"id": 1, "ask": {"lens": "a", "input": "b", "query": "c"}}',
        '{"id": 1, "ask": {"lens": 1, "input": 2, "query": 3}}',
    ],
)
def test_malformed_messages_are_answered_and_change_nothing(running: Running, text: str) -> None:
    lens, sha = names(running.site)
    with live(running) as talk:
        talk.send(text)
        (message,) = heard(talk)
        assert message["state"] == "failed" and set(message["error"]) == {"expected", "got", "todo"}
        talk.send(json.dumps({"id": 2, "ask": {"lens": lens, "input": sha, "query": "two:1"}}))
        assert heard(talk)[-1]["state"] == "done"


def test_a_message_too_large_ends_the_connection(running: Running) -> None:
    with live(running) as talk:
        talk.send("x" * 2**17)
        with pytest.raises(ConnectionClosed):
            talk.recv(timeout=30)
    assert running.get("/api/health")[0] == 200
