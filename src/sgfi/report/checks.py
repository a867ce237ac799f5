"""What a report measures of an estimator's pictures; records are JSON-able, and the tables are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from sgfi.evaluation.metrics import METRICS
from sgfi.evaluation.quality import NodeQuality
from sgfi.evaluation.removal import removal_of
from sgfi.evaluation.trust import Trust
from sgfi.inversion import STAGES, Estimator, Query
from sgfi.natural import Prior
from sgfi.report.html import Table

NAMES = {"natural": "natural", "maps": "paper's maps"}
WORST = 8
CONTROLS = ("random", "swapped", "neighbours")
Record = dict[str, Any]


def controls(name: str, answers: Sequence[Trust]) -> list[Record]:
    """One a query: cosines of the controls' pictures with the answer, and what they say about the first input."""
    return [
        {
            "estimator": name,
            "query": str(answer.inverse.query),
            **{control: _summary(getattr(answer, control)) for control in CONTROLS},
            "sentence": answer.sentence(),
        }
        for answer in answers
    ]


def removed(name: str, estimator: Estimator, x: Tensor, queries: Sequence[Query], prior: Prior) -> Record:
    """What taking each picture out of the input does to its own and the other queries' features."""
    scores = removal_of(estimator, x, queries, prior)
    means = {score: round(float(getattr(scores, score).mean()), 4) for score in ("own", "others", "best_at_own")}
    return {
        "estimator": name,
        "asked": "cells" if queries[0].coords else "channels",
        "queries": [str(query) for query in queries],
        **means,
        "chance": round(1 / len(queries), 4),
    }


def tried(records: Sequence[Record]) -> list[str]:
    """The controls of any of the queries."""
    return [name for name in CONTROLS if any(entry[name] is not None for entry in records)]


def control_table(records: Sequence[Record]) -> Table:
    """Controls that were tried for none of the queries have no column."""
    columns = tried(records)
    rows = tuple(
        (
            NAMES[entry["estimator"]],
            f"`{entry['query']}`",
            *("" if entry[name] is None else f"{entry[name]['mean_absolute']:.2f}" for name in columns),
        )
        for entry in records
    )
    return Table(("estimator", "query", *columns), rows)


def removal_table(records: Sequence[Record]) -> Table:
    rows = tuple(
        (
            NAMES[entry["estimator"]],
            f"{len(entry['queries'])} {entry['asked']} of `{entry['queries'][0].split(':')[0].split('@')[0]}`",
            *(f"{entry[name]:.2f}" for name in ("own", "others", "best_at_own", "chance")),
        )
        for entry in records
    )
    return Table(("estimator", "queries", "own", "others", "best at own", "chance"), rows)


def cosines(results: Sequence[Record], metric: str = "pixel_cosine") -> dict[str, dict[str, float]]:
    """Mean per query and stage: ``{query: {stage: mean}}``."""
    table: dict[str, dict[str, float]] = {}
    for result in results:
        table.setdefault(result["query"], {})[result["stage"]] = result["metrics"][metric]["mean"]
    return table


def alignment_table(results: Sequence[Record]) -> Table:
    plain = cosines(results)
    centred = cosines(results, "centred_cosine") if "centred_cosine" in METRICS else plain
    rows = tuple(
        (f"`{query}`", *(f"{plain[query][stage]:.3f}" for stage in STAGES), f"{centred[query]['final']:.3f}")
        for query in plain
    )
    return Table(("target", *STAGES, "centred"), rows)


def quality_table(nodes: Sequence[NodeQuality]) -> Table:
    """The share of a node's energy that its maps miss, of the nodes that miss most; columns that are known."""
    worst = sorted(nodes, key=lambda node: -(node.unseen[-1] if node.unseen else node.seen or 0.0))[:WORST]
    columns = {
        "node": [f"`{node.name}`" for node in worst],
        "channels": [str(node.channels) for node in worst],
        "missed, seen": ["" if node.seen is None else f"{node.seen:.3f}" for node in worst],
        "missed, unseen": [f"{node.unseen[-1]:.3f}" if node.unseen else "" for node in worst],
        "lost here": ["" if node.lost is None else f"{node.lost:+.3f}" for node in worst],
    }
    known = {head: cells for head, cells in columns.items() if any(cells)}
    return Table(tuple(known), tuple(zip(*known.values(), strict=True)))


def _summary(values: Tensor | None) -> Record | None:
    if values is None:
        return None
    return {
        "values": [round(float(value), 4) for value in values],
        "mean_absolute": round(float(values.abs().mean()), 4),
    }
