"""Every shipped experiment at toy scale: one tiny network, forty random pictures, one working folder for all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sgfi.experiments import Experiment, Result, declare, run
from sgfi.experiments.cases import Bench

BUILDER = """
import torch

INPUT_SHAPE = (3, 8, 8)
MEAN, STD = (0.5,) * 3, (0.25,) * 3


class Tiny(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Conv2d(3, 6, 3, padding=1)
        self.two = torch.nn.Conv2d(6, 6, 3, padding=1)
        self.three = torch.nn.Conv2d(6, 8, 2, stride=2)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        y = self.one(x)
        y = self.three((y + self.two(y.relu())).tanh())
        return self.head(y.mean((2, 3)))


def build():
    torch.manual_seed(0)
    return Tiny()


def other():
    torch.manual_seed(1)
    return Tiny()
"""
SMALL = {
    "iterative": {"images": 2, "seeds": [0, 1], "search": {"steps": 3, "jitter": 1}},
    "latency": {"queries": 2, "repeats": 2, "timed_steps": 1},
    "theory": {"directions": 6, "draws": 32, "images": 2, "fit": 16},
    "stability": {"iterations": 2, "images": 2},
    "search_steps": {"images": 2, "seeds": [0], "steps": [2, 3], "search": {"jitter": 1}},
    "decisions": {"images": 3, "depths": [-1], "settings": {"sizes": [1, 2], "repeats": 2, "curve_repeats": 1}},
    "coordinates": {"images": 2, "depths": [-1]},
    "faithfulness": {"nodes": [1, 2]},
    "reuse": {"depths": [1, -1], "channels": [0, 1], "group": 3},
    "interpolation": {"points": [0, 0.5, 1], "images": 4},
}


SETS = ("calibration", "evaluation")


def _named(value: Any) -> bool:
    """Whether a setting of a plan names a tensor of the real network, or counts its boundaries."""
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return isinstance(value, int) or any("." in name for name in names)


@pytest.fixture(scope="session")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``tiny.py``, ``photos/`` and ``more/``: smooth random pictures, twenty and twenty."""
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "tiny.py").write_text(BUILDER)
    rng = np.random.default_rng(0)
    for index, name in enumerate(["photos", "more"]):
        (folder / name).mkdir()
        for i in range(20):
            coarse = rng.integers(0, 256, (3 + index, 3 + index, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((8, 8), Image.Resampling.BILINEAR).save(folder / name / f"{i:02}.png")
    return folder


@pytest.fixture(scope="session")
def toy(room: Path) -> Callable[..., Experiment]:
    """A shipped experiment made small: its models and data sets are replaced, everything else stays."""

    def small(name: str, *changes: dict[str, Any]) -> Experiment:
        shipped = declare(name)
        variants = {
            label: {part: value for part, value in change.items() if part in ("calibration", "data", "plan")}
            for label, change in shipped.variants.items()
        }
        for index, change in enumerate(variants.values()):
            data = {part: value for part, value in change.get("data", {}).items() if part not in SETS}
            if "calibration_count" in data:
                data["calibration_count"] = 10 + index % 3
            change["data"] = data
            change["plan"] = {part: value for part, value in change.get("plan", {}).items() if not _named(value)}
        measures = {key: SMALL.get(key, options) for key, options in shipped.measures.items()}
        return declare(
            name,
            {
                "model": {"spec": f"{room / 'tiny.py'}:build", "weights": None},
                "data": {
                    "calibration": str(room / "photos"),
                    "evaluation": None,
                    "calibration_count": 12,
                    "evaluation_count": 5,
                    "batch": 4,
                },
                "plan": {"target": "three", "boundaries": ["one", "add"]},
                "resamples": 100,
                "measures": measures,
                "variants": variants,
            },
            *changes,
        )

    return small


@pytest.fixture(scope="session")
def _captured_once() -> Iterator[None]:
    """The tiny networks are loaded and captured once for the whole session, not once a run."""
    kept: dict[str, Any] = {}
    real = Bench._loaded

    def load(self: Bench, sections: Any) -> Any:
        key = repr(sections.model)
        if key not in kept:
            kept[key] = real(self, sections)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bench, "_loaded", load)
        yield


@pytest.fixture(scope="session")
def ran(room: Path, toy: Callable[..., Experiment], _captured_once: None) -> Callable[..., Result]:
    """Run a toy experiment, the same one only once; families are shared through one working folder."""
    kept: dict[str, Result] = {}

    def go(name: str, *changes: dict[str, Any], work: str = "work", **options: Any) -> Result:
        experiment = toy(name, *changes)
        if options:
            return run(experiment, room / work, **options)
        key = json.dumps(experiment.as_dict())
        if key not in kept:
            kept[key] = run(experiment, room / work)
        return kept[key]

    return go
