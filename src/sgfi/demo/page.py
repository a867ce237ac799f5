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
    settings = record["settings"]
    total = sum(record["seconds"].values())
    photos = ", ".join(photo.name for photo in HELD_OUT)
    scores = {(entry["estimator"], entry["asked"]): entry for entry in record["removal"]}
    natural, maps = scores["natural", "channels"], scores["maps", "channels"]
    return Report(
        title="What the features of an ImageNet network identify",
        lead=f"Feature inverses of `{settings['model']}` (real ImageNet weights) on photographs that no map was fitted "
        f"on: {photos}. First the natural inverse, which needs no calibration, then the paper's calibrated inverses, "
        "each beside controls that say how far to trust a picture.",
        facts=(
            (
                f"{natural['best_at_own']:.2f}",
                f"natural: own picture removes its channel most (chance {natural['chance']:.2f})",
            ),
            (f"{maps['best_at_own']:.2f}", "the same for the paper's calibrated maps"),
            (f"{record['fitted_nodes']}", f"nodes of the maps, from {settings['crops']} random crops"),
            (f"{total:.0f} s", f"whole run{' (maps reused)' if record['reused_maps'] else ''}"),
        ),
        sections=(
            _natural(drawn),
            _trust(drawn, record),
            _maps(drawn),
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


WHICH_IS_WHICH = (
    "**The natural inverse** is what the input most probably is, given only what the feature registered: it follows "
    "the target, and what the feature does not determine stays out of the picture. **The paper's calibrated inverse** "
    "is the signal pulled back through the derivative at this photograph and repaired by fitted maps: where a random "
    "target gives nearly the same picture, it shows the photograph (the operating point) and not the feature."
)


def _natural(drawn: dict[str, Drawn]) -> Section:
    return Section(
        "What features identify: the natural inverse",
        (
            Text(
                "Nothing is fitted to this network. Each column takes one tensor, deeper to the right, and shows what "
                "the input most probably is given **all** of it: detail goes, layout and colour stay longest."
            ),
            drawn["natural-depths"].picture,
            Text("Single channels, those that registered most of this photograph. They differ from one another."),
            drawn["natural-channels"].picture,
            Text("Single cells: the outline shows the part of the picture that the cell stands over."),
            drawn["natural-cells"].picture,
        ),
    )


def _trust(drawn: dict[str, Drawn], record: dict[str, Any]) -> Section:
    return Section(
        "Which picture to trust",
        (
            Text(WHICH_IS_WHICH),
            Text(
                "Natural inverse: the answer, then what the same solve gives for a **random target** of the same "
                "length and for **another photograph's target**. An answer changes with the target."
            ),
            drawn["natural-controls"].picture,
            Text("The paper's calibrated maps, the same queries and controls:"),
            drawn["controls"].picture,
            _control_table(record),
            _removal_table(record),
        ),
    )


def _control_table(record: dict[str, Any]) -> Table:
    rows = tuple(
        (
            NAMES[entry["estimator"]],
            f"`{entry['query']}`",
            *("" if entry[name] is None else f"{entry[name]['mean_absolute']:.2f}" for name in CONTROLS),
            entry["sentence"],
        )
        for entry in record["controls"]
    )
    note = (
        f"Mean absolute cosine with the answer over {len(HELD_OUT)} photographs, and what the controls say about the "
        "first of them. Near 1 for a random target: the operating point speaks."
    )
    return Table(("estimator", "query", *CONTROLS, "first photograph"), rows, note)


def _removal_table(record: dict[str, Any]) -> Table:
    rows = tuple(
        (
            NAMES[entry["estimator"]],
            f"{len(entry['queries'])} {entry['asked']} of `{entry['queries'][0].split(':')[0].split('@')[0]}`",
            *(f"{entry[name]:.2f}" for name in ("own", "others", "best_at_own", "chance")),
        )
        for entry in record["removal"]
    )
    note = (
        "Each picture, scaled to 15 % of the photograph's deviation from the mean, is taken out of the input: how much "
        "of its own feature goes, of the others', and how often the own picture is the one that removes it most. "
        f"{len(HELD_OUT)} photographs: an illustration, not a benchmark."
    )
    return Table(("estimator", "queries", "own", "others", "best at own", "chance"), rows, note)


NAMES = {"natural": "natural", "maps": "paper's maps"}
CONTROLS = ("random", "swapped", "neighbours")


def _maps(drawn: dict[str, Drawn]) -> Section:
    return Section(
        "The paper's calibrated inverses",
        (
            Text(
                "Whole tensors again, deeper to the right. The panels hardly lose detail with depth: the derivative at "
                "this very photograph carries its layout, whatever the target. The controls above say where."
            ),
            drawn["depths"].picture,
            Text(
                "One photograph by three routes. **Raw VJP** is ordinary backpropagation. **First** repairs the signal "
                "at every boundary with one fitted linear map. **Final** checks that estimate against the network's "
                "own derivative and corrects what was left over."
            ),
            drawn["stages"].picture,
            Text(
                "The same channels and cells as above. A negative cosine means a picture in negative. The panels share "
                "the photograph's layout; the query decides weight, colour and sign. In the signed view red is "
                "brighter, blue darker than neutral."
            ),
            drawn["channels"].picture,
            drawn["coordinates"].picture,
            Text("The maps have no bias, so a target of zero must come back as zero."),
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
        "Alignment of the calibrated inverses",
        (
            Table(
                ("target", "raw", "first", "final", "centred"),
                rows,
                f"Pixel cosine, mean over {len(HELD_OUT)} held-out photographs. At the deepest target: {each}.",
            ),
            Text(
                "**Pixel cosine** is alignment, not quality: it compares the inverse with the photograph in the "
                "network's input coordinates: 1 is the same direction, 0 is unrelated. **Centred** takes each "
                "picture's mean away first, so that brightness alone earns nothing (final inverse)."
            ),
            Text(
                "What it does **not** say: a low value for a channel is no failure (a channel need not look "
                "like the photograph), a high value does not show that the network uses the feature, and an "
                "inverse is an estimate under the fitted maps, not the input recovered from a code. Three "
                "photographs are an illustration, not a benchmark, and the settings of this demonstration were "
                "tried out on them."
            ),
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
    model, query = record["settings"]["model"], record["removal"][0]["queries"][0]
    return Section(
        "Your own model and images",
        (
            Text("The natural inverse needs a model, a picture and a query:"),
            Code(f'import sgfi\n\nanswer = sgfi.look("{model}", "photo.jpg", "{query}")\nanswer.save("answer.png")'),
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
    scores = {(entry["estimator"], entry["asked"]): entry["best_at_own"] for entry in record["removal"]}
    chance = record["removal"][0]["chance"]
    lines = [
        f"own picture removes its channel most (chance {chance:.2f}): natural {scores['natural', 'channels']:.2f}, "
        f"paper's maps {scores['maps', 'channels']:.2f}",
        f"alignment of the maps, pixel cosine at {record['target']} on {len(HELD_OUT)} held-out photographs: {means}",
        f"{sum(record['seconds'].values()):.0f} s, peak memory {record['peak_memory_GiB']} GiB",
    ]
    if record["reused_maps"]:
        lines.append(f"maps reused from {out / record['maps']['folder']}")
    return lines
