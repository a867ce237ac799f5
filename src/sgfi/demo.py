"""The demonstration: a real ImageNet network, real photographs, every figure, one report. Nothing is downloaded.

Steps, each a function below: load, calibrate (or reuse), measure, draw, report. What the report says is read back from
the ``results.json`` that the run wrote.
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
from sgfi.errors import StoreError
from sgfi.evaluation.tables import measure
from sgfi.figures.atlases import depth_targets, spread_coords, strongest_channels
from sgfi.query_text import TextQuery
from sgfi.report import Code, Picture, Report, Section, Table, Text, render
from sgfi.vision.models import LoadedModel, load_model
from sgfi.vision.photographs import CALIBRATION, HELD_OUT, held_out_images, random_crops

MADE_BY = "sgfi demo"
STAGES = ("raw", "first", "final")


@dataclass(frozen=True)
class Settings:
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


@dataclass(frozen=True)
class Drawn:
    """A figure with the file it was written to."""

    file: str
    picture: Picture


def run(out: Path, settings: Settings | None = None, *, progress: bool = True, force: bool = False) -> Path:
    """Everything; returns the path of the report."""
    settings = settings or Settings()
    _claim(out, force)
    clock = Clock()
    with clock.step("load the model, capture its graph, plan"):
        loaded = load_model(settings.model, size=settings.size)
        plan = _plan(loaded, settings)
    with clock.step("calibrate"):
        family, reused = fit(loaded, plan, settings, out / settings.folder, progress)
    held_out = held_out_images(_prepared(loaded))
    targets = depth_targets(plan, settings.depths)
    with clock.step("measure on held-out photographs"):
        results = measure(family, held_out, [TextQuery(target) for target in targets])
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
        found = json.loads((out / "results.json").read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        return False
    return isinstance(found, dict) and found.get("made_by") == MADE_BY


def _plan(loaded: LoadedModel, settings: Settings) -> Any:
    graph = sgfi.capture(loaded.model, loaded.example)
    return sgfi.plan(graph, settings.target, settings.boundaries)


def fit(loaded: LoadedModel, plan: Any, settings: Settings, folder: Path, progress: bool) -> tuple[Any, bool]:
    """The map family, and whether it was there already. An interrupted fit goes on where it stopped."""
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
    family: Any,
    loaded: LoadedModel,
    x: torch.Tensor,
    names: list[str],
    targets: list[str],
    folder: Path,
) -> dict[str, Drawn]:
    """Every figure, as a PNG file and for the report."""
    plan, prepared = family.plan, _prepared(loaded)
    shown = {"preprocessing": prepared}
    grid_target = coordinate_target(plan)
    cells = spread_coords(plan.graph.nodes[grid_target].coord_shape, 7)
    width = plan.graph.nodes[plan.target].channels
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
        "dag": (figures.boundary_dag(plan), "The boundary DAG from the input to the target"),
    }
    drawn = {}
    for name, (figure, alt) in made.items():
        file = figures.save_figure(figure, folder / f"{name}.png", overwrite=True)
        drawn[name] = Drawn(f"figures/{file.name}", Picture.of(figure, alt))
    return drawn


def coordinate_target(plan: Any) -> str:
    """The deepest served target whose map still has at least 8 x 8 cells, else the plan's own."""
    for name in reversed(depth_targets(plan, len(plan.boundaries))):
        shape = plan.graph.nodes[name].coord_shape
        if len(shape) == 2 and min(shape) >= 8:
            return name
    return str(plan.target)


