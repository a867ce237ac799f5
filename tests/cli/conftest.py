"""A tiny model file, a folder of images with a broken one, and maps fitted once by the command itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from sgfi.cli.app import app
from sgfi.cli.loading import OpenFamily, open_family
from sgfi.storage import read_manifest

BUILDER = """
import torch

INPUT_SHAPE = (3, 8, 8)
MEAN, STD = (0.5,) * 3, (0.25,) * 3


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.two = torch.nn.Conv2d(6, 6, 3, padding=1)
        self.three = torch.nn.Conv2d(6, 4, 2, stride=2)

    def forward(self, x):
        y = self.one(x)
        return self.three(y + self.two(y.relu()))


def build():
    return Tiny()
"""


def open_maps(folder: Path) -> OpenFamily:
    """Maps with the model whose Python file their manifest names."""
    return open_family(folder, read_manifest(folder)["provenance"]["model"]["spec"])


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def all(self) -> str:
        return self.out + self.err


@pytest.fixture(scope="session")
def sgfi_command() -> Callable[..., Outcome]:
    """Run a command line; anything but a clean exit is raised."""

    def run(*words: object) -> Outcome:
        result = CliRunner().invoke(app, [str(word) for word in words])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Outcome(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``tiny.py``, ``photos/`` (8 good images, one broken) and ``one.png``."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "tiny.py").write_text(BUILDER)
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for i in range(8):
        pixels = rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{i}.png")
    Image.fromarray(rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)).save(folder / "one.png")
    (folder / "photos" / "broken.jpg").write_bytes(b"not a picture")
    return folder


@pytest.fixture(scope="session")
def model(root: Path) -> str:
    return f"{root / 'tiny.py'}:build"


@pytest.fixture(scope="session")
def on_maps(sgfi_command: Callable[..., Outcome], model: str) -> Callable[..., Outcome]:
    """Run a command on maps of ``tiny.py``: a file runs only when the command line names it."""
    return lambda *words: sgfi_command(*words, *([] if "--model" in words else ["--model", model]))


@pytest.fixture(scope="session")
def fitted(root: Path, model: str, sgfi_command: Callable[..., Outcome]) -> tuple[Path, Outcome]:
    """Maps, and what the command said while fitting them."""
    maps = root / "maps" / "tiny"
    outcome = sgfi_command(
        "calibrate", model, "--data", root / "photos", "--out", maps, "--target", "three", "--boundaries", "one,add"
    )
    assert outcome.code == 0, outcome.all
    return maps, outcome


@pytest.fixture
def maps(fitted: tuple[Path, Outcome]) -> Path:
    return fitted[0]
