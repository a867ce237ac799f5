"""The demonstration: a real ImageNet network, real photographs, every figure, one report. Nothing is downloaded.

Steps, each a function below: load, calibrate (or reuse), measure, draw, report.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

import sgfi
from sgfi import figures
from sgfi.demo.page import Drawn, compose
from sgfi.errors import StoreError
from sgfi.evaluation.tables import measure
from sgfi.figures.atlases import spread_coords, strongest_channels
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.photographs import CALIBRATION, held_out_images, random_crops
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Query, depth_targets
from sgfi.report import Drawing, Picture, render

MADE_BY = "sgfi demo"


@dataclass(frozen=True)
class DemoSettings:
    """What the demonstration runs on. The defaults fit three minutes and 4 GiB on two cores."""

    model: str = "pip:efficientnet_lite0"
    size: int = 64
    crops: int = 512
    seed: int = 0
    depths: int = 4
    children: str = "online"
    ridge: float = 0.03
    """Relative. A dozen photographs are few beside a thousand channels: a stronger ridge than the
    paper's 0.01 helps."""
    target: str | None = None
    boundaries: tuple[str, ...] = ("stage", "stem")

    @property
    def folder(self) -> str:
        """One map folder per setting, so that another size does not meet the wrong maps."""
        name, where = self.model.rpartition(":")[2], "+".join(self.boundaries)
        return f"maps-{name}-{where}-{self.size}px-{self.crops}crops-ridge{self.ridge}-seed{self.seed}"


@dataclass
class Clock:
    """Seconds per step, in the order they were taken."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)


def run(out: Path, settings: DemoSettings | None = None, *, progress: bool = True, force: bool = False) -> Path:
    """Everything; returns the path of the report."""
    settings = settings or DemoSettings()
    _claim(out, force)
    clock = Clock()
    with clock.step("load the model, capture its graph, plan"):
        loaded = load_model(settings.model, size=settings.size)
        plan = _plan(loaded, settings)
    with clock.step("calibrate"):
        family, reused = fit(loaded, plan, settings, out / settings.folder, progress)
    held_out = held_out_images(_prepared(loaded))
    targets = depth_targets(family, settings.depths)
    with clock.step("measure on held-out photographs"):
        results = measure(family, held_out, [Query(target) for target in targets])
    with clock.step("draw"):
        drawn = draw(family, loaded, held_out.inputs, held_out.names, targets, out / "figures")
    record = {
        "made_by": MADE_BY,
        "settings": asdict(settings),
        "reused_maps": reused,
        "maps": {"folder": settings.folder, "MiB": round(family.bytes / 2**20, 1)},
        "fitted_nodes": len(plan.fitted),
        "target": plan.target,
        "seconds": clock.seconds,
        "peak_memory_GiB": round(peak_memory() / 2**30, 2),
        "results": results,
    }
    (out / "results.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    report = out / "report.html"
    report.write_text(render(compose(out, drawn)), encoding="utf-8")
    return report


def _claim(out: Path, force: bool) -> None:
    """The demo writes over its own earlier output and over nothing else."""
    if out.is_dir() and any(out.iterdir()) and not force and not _is_ours(out):
        raise StoreError(
            "a new or empty folder, or one of an earlier demo",
            f"{out}, which holds something else",
            "Choose another with --out or pass --force.",
        )
    (out / "figures").mkdir(parents=True, exist_ok=True)
    if not (out / "results.json").exists():
        (out / "results.json").write_text(json.dumps({"made_by": MADE_BY}), encoding="utf-8")


def _is_ours(out: Path) -> bool:
    try:
        record = json.loads((out / "results.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return False
    return isinstance(record, dict) and record.get("made_by") == MADE_BY


def _plan(loaded: LoadedModel, settings: DemoSettings) -> sgfi.Plan:
    graph = sgfi.capture(loaded.model, loaded.example)
    return sgfi.plan(graph, settings.target, settings.boundaries)


def fit(
    loaded: LoadedModel, plan: sgfi.Plan, settings: DemoSettings, folder: Path, progress: bool
) -> tuple[sgfi.MapFamily, bool]:
    """The map family, and whether it was there already. An interrupted fit resumes where it stopped."""
    if (folder / "manifest.json").exists():
        return sgfi.load(folder, plan.graph), True
    batches = random_crops(_prepared(loaded), settings.crops, settings.seed)
    facts = {**batches.describe(), "seed": settings.seed, "photographs": [p.name for p in CALIBRATION]}
    family = sgfi.calibrate(
        plan,
        batches,
        ridge=settings.ridge,
        children=settings.children,
        checkpoint=folder,
        progress=progress,
        provenance={"model": loaded.provenance, "data": facts},
    )
    return family, False


def draw(
    family: sgfi.MapFamily,
    loaded: LoadedModel,
    x: torch.Tensor,
    names: list[str],
    targets: list[str],
    folder: Path,
) -> dict[str, Drawn]:
    """Every figure, as a PNG file and for the report."""
    shown: dict[str, Any] = {"preprocessing": _prepared(loaded)}
    grid_target = coordinate_target(family)
    cells = spread_coords(family.node(grid_target).coord_shape, 7)
    width = family.node().channels
    groups = [range(i * width // 4, (i + 1) * width // 4) for i in range(4)]
    strongest = strongest_channels(family, x[:1], None, 7)
    made = {
        "depths": (
            figures.depth_ladder(family, x, targets, names=names, **shown),
            "Held-out photographs beside their final inverses at several depths",
        ),
        "stages": (
            figures.stage_ladder(family, x[:1], targets, **shown),
            "Raw VJP, first and final inverse of one photograph at several depths",
        ),
        "channels": (
            figures.channel_grid(family, x[:1], strongest, columns=3, **shown),
            "Inverses of single channels of the deepest target",
        ),
        "groups": (
            figures.channel_groups(family, x[:1], [list(g) for g in groups], columns=3, **shown),
            "Inverses of four groups of channels of the deepest target",
        ),
        "coordinates": (
            figures.coordinate_grid(family, x[:1], cells, grid_target, columns=3, **shown),
            "Inverses of single cells of an intermediate tensor, the cell outlined",
        ),
        "zero": (
            figures.zero_target(family, x[:1], **shown),
            "The inverse of a zero target is exactly zero",
        ),
    }
    note = f"{len(family.plan.fitted)} fitted nodes. Arrows run from a node to the children it is repaired from."
    drawn = {"dag": Drawn("figures/dag.svg", Drawing(family.plan.draw(folder / "dag.svg"), note))}
    for name, (figure, alt) in made.items():
        file = figures.save_figure(figure, folder / f"{name}.png", overwrite=True)
        drawn[name] = Drawn(f"figures/{file.name}", Picture.of(figure, alt))
    return drawn


def coordinate_target(estimator: Estimator) -> str:
    """The deepest target whose map still has at least 8 x 8 cells, else the estimator's own."""
    for name in reversed(estimator.targets):
        shape = estimator.node(name).coord_shape
        if len(shape) == 2 and min(shape) >= 8:
            return name
    return estimator.target


def peak_memory() -> int:
    """Bytes of this process at its largest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _prepared(loaded: LoadedModel) -> Preprocessing:
    assert loaded.preprocessing is not None  # the demo runs on image models only
    return loaded.preprocessing
