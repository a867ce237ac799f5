"""The explorer's server asked by strangers: paths, hosts and tokens, messages, uploads."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from robustness import subject
from robustness.campaign import Effort, Row, Tally
from robustness.hostile_files import JSON, PREPARED
from sgfi.explorer import Site, Store, Workspace, natural_lens
from sgfi.explorer.live import Conversation
from sgfi.explorer.server import App, Gate
from sgfi.inputs.loaded import LoadedModel

TOKEN, PORT = "a-token-of-the-campaign", 4711
HOST, SECRET = f"127.0.0.1:{PORT}", b"nobody may read this"
PIECES = st.sampled_from(
    ".. %2e%2e ..%2f %00 etc passwd secret input inverse export likeness sweep quality assets api trust {lens} {sha} "
    "three:0.png three%25%2fetc%2fpasswd:0.json ~ | token \\".split()
)
Reply = tuple[int, bytes]


def run(effort: Effort) -> list[Row]:
    with subject.scratch() as folder:
        store = Store(folder / "store")
        (folder / "secret").write_bytes(SECRET)
        (store.folder / "secret").write_bytes(SECRET)
        lens = natural_lens(LoadedModel("file:chain", subject.model(), PREPARED, PREPARED.input_shape))
        site = Site(Workspace(store, [lens]))
        site.workspace.add(_picture(0), "picture", "picture")
        try:
            app = App(site, Gate(TOKEN, "127.0.0.1", PORT))
            return [_paths(effort, app), _hosts(effort, app), _messages(effort, site), _uploads(effort, app)]
        finally:
            site.close()


def _row(
    effort: Effort, name: str, count: int, strategy: st.SearchStrategy, trial: Callable[[Tally, Any], None]
) -> Row:
    tally = Tally(f"explorer: {name}", effort.seed_of(name))
    subject.generate(strategy, effort.count(count), tally.seed, lambda value: trial(tally, value))
    return tally.row()


def _paths(effort: Effort, app: App) -> Row:
    """Any address with the right token: an answer or a refusal, and never a file."""
    names = {"lens": next(iter(app.site.workspace.lenses)), "sha": next(iter(app.site.workspace.inputs))}

    def trial(tally: Tally, pieces: list[str]) -> None:
        path = "/" + "/".join(pieces).replace("{lens}", names["lens"]).replace("{sha}", names["sha"])
        _judge(tally, path, lambda: _asked(app, path), lambda status: status in (200, 400, 404))

    return _row(effort, "paths", 1000, st.lists(PIECES | st.text(max_size=8), min_size=1, max_size=6), trial)


def _hosts(effort: Effort, app: App) -> Row:
    """A Host, an Origin or a token that is not the server's own."""
    junk = st.text("abc.:-1270@/", max_size=20) | st.sampled_from(["evil.example", f"evil.example:{PORT}", "localhost"])

    def trial(tally: Tally, value: tuple[str, str]) -> None:
        where, text = value
        own = {"host": HOST, "authorization": f"Bearer {TOKEN}"}
        if text in (HOST, TOKEN) or (where == "origin" and not text):
            return
        headers = {**own, where: f"Bearer {text}" if where == "authorization" else text}
        _judge(tally, f"{where}: {text}", lambda: _asked(app, "/api/models", headers), lambda status: status == 403)

    return _row(
        effort,
        "hosts, origins, tokens",
        1000,
        st.tuples(st.sampled_from(["host", "origin", "authorization"]), junk),
        trial,
    )


def _messages(effort: Effort, site: Site) -> Row:
    """Anything as a live message: answered by an error, and nothing is left waiting."""

    def trial(tally: Tally, message: Any) -> None:
        said: list[dict] = []
        text = message if isinstance(message, str) else json.dumps(message)

        def talk() -> Reply:
            Conversation(site, said.append).receive(text)
            return 400 if [entry["state"] for entry in said] == ["failed"] else 0, json.dumps(said).encode()

        _judge(tally, text, talk, lambda status: status == 400)

    ask = st.fixed_dictionaries({"id": st.integers() | JSON, "ask": JSON})
    named = st.fixed_dictionaries({"lens": JSON, "input": JSON, "query": st.text(max_size=30), "stages": JSON})
    return _row(
        effort, "messages", 1000, JSON | ask | st.fixed_dictionaries({"id": st.integers(), "ask": named}), trial
    )


def _uploads(effort: Effort, app: App) -> Row:
    """Pictures with bytes changed, and bytes that are none."""

    def trial(tally: Tally, value: tuple[int, list[tuple[int, int]], bytes]) -> None:
        data = bytearray(_picture(value[0])) if value[0] else bytearray(value[2])
        for place, byte in value[1]:
            if data:
                data[place % len(data)] = byte
        app.gate._uploads.clear()
        _judge(
            tally,
            bytes(data).hex()[:80],
            lambda: _asked(app, "/api/inputs", body=bytes(data)),
            lambda s: s in (201, 400),
        )

    changes = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=8)
    return _row(effort, "uploads", 600, st.tuples(st.integers(0, 5), changes, st.binary(max_size=200)), trial)


def _judge(tally: Tally, what: str, ask: Callable[[], Reply], fine: Callable[[int], bool]) -> None:
    def problem(reply: Reply) -> str:
        status, body = reply
        if SECRET in body or b"root:" in body:
            return "a file was handed out"
        return "" if fine(status) else f"status {status}"

    subject.attempt(tally, what[:200], ask, problem)


def _asked(app: App, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Reply:
    """One request, without a socket."""
    given = headers or {"host": HOST, "authorization": f"Bearer {TOKEN}"}
    sent: list[dict] = []
    scope = {
        "type": "http",
        "method": "GET" if body is None else "POST",
        "path": path,
        "raw_path": path.encode("utf-8", "surrogatepass"),
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in given.items()],
        "server": ("127.0.0.1", PORT),
    }
    waiting = [{"type": "http.request", "body": body or b"", "more_body": False}]

    async def receive() -> dict:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(message: dict) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def _picture(seed: int) -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(seed).integers(0, 256, (9, 9, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")[seed % 6])
    return file.getvalue()
