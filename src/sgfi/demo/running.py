"""The demonstration: a report on a real ImageNet network and real photographs. Nothing is downloaded."""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sgfi
from sgfi.errors import DataError, StoreError
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.photographs import CALIBRATION, HELD_OUT, held_out_images, random_crops
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import STAGES
from sgfi.report.checks import cosines
from sgfi.report.subject import Maps, ReportSettings, Subject
from sgfi.report.writing import write_report
from sgfi.settings import read_settings
from sgfi.storage import read_manifest, write_text

MADE_BY = "sgfi demo"
TITLE = "What the features of an ImageNet network identify"
LEAD = (
    "Feature inverses of `{model}` (real ImageNet weights) on photographs that no map was fitted on: {photographs}. "
    "First the natural inverse, which needs no calibration, then the paper's calibrated inverses, fitted on random "
    "crops of other photographs; each beside controls that say how far to trust a picture. The settings of this "
    "demonstration were tried out on these very photographs."
)
MORE = """sgfi report torchvision:resnet18 photo.jpg --out resnet18.html
sgfi calibrate torchvision:resnet18 --boundaries stage,stem --data photos/ --out maps/resnet18
sgfi report maps/resnet18 other-photos/ --out maps.html"""


@dataclass(frozen=True)
class DemoSettings:
    """What the demonstration runs on. The defaults fit two minutes and 4 GiB on two cores."""

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


def run(out: Path, settings: DemoSettings | None = None, *, progress: bool = True, force: bool = False) -> Path:
    """Everything; returns the path of the report."""
    settings, started, used = settings or DemoSettings(), time.monotonic(), time.process_time()
    _claim(out, force)
    loaded = load_model(settings.model, size=settings.size)
    graph = sgfi.capture(loaded.model, loaded.example)
    photographs, plan = (
        held_out_images(_prepared(loaded)),
        sgfi.plan(graph, settings.target, settings.boundaries or "stage"),
    )
    folder = out / settings.folder
    reused = (folder / "manifest.json").exists()
    maps = Maps(settings.folder, lambda: fit(loaded, plan, settings, folder, progress), lambda: read_manifest(folder))
    lens = sgfi.natural(graph, _prepared(loaded))
    subject = Subject(loaded, lens, photographs.inputs, tuple(photographs.names), plan.boundaries[1:], maps)
    credits = "; ".join(f"{p.name} ({p.licence}, from {p.pip_name})" for p in (*HELD_OUT, *CALIBRATION))
    report = ReportSettings(
        depths=settings.depths,
        seconds=None,
        title=TITLE,
        lead=LEAD.format(model=settings.model, photographs=", ".join(photographs.names)),
        command=MADE_BY,
        source=settings.folder,
        more=MORE,
        foot=f"Photographs: {credits}.",
    )
    record = write_report(subject, out / "report.html", report, progress=progress)
    record |= {
        "settings": asdict(settings),
        "reused_maps": reused,
        "whole_run_seconds": round(time.monotonic() - started, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "peak_memory_GiB": round(peak_memory() / 2**30, 2),
    }
    write_text(out / "report.json", json.dumps(record, indent=1) + "\n")
    return out / "report.html"


def summary(out: Path) -> list[str]:
    """The outcome in a few lines, from the file the run wrote."""
    record: dict[str, Any] = json.loads((out / "report.json").read_text(encoding="utf-8"))
    deepest = cosines(record["results"])[record["target"]]
    means = ", ".join(f"{stage} {deepest[stage]:.2f}" for stage in STAGES)
    scores = {(entry["estimator"], entry["asked"]): entry["best_at_own"] for entry in record["removal"]}
    lines = [
        f"own picture removes its channel most (chance {record['removal'][0]['chance']:.2f}): natural "
        f"{scores['natural', 'channels']:.2f}, paper's maps {scores['maps', 'channels']:.2f}",
        f"alignment of the maps, pixel cosine at {record['target']} on {len(HELD_OUT)} held-out photographs: {means}",
        f"{record['whole_run_seconds']:.0f} s, peak memory {record['peak_memory_GiB']} GiB",
    ]
    if record["reused_maps"]:
        lines.append(f"maps reused from {out / record['maps']['folder']}")
    return lines


def fit(loaded: LoadedModel, plan: sgfi.Plan, settings: DemoSettings, folder: Path, progress: bool) -> sgfi.MapFamily:
    """The map family; one that is there already is read, an interrupted fit resumes where it stopped."""
    if (folder / "manifest.json").exists():
        return sgfi.load(folder, plan.graph)
    batches = random_crops(_prepared(loaded), settings.crops, settings.seed)
    facts = {**batches.describe(), "seed": settings.seed, "photographs": [p.name for p in CALIBRATION]}
    return sgfi.calibrate(
        plan,
        batches,
        settings.ridge,
        preset=settings.preset,
        checkpoint=folder,
        progress=progress,
        provenance={"model": loaded.provenance, "data": facts},
    )


def peak_memory() -> int:
    """Bytes of this process at its largest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _claim(out: Path, force: bool) -> None:
    """The demo writes over its own earlier output and over nothing else."""
    if out.is_dir() and any(out.iterdir()) and not force and not _is_ours(out):
        raise StoreError(
            "a new or empty folder, or one of an earlier demo",
            f"{out}, which holds something else",
            "Choose another with --out or pass --force.",
        )
    out.mkdir(parents=True, exist_ok=True)
    if not (out / "report.json").exists():
        write_text(out / "report.json", json.dumps({"made_by": MADE_BY}))


def _is_ours(out: Path) -> bool:
    try:
        return read_settings(out / "report.json").get("made_by") == MADE_BY
    except DataError:
        return False


def _prepared(loaded: LoadedModel) -> Preprocessing:
    assert loaded.preprocessing is not None  # the demo runs on image models only
    return loaded.preprocessing
