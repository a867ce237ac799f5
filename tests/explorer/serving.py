"""A tiny classifier, pictures, and a server on a free port."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

from sgfi.explorer import Site
from sgfi.explorer.server import App, Gate, free_port

TOKEN = "a-token-for-the-tests"


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(3, 6, 3, padding=1)
        self.two = nn.Conv2d(6, 8, 4, stride=4)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.two(self.one(x).relu()).relu().mean((2, 3)))


def picture(seed: int, side: int = 20) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(noise).resize((side, side), Image.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


@dataclass
class Running:
    """A server and how to ask it."""

    site: Site
    port: int

    @property
    def link(self) -> str:
        return f"http://127.0.0.1:{self.port}/?token={TOKEN}"

    def get(self, path: str, token: str | None = TOKEN, data: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, sent)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def json(self, path: str, **headers: str) -> Any:
        status, body = self.get(path, **headers)
        assert status == 200, body
        return json.loads(body)


class Serving:
    """Serve a site on a thread until the block ends."""

    def __init__(self, site: Site, port: int = 0) -> None:
        import uvicorn

        self.bound = free_port("127.0.0.1", port)
        self.running = Running(site, self.bound.getsockname()[1])
        app = App(site, Gate(TOKEN, "127.0.0.1", self.running.port))
        config = uvicorn.Config(app, log_level="error", ws="websockets-sansio", ws_max_size=2**16)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.bound]}, daemon=True)

    def __enter__(self) -> Running:
        self.thread.start()
        while not self.server.started:
            self.thread.join(0.02)
        return self.running

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.server.force_exit = True
        self.thread.join(30)
        self.bound.close()
