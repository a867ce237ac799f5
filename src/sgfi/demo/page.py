"""The demonstration's report and summary, every number read back from the run's ``results.json``.

The report's words stand in ``page.md``; figures and tables are put where it names them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sgfi.inputs.photographs import CALIBRATION, HELD_OUT
from sgfi.inversion import STAGES
from sgfi.report import Drawing, Picture, Report, Table, read_report

NAMES = {"natural": "natural", "maps": "paper's maps"}
CONTROLS = ("random", "swapped", "neighbours")
WHICH_IS_WHICH = (
    "**The natural inverse** is what the input most probably is, given only what the feature registered: it follows "
    "the target, and what the feature does not determine stays out of the picture. **The paper's calibrated inverse** "
    "is the signal pulled back through the derivative at this photograph and repaired by fitted maps: where a random "
    "target gives nearly the same picture, it shows the photograph (the operating point) and not the feature."
)


@dataclass(frozen=True)
class Drawn:
    """A figure with the file it was written to."""

    file: str
    picture: Picture | Drawing


def compose(out: Path, drawn: dict[str, Drawn]) -> Report:
    """Figures and numbers with the words that say what they mean and do not mean."""
    record = json.loads((out / "results.json").read_text(encoding="utf-8"))
    settings, total = record["settings"], sum(record["seconds"].values())
    scores = {(entry["estimator"], entry["asked"]): entry for entry in record["removal"]}
    natural, maps = scores["natural", "channels"], scores["maps", "channels"]
    chance = natural["chance"]
    facts = (
        (f"{natural['best_at_own']:.2f}", f"natural: own picture removes its channel most (chance {chance:.2f})"),
        (f"{maps['best_at_own']:.2f}", "the same for the paper's calibrated maps"),
        (f"{record['fitted_nodes']}", f"nodes of the maps, from {settings['crops']} random crops"),
        (f"{total:.0f} s", f"whole run{' (maps reused)' if record['reused_maps'] else ''}"),
    )
    tables = {
        "control-table": _control_table(record),
        "removal-table": _removal_table(record),
        "alignment-table": _alignment_table(record),
        "time-table": Table(("step", "time"), tuple((k, f"{v:.1f} s") for k, v in record["seconds"].items())),
    }
    deepest = next(
        result["metrics"]["pixel_cosine"]["values"]
        for result in record["results"]
        if (result["query"], result["stage"]) == (record["target"], "final")
    )
    words = Template(files("sgfi.demo").joinpath("page.md").read_text(encoding="utf-8")).substitute(
        model=settings["model"],
        photographs=", ".join(photo.name for photo in HELD_OUT),
        which_is_which=WHICH_IS_WHICH,
        query=record["removal"][0]["queries"][0],
        maps=record["maps"]["folder"],
        target=record["target"],
        count=len(HELD_OUT),
        deepest=", ".join(f"{photo.name} {value:.2f}" for photo, value in zip(HELD_OUT, deepest, strict=True)),
        reused="The maps were reused from an earlier run. " if record["reused_maps"] else "",
        memory=record["peak_memory_GiB"],
        size=record["maps"]["MiB"],
    )
    photographs = "; ".join(f"{p.name} ({p.licence}, from {p.pip_name})" for p in (*HELD_OUT, *CALIBRATION))
    credits = f"Photographs: {photographs}."
    return read_report(words, {**{name: entry.picture for name, entry in drawn.items()}, **tables}, facts, credits)


def cosines(record: dict[str, Any], metric: str = "pixel_cosine") -> dict[str, dict[str, float]]:
    """Mean per query and stage: ``{query: {stage: mean}}``."""
    table: dict[str, dict[str, float]] = {}
    for result in record["results"]:
        table.setdefault(result["query"], {})[result["stage"]] = result["metrics"][metric]["mean"]
    return table


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
    return Table(("estimator", "query", *CONTROLS, "first photograph"), rows)


def _removal_table(record: dict[str, Any]) -> Table:
    rows = tuple(
        (
            NAMES[entry["estimator"]],
            f"{len(entry['queries'])} {entry['asked']} of `{entry['queries'][0].split(':')[0].split('@')[0]}`",
            *(f"{entry[name]:.2f}" for name in ("own", "others", "best_at_own", "chance")),
        )
        for entry in record["removal"]
    )
    return Table(("estimator", "queries", "own", "others", "best at own", "chance"), rows)


def _alignment_table(record: dict[str, Any]) -> Table:
    plain, centred = cosines(record), cosines(record, "centred_cosine")
    rows = tuple(
        (f"`{query}`", *(f"{plain[query][stage]:.3f}" for stage in STAGES), f"{centred[query]['final']:.3f}")
        for query in plain
    )
    return Table(("target", *STAGES, "centred"), rows)


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