def peak_memory() -> int:
    """Bytes of this process at its largest."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _prepared(loaded: LoadedModel) -> Any:
    assert loaded.preprocessing is not None  # the demo runs on image models only
    return loaded.preprocessing


# The report. Every number below comes from the results.json of the run.


def compose(out: Path, drawn: dict[str, Drawn]) -> Report:
    """Figures and numbers with the words that say what they mean and do not mean."""
    record = json.loads((out / "results.json").read_text(encoding="utf-8"))
    deepest = cosines(record)[record["target"]]
    settings = record["settings"]
    total = sum(record["seconds"].values())
    photos = ", ".join(photo.name for photo in HELD_OUT)
    return Report(
        title="What the features of an ImageNet network look like",
        lead=f"Feature inverses of `{settings['model']}` (real ImageNet weights) on photographs that the "
        f"maps have never seen: {photos}. An inverse shows, in the input domain, what one internal "
        "tensor of the network holds about this input.",
        facts=(
            (f"{deepest['final']:.2f}", "mean pixel cosine, final, deepest target, held out"),
            (f"{deepest['raw']:.2f}", "the same for raw backpropagation"),
            (f"{record['fitted_nodes']}", f"nodes repaired, from {settings['crops']} random crops"),
            (f"{total:.0f} s", f"whole run{' (maps reused)' if record['reused_maps'] else ''}"),
        ),
        sections=(
            _reading(drawn, record),
            _queries(drawn),
            _numbers(record),
            _how(drawn, record),
            _next(record),
        ),
        foot=_credits(),
    )


def cosines(record: dict[str, Any], metric: str = "pixel_cosine") -> dict[str, dict[str, float]]:
    """Mean per query and stage: ``{query: {stage: mean}}``."""
    table: dict[str, dict[str, float]] = {}
    for result in record["results"]:
        table.setdefault(result["query"], {})[result["stage"]] = result["metrics"][metric]["mean"]
    return table


def _reading(drawn: dict[str, Drawn], record: dict[str, Any]) -> Section:
    return Section(
        "Photographs and their inverses",
        (
            Text(
                "Each column takes one tensor of the network, deeper to the right, and carries **all** of it "
                "back to the input. What survives is what the tensor and the path to it (the derivative at this very "
                "photograph) still hold; deep in a convolutional network the path decides nearly everything."
            ),
            drawn["depths"].picture,
            Text(
                "The same photograph by three routes. **Raw VJP** is ordinary backpropagation: right path, "
                "wrong scale and covariance. **First** repairs the signal at every boundary with one fitted "
                "linear map. **Final** checks that estimate against the network's own derivative and "
                "corrects what was left over."
            ),
            drawn["stages"].picture,
        ),
    )


def _queries(drawn: dict[str, Drawn]) -> Section:
    return Section(
        "Smaller questions",
        (
            Text(
                "One channel, a group of channels, one cell: the maps stay the same, only the question "
                "changes. These are the channels with the most energy on this photograph. A negative cosine means that "
                "the channel taken alone points away from the photograph: it darkens what is "
                "bright. The panels share the "
                "photograph's layout because the derivatives are taken at this photograph; the query decides weight, "
                "colour and sign."
            ),
            drawn["channels"].picture,
            drawn["groups"].picture,
            Text(
                "One cell of an intermediate tensor at a time. The outline shows the part of the picture "
                "the cell stands over. Red is brighter, blue darker than neutral; what lies "
                "outside the outline is the context that the cell has taken in."
            ),
            drawn["coordinates"].picture,
            Text("A control: the maps have no bias, so a target of zero must come back as zero."),
            drawn["zero"].picture,
        ),
    )


def _numbers(record: dict[str, Any]) -> Section:
    plain, centred = cosines(record), cosines(record, "centred_cosine")
    rows = tuple(
        (f"`{query}`", *(f"{plain[query][stage]:.3f}" for stage in STAGES), f"{centred[query]['final']:.3f}")
        for query in plain
    )
    deepest = next(
        result["metrics"]["pixel_cosine"]
        for result in record["results"]
        if (result["query"], result["stage"]) == (record["target"], "final")
    )
    each = ", ".join(f"{p.name} {v:.2f}" for p, v in zip(HELD_OUT, deepest["values"], strict=True))
    return Section(
        "Numbers",
        (
            Table(
                ("target", "raw", "first", "final", "centred"),
                rows,
                f"Pixel cosine, mean over {len(HELD_OUT)} held-out photographs. At the deepest target: {each}.",
            ),
            Text(
                "**Pixel cosine** compares the inverse with the photograph in the network's input "
                "coordinates: 1 is the same direction, 0 is unrelated. **Centred** takes each picture's mean "
                "away first, so that brightness alone earns nothing (final inverse)."
            ),
            *_shortfall(deepest["mean"]),
            Text(
                "What it does **not** say: a low value for a channel is no failure (a channel need not look "
                "like the photograph), a high value does not show that the network uses the feature, and an "
                "inverse is an estimate under the fitted maps, not the input recovered from a code. Three "
                "photographs are an illustration, not a benchmark, and the settings of this demonstration were "
                "tried out on them."
            ),
        ),
    )


AIM = 0.70


def _shortfall(reached: float) -> tuple[Text, ...]:
    """Said only when the number is lower than the demonstration aims for."""
    if reached >= AIM:
        return ()
    return (
        Text(
            f"The mean at the deepest target, {reached:.2f}, is below the {AIM:.2f} this demonstration aims for. "
            f"The usual reason is the calibration set: random crops of {len(CALIBRATION)} photographs do not span what "
            "the deep, wide tensors can hold. A folder of a few hundred varied photographs does better."
        ),
    )


def _how(drawn: dict[str, Drawn], record: dict[str, Any]) -> Section:
    rows = tuple((step, f"{seconds:.1f} s") for step, seconds in record["seconds"].items())
    reused = "The maps were reused from an earlier run. " if record["reused_maps"] else ""
    return Section(
        "How it was made",
        (
            drawn["dag"].picture,
            Table(
                ("step", "time"),
                rows,
                f"{reused}Peak memory {record['peak_memory_GiB']} GiB, maps {record['maps']['MiB']} MiB. "
                "Calibrated on random crops of other photographs than the ones shown.",
            ),
        ),
    )


def _next(record: dict[str, Any]) -> Section:
    maps, target = record["maps"]["folder"], record["target"]
    return Section(
        "Your own model and images",
        (
            Text("More questions to the maps of this demo, asked from the folder of this report:"),
            Code(
                f"sgfi maps info {maps}\n"
                f"sgfi invert {maps} photo.jpg --out inverse.png\n"
                f"sgfi invert {maps} photo.jpg --query {target}:17 --out channel17.png\n"
                f"sgfi atlas {maps} photo.jpg --kind channels --out channels.png"
            ),
            Text(
                "Another model: list its tensors, look at the plan, fit on a folder of a few hundred images, "
                "then ask. Write `path/to/file.py:build` for a model of your own."
            ),
            Code(
                "sgfi graph torchvision:resnet18\n"
                "sgfi plan torchvision:resnet18\n"
                "sgfi calibrate torchvision:resnet18 --data photos/ --out maps/resnet18\n"
                "sgfi atlas maps/resnet18 other-photos/ --kind depth --out depth.png\n"
                "sgfi evaluate maps/resnet18 other-photos/ --out results.json"
            ),
            Text("Queries are written `<node>[:<channels>][@<coords>]`, for example:"),
            Code(
                "layer3.1.add            the whole tensor\n"
                "layer3.1.add:17         channel 17\n"
                "layer3.1.add:0-7,12     channels 0 to 7 and 12\n"
                "layer3.1.add:17@2,3     channel 17 in row 2, column 3"
            ),
        ),
    )


def _credits() -> str:
    parts = [f"{p.name} ({p.licence}, from {p.pip_name})" for p in (*HELD_OUT, *CALIBRATION)]
    return f"Photographs: {'; '.join(parts)}."


def told(out: Path) -> list[str]:
    """The outcome in a few lines, from the file the run wrote."""
    record = json.loads((out / "results.json").read_text(encoding="utf-8"))
    deepest = cosines(record)[record["target"]]
    said = ", ".join(f"{stage} {deepest[stage]:.2f}" for stage in STAGES)
    lines = [
        f"pixel cosine at {record['target']} on {len(HELD_OUT)} held-out photographs: {said}",
        f"{sum(record['seconds'].values()):.0f} s, peak memory {record['peak_memory_GiB']} GiB",
    ]
    if record["reused_maps"]:
        lines.append(f"maps reused from {out / record['maps']['folder']}")
    return lines
