"""How long somebody at the explorer waits: seen before, first pixels, final answers, a grid of 49 cells.

A server on this computer, asked over a WebSocket as the page asks: ResNet50 at 224 pixels (random weights: the cost
hardly depends on them) and a photograph. Times on the clock depend on what else the machine does, so its load is
recorded and processor time stands beside them.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.common import parser, table, write
from sgfi.explorer import Site, Store, Workspace, natural_lens
from sgfi.explorer.server import App, Gate, free_port
from sgfi.inputs.models import load_model
from sgfi.inputs.photographs import HELD_OUT

TOKEN = "benchmark-of-the-explorer"
DEPTHS = ("layer2.3.add", "layer3.5.add", "layer4.2.add")
SEEN, PIXELS = "seen before", "first pixels (labelled preview)"
FIRST, NEXT = "final answer, first channel of a tensor", "final answer, another channel of it"
CELL, CELLS, SOLVED = (
    "first of 49 cells (labelled preview)",
    "all 49 cells (labelled previews)",
    "first of 49 cells, final",
)
GOALS: dict[str, float | None] = {SEEN: 0.1, PIXELS: 0.3, FIRST: 3.0, NEXT: 3.0, CELL: 3.0, CELLS: None, SOLVED: 3.0}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", default="torchvision:resnet50")
    options.add_argument("--weights", default="none")
    options.add_argument("--size", type=int, default=224)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--threads", type=int, default=2)
    given = options.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        lens = natural_lens(load_model(given.model, given.weights, size=given.size))
        workspace = Workspace(Store(Path(folder)), [lens])
        shas = [workspace.add(entry.file.read_bytes(), entry.name, "picture").sha for entry in HELD_OUT[:2]]
        site = Site(workspace)
        client = Client(site, lens.id, *shas)
        load = [os.getloadavg()[0]]
        rows = client.measured(given.rounds)
        load.append(os.getloadavg()[0])
        client.open.close()
        site.close()
    busy = f"Load of the machine while measuring: {load[0]:.1f} to {load[1]:.1f} on {os.cpu_count()} cores."
    lines = [[name, GOALS[name] or "", *(f"{row[key]:.2f}" for key in ("wall", "cpu"))] for name, row in rows.items()]
    head = ["what somebody waits for", "goal (s)", "on the clock (s)", "processor time (s)"]
    write("explorer", {**vars(given), "load": load, "rows": rows}, f"{table(head, lines)}\n\n{busy}")


class Client:
    """One person at the page."""

    def __init__(self, site: Site, lens: str, sha: str, fresh: str) -> None:
        import uvicorn
        from websockets.sync.client import connect

        self.lens, self.sha, self.fresh, self.next = lens, sha, fresh, 0
        bound = free_port("127.0.0.1", 0)
        self.port = bound.getsockname()[1]
        app = App(site, Gate(TOKEN, "127.0.0.1", self.port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="websockets-sansio"))
        threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True).start()
        while not server.started:
            time.sleep(0.02)
        self.open = ExitStack()
        self.talk = self.open.enter_context(connect(f"ws://127.0.0.1:{self.port}/live?token={TOKEN}"))

    def picture(self, sha: str, query: str, stage: str) -> None:
        path = f"/inverse/{self.lens}/{sha}/{query}.png?stage={stage}"
        sent = {"Authorization": f"Bearer {TOKEN}"}
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=sent)) as got:
            got.read()

    def ask(self, query: str, stages: list[str]) -> dict[str, tuple[float, float]]:
        """(seconds on the clock, of processor time) until each stage's picture is there."""
        return dict(self.asked([query], self.sha, stages, len(stages)))

    def asked(
        self, queries: list[str], sha: str, stages: list[str], count: int, background: bool = False
    ) -> list[tuple[str, tuple[float, float]]]:
        """Stages in the order in which their pictures came, until there are ``count``; the rest is cancelled."""
        wall, cpu = time.perf_counter(), time.process_time()
        numbers = {}
        for query in queries:
            self.next += 1
            numbers[self.next] = query
            ask = {"lens": self.lens, "input": sha, "query": query, "stages": stages, "background": background}
            self.talk.send(json.dumps({"id": self.next, "ask": ask}))
        done: list[tuple[str, tuple[float, float]]] = []
        while len(done) < count:
            message = json.loads(self.talk.recv(timeout=600))
            if message["state"] == "done" and message["id"] in numbers:
                self.picture(sha, numbers[message["id"]], message["stage"])
                done.append((message["stage"], (time.perf_counter() - wall, time.process_time() - cpu)))
        for number in numbers:
            self.talk.send(json.dumps({"id": number, "cancel": True}))
        return done

    def measured(self, rounds: int) -> dict[str, dict[str, float]]:
        self.ask(f"{DEPTHS[1]}:0", ["preview", "final"])  # the first question of all makes tables
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in GOALS}
        for round_ in range(rounds):
            for depth in (DEPTHS[0], DEPTHS[2], DEPTHS[1]):  # too many tensors for all to be kept
                first, second = (f"{depth}:{2 * round_ + k + 1}" for k in range(2))
                new = self.ask(first, ["preview", "final"])
                taken[PIXELS].append(new["preview"])
                taken[FIRST].append(new["final"])
                taken[SEEN].append(self.ask(first, ["final"])["final"])
                taken[NEXT].append(self.ask(second, ["preview", "final"])["final"])
        cells = [f"{DEPTHS[-1]}@{row},{column}" for row in range(7) for column in range(7)]
        came = self.asked(cells, self.fresh, ["preview", "final"], len(cells) + 1, background=True)
        previews = [times for stage, times in came if stage == "preview"]
        taken[CELL], taken[CELLS] = [previews[0]], [previews[-1]]
        taken[SOLVED] = [next(times for stage, times in came if stage == "final")]
        return {name: _median(times) for name, times in taken.items()}


def _median(times: list[tuple[float, float]]) -> dict[str, Any]:
    wall, cpu = zip(*times, strict=True)
    return {"wall": median(wall), "cpu": median(cpu), "most": max(wall), "count": len(times)}


if __name__ == "__main__":
    main()
