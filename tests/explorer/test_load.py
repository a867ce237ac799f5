"""Many clients at once, a crowded queue, and a server that goes away."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import load
from websockets.sync.client import connect

import sgfi
from sgfi.explorer import Lens, Site, Store, Workspace
from sgfi.explorer.worker import Worker
from tests.explorer.serving import TOKEN, Running, Serving, picture

CLIENTS, EACH = 100, 10


def workspace(lens: Lens, folder: Path, **bounds: int) -> Workspace:
    opened = Workspace(Store(folder, **bounds), [lens])
    for seed in range(4):
        opened.add(picture(seed), f"picture {seed}", "picture")
    return opened


def questions(site: Site, client: int) -> list[tuple[str, str]]:
    """(input, query): ten of a client's own order, so that many meet on the same ones."""
    inputs = list(site.workspace.inputs)
    numbers = [(client * 3 + k) % 256 for k in range(EACH)]
    return [(inputs[n % 4], f"two:{n // 4 % 8}@{n // 32 % 4},{n // 128}") for n in numbers]


def asked(running: Running, lens: str, client: int) -> dict[tuple[str, str], dict]:
    """All of a client's questions over one connection, sent at once; what came back by question."""
    wanted, answers = questions(running.site, client), {}
    with connect(f"ws://127.0.0.1:{running.port}/live?token={TOKEN}", open_timeout=60) as talk:
        for number, (sha, query) in enumerate(wanted):
            talk.send(json.dumps({"id": number, "ask": {"lens": lens, "input": sha, "query": query}}))
        while len(answers) < EACH:
            message = json.loads(talk.recv(timeout=120))
            if message["state"] in ("done", "failed"):
                sha, query = wanted[message["id"]]
                assert message["state"] == "done" and message["query"] == query, message
                answers[sha, query] = message["facts"]
    return answers


def test_a_hundred_clients_lose_nothing_and_mix_nothing_up(lens: Lens, tmp_path: Path) -> None:
    site = Site(workspace(lens, tmp_path, memory=200_000), Worker(queue=CLIENTS * EACH))
    with Serving(site) as running, ThreadPoolExecutor(CLIENTS) as pool:
        results = list(pool.map(lambda client: asked(running, lens.id, client), range(CLIENTS)))
    assert sum(len(answers) for answers in results) == CLIENTS * EACH
    lengths: dict[tuple[str, str], set[float]] = {}
    for answers in results:
        for key, facts in answers.items():
            lengths.setdefault(key, set()).add(facts["length"])
    for (sha, query), seen in lengths.items():
        x = site.workspace.prepared(lens.id, sha)
        expected = sgfi.sweep(lens.estimator, x, [sgfi.Query.parse(query)])[0].value.double().norm()
        assert len(seen) == 1
        torch.testing.assert_close(torch.tensor(seen.pop(), dtype=torch.float64), expected, rtol=1e-5, atol=1e-9)
    assert site.workspace.store.held <= 200_000
    assert site.worker.counts["done"] >= len(lengths) and site.worker.counts["failed"] == site.worker.waiting == 0
    site.close()


def test_cancelled_and_abandoned_questions_stop(lens: Lens, tmp_path: Path) -> None:
    site = Site(workspace(lens, tmp_path))
    began, free = threading.Event(), threading.Event()

    def hold(tick) -> None:
        began.set()
        free.wait(60)

    site.worker.submit("hold", hold, priority=-1)
    assert began.wait(30)
    sha = next(iter(site.workspace.inputs))
    with Serving(site) as running:
        with connect(f"ws://127.0.0.1:{running.port}/live?token={TOKEN}") as talk:
            for number in range(8):
                ask = {"lens": lens.id, "input": sha, "query": f"two:{number}"}
                talk.send(json.dumps({"id": number, "ask": ask}))
            for number in range(4):
                talk.send(json.dumps({"id": number, "cancel": True}))
            cancelled = 0
            while cancelled < 4:
                cancelled += json.loads(talk.recv(timeout=60))["state"] == "cancelled"
            assert site.worker.waiting == 5  # what holds, and four questions
        for _ in range(300):  # the connection is gone, so the other four go too
            if site.worker.waiting == 1:
                break
            time.sleep(0.1)
        assert site.worker.waiting == 1
        free.set()
    assert site.worker.counts["cancelled"] == 8
    site.close()
    assert site.worker.counts["done"] <= 1


def test_links_answer_after_the_server_was_killed(lens: Lens, tmp_path: Path) -> None:
    site = Site(workspace(lens, tmp_path))
    with Serving(site) as running:
        _, body = running.get("/api/inputs?name=mine", data=picture(42), Content_Type="image/png")
        sha = json.loads(body)["sha"]
        path = f"/inverse/{lens.id}/{sha}/two:3.safetensors"
        _, before = running.get(path)
    site.close()
    for file in (tmp_path / "answers").iterdir():
        file.write_bytes(file.read_bytes()[:50])  # killed while it wrote
    again = Site(Workspace(Store(tmp_path), [lens]))
    with Serving(again) as running:
        status, after = running.get(path)
    again.close()
    assert status == 200
    torch.testing.assert_close(load(after)["value"], load(before)["value"], rtol=1e-6, atol=1e-6)


def test_a_full_queue_is_said(lens: Lens, tmp_path: Path) -> None:
    site = Site(workspace(lens, tmp_path), Worker(queue=1))
    free = threading.Event()
    site.worker.submit("hold", lambda tick: free.wait(60))
    sha = next(iter(site.workspace.inputs))
    while True:
        ticket = site.request(f"/inverse/{lens.id}/{sha}/two:{site.worker.waiting}.json")
        if ticket.future.done():
            break
    assert ticket.future.result().status == 503
    free.set()
    site.close()
