"""The demonstration: a real ImageNet network, real photographs, every figure, one report. Nothing is downloaded.

Steps, each a function: load, draw natural inverses, calibrate (or reuse), measure, draw the maps' inverses, report.
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

import sgfi
from sgfi import figures
from sgfi.demo.natural import (
    LADDER_RIDGE,
    LADDER_STEPS,
    ladder_picture,
    map_trust_picture,
    query_picture,
    trust_picture,
)
from sgfi.demo.page import Drawn, compose
from sgfi.demo.questions import Questions, check
from sgfi.errors import DataError, StoreError
from sgfi.evaluation.tables import measure
from sgfi.evaluation.trust import Trust
from sgfi.inputs.data import TensorBatches
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.photographs import CALIBRATION, held_out_images, random_crops
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query
from sgfi.report import Drawing, Picture, render
from sgfi.settings import read_settings
from sgfi.storage import write_text

MADE_BY = "sgfi demo"


@dataclass(frozen=True)
class DemoSettings:
    """What the demonstration runs on. The defaults fit three minutes and 4 GiB on two cores."""

    model: str = "pip:efficientnet_lite0"
    size: int = 64
    crops: int = 512
    seed: int = 0
    depths: int = 4
    preset: str = "paper"
    ridge: float | None = None
    """Relative; ``None`` leaves the preset's."""
    target: str | None = None
    boundaries: tuple[str, ...] = ()
    """Of the plan; none: the recipe's."""

    @property
    def folder(self) -> str:
        """One map folder per setting, so that another size does not meet the wrong maps."""
        name, where = self.model.rpartition(":")[2], "+".join(self.boundaries) or "stage"
        how = self.preset if self.ridge is None else f"{self.preset}-ridge{self.ridge}"
        return f"maps-{name}-{where}-{self.size}px-{self.crops}crops-{how}-seed{self.seed}"


@dataclass
class Clock:
    """Seconds per step, in the order they were taken."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - started, 2)


@dataclass(frozen=True)
class Gallery:
    """The folder of the figures, and what is in it."""

    folder: Path
    announce: bool
    """Whether to say on the error stream where the first picture is, as soon as it is."""
    drawn: dict[str, Drawn] = field(default_factory=dict)

    def add(self, name: str, picture: Picture) -> None:
        file = self.folder / f"{name}.png"
        file.write_bytes(picture.light)
        if self.announce and not self.drawn:
            print(f"first picture: {file}", file=sys.stderr, flush=True)
        self.drawn[name] = Drawn(f"figures/{file.name}", picture)


def run(out: Path, settings: DemoSettings | None = None, *, progress: bool = True, force: bool = False) -> Path:
    """Everything; returns the path of the report."""
    settings = settings or DemoSettings()
    _claim(out, force)
    clock, gallery = Clock(), Gallery(out / "figures", progress)
    with clock.step("load the model, capture its graph"):
        loaded = load_model(settings.model, size=settings.size)
        graph = sgfi.capture(loaded.model, loaded.example)
    prepared = _prepared(loaded)
    photographs = held_out_images(prepared)
    x, lens = photographs.inputs, sgfi.natural(graph, prepared)
    named = [*settings.boundaries, *([settings.target] if settings.target else [])] if settings.boundaries else []
    asked = Questions.of(lens, x, settings.depths, [lens.node(name).name for name in named])
    with clock.step("natural inverse: depth ladder"):
        gallery.add("natural-depths", ladder_picture(graph, photographs, asked.targets, prepared))
    with clock.step("natural inverse: channels and cells"):
        gallery.add("natural-channels", query_picture(lens, x[:1], asked.channels, prepared))
        gallery.add("natural-cells", query_picture(lens, x[:1], asked.cells, prepared))
    with clock.step("natural inverse: controls and removal"):
        natural = check("natural", lens, lens.prior, asked, x)
        gallery.add("natural-controls", trust_picture(natural.answers, lens, x, prepared))
    with clock.step("calibrate maps"):
        plan = sgfi.plan(graph, settings.target, settings.boundaries or "stage")
        family, reused = fit(loaded, plan, settings, out / settings.folder, progress)
    with clock.step("maps: measure, controls and removal"):
        results = measure(family, photographs, [Query(target) for target in asked.targets])
        maps = check("maps", family, lens.prior, asked, x)
    with clock.step("maps: draw"):
        draw_maps(gallery, family, asked, maps.answers, photographs, prepared)
    record = {
        "made_by": MADE_BY,
        "settings": asdict(settings),
        "reused_maps": reused,
        "maps": {"folder": settings.folder, "MiB": round(family.bytes / 2**20, 1)},
        "natural": lens.describe(),
        "natural_ladder": {"jacobian": "point", "ridge": LADDER_RIDGE, "steps": LADDER_STEPS},
        "fitted_nodes": len(family.plan.fitted),
        "target": family.target,
        "seconds": clock.seconds,
        "peak_memory_GiB": round(peak_memory() / 2**30, 2),
        "controls": [*natural.controls, *maps.controls],
        "removal": [*natural.removals, *maps.removals],
        "results": results,
    }
    write_text(out / "results.json", json.dumps(record, indent=1))
    report = out / "report.html"
    write_text(report, render(compose(out, gallery.drawn)))
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
        return read_settings(out / "results.json").get("made_by") == MADE_BY
    except DataError:
        return False


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
        settings.ridge,
        preset=settings.preset,
        checkpoint=folder,
        progress=progress,
        provenance={"model": loaded.provenance, "data": facts},
    )
    return family, False


def draw_maps(
    gallery: Gallery,
    family: sgfi.MapFamily,
    asked: Questions,
    answers: list[Trust],
    photographs: TensorBatches,
    preprocessing: Preprocessing,
) -> None:
    """The paper's inverses of the same tensors, channels and cells, with their controls."""
    x = photographs.inputs
    channels = [channel for query in asked.channels for channel in query.channels or ()]
    cells = [cell for query in asked.cells for cell in query.coords or ()]
    middle, grid = asked.channels[0].target, asked.cells[0].target
    ladder = figures.depth_ladder(family, x, asked.targets, names=photographs.names, preprocessing=preprocessing)
    gallery.add("depths", Picture.of(ladder, "Photographs beside their final calibrated inverses at several depths"))
    stages = figures.stage_ladder(family, x[:1], asked.targets, preprocessing=preprocessing)
    gallery.add("stages", Picture.of(stages, "Raw VJP, first and final inverse of one photograph at several depths"))
    single = figures.channel_grid(family, x[:1], channels, middle, columns=3, preprocessing=preprocessing)
    gallery.add("channels", Picture.of(single, "Calibrated inverses of the same single channels"))
    cell = figures.coordinate_grid(family, x[:1], cells, grid, columns=3, preprocessing=preprocessing)
    gallery.add("coordinates", Picture.of(cell, "Calibrated inverses of the same single cells, outlined"))
    gallery.add("controls", map_trust_picture(answers, x, preprocessing))
    zero = figures.zero_target(family, x[:1], preprocessing=preprocessing)
    gallery.add("zero", Picture.of(zero, "The inverse of a zero target is exactly zero"))
    note = f"{len(family.plan.fitted)} fitted nodes. Arrows run from a node to the children it is repaired from."
    drawing = Drawing(family.plan.draw(gallery.folder / "dag.svg"), note)
    gallery.drawn["dag"] = Drawn("figures/dag.svg", drawing)


def peak_memory() -> int:
    """Bytes of this process at its largest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _prepared(loaded: LoadedModel) -> Preprocessing:
    assert loaded.preprocessing is not None  # the demo runs on image models only
    return loaded.preprocessing
