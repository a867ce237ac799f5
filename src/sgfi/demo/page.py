"""The demonstration's report and summary, every number read back from the run's ``results.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgfi.inputs.photographs import CALIBRATION, HELD_OUT
from sgfi.inversion import STAGES
from sgfi.report import Code, Drawing, Picture, Report, Section, Table, Text


@dataclass(frozen=True)
class Drawn:
    """A figure with the file it was written to."""

    file: str
    picture: Picture | Drawing


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
    """Only where the number is lower than the demonstration aims for."""
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
            Text("More queries to the maps of this demo, from the folder of this report:"),
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
                "sgfi plan torchvision:resnet18 --boundaries stage,stem\n"
                "sgfi calibrate torchvision:resnet18 --boundaries stage,stem --data photos/ --out maps/resnet18\n"
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


def summary(out: Path) -> list[str]:
    """The outcome in a few lines, from the file the run wrote."""
    record = json.loads((out / "results.json").read_text(encoding="utf-8"))
    deepest = cosines(record)[record["target"]]
    means = ", ".join(f"{stage} {deepest[stage]:.2f}" for stage in STAGES)
    lines = [
        f"pixel cosine at {record['target']} on {len(HELD_OUT)} held-out photographs: {means}",
        f"{sum(record['seconds'].values()):.0f} s, peak memory {record['peak_memory_GiB']} GiB",
    ]
    if record["reused_maps"]:
        lines.append(f"maps reused from {out / record['maps']['folder']}")
    return lines
