"""The tables of an ``answers`` result for a page of the docs, filled in between two marks and never typed by hand.

A page holds ``<!-- answers: folder -->`` ... ``<!-- /answers -->`` with the folder of a result relative to the page;
:func:`filled` puts the result's tables between the marks, or where several folders are named one row for each tensor.
``folder+folder`` are runs of other methods, or on later inputs of the same set, shown as one result, and
``folder; without score`` leaves out a score that was withdrawn.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sgfi.errors import DataError
from sgfi.evaluation.tables import FEWEST, markdown_table
from sgfi.experiments.measures.answers import span
from sgfi.experiments.results import Result, Score, read_result, summarise

MARKS = re.compile(r"(<!-- answers: (\S+(?: \S+)*) -->\n).*?(<!-- /answers -->)", re.DOTALL)
KINDS = ("channels", "cells")
Rows = Mapping[str, Mapping[str, Score]]
"""``method, target, kind`` -> score -> numbers."""


def filled(page: str, folder: Path) -> str:
    """A page with the tables of every result it names; ``folder`` is where the page stands."""

    def tables(mark: re.Match[str]) -> str:
        names, _, withdrawn = mark[2].partition("; without ")
        results = [_without(read_joined(folder, name), withdrawn.split()) for name in names.split()]
        return mark[1] + (answer_tables(*results) if len(results) == 1 else answer_summary(results)) + mark[3]

    return MARKS.sub(tables, page)


PARTS = "parts"
"""In the provenance of joined runs: the rows whose first and later inputs were measured by different code."""


def read_joined(folder: Path, names: str) -> Result:
    """The result in ``folder/name``, or for ``name+name`` the runs in these folders as one."""
    results = [read_result(folder / name) for name in names.split("+")]
    return results[0] if len(results) == 1 else joined(results)


def _without(result: Result, withdrawn: Sequence[str]) -> Result:
    """The result less some scores."""
    known = {address.rpartition("/")[2] for address, _ in result.scores()}
    for name in withdrawn:
        if name not in known:
            raise DataError(f"a score of the result among {sorted(known)}", repr(name), "Correct what is left out.")
    tables = {
        measure: {
            label: {row: {n: s for n, s in scores.items() if n not in withdrawn} for row, scores in rows.items()}
            for label, rows in variants.items()
        }
        for measure, variants in result.tables.items()
    }
    return replace(result, tables=tables)


def joined(results: Sequence[Result]) -> Result:
    """Runs of several methods, or on later inputs, as one result.

    What two have measured is the longer run's, the first's where they are equal. Inputs that follow are put behind
    where nothing is left out in between; :data:`PARTS` in the provenance names rows in which other code measured some.
    """
    first = results[0]
    for other in results[1:]:
        if _compared(other) != _compared(first):
            got = f"{first.provenance['command']!r} and {other.provenance['command']!r}"
            raise DataError("runs with the same network and queries on one set of inputs", got, "Join such runs.")
    commands = "` and `".join(result.provenance["command"] for result in results)
    tables: dict[str, dict[str, dict[str, dict[str, Score]]]] = {}
    code: dict[str, object] = {}
    parts: set[str] = set()
    for result in sorted(results, key=_start):
        for measure, variants in result.tables.items():
            for label, rows in variants.items():
                own = tables.setdefault(measure, {}).setdefault(label, {})
                for row, scores in rows.items():
                    known = own.get(row)
                    later = _start(result) if measure == "answers" else 0
                    new = scores if known is None else _longer(known, scores, later, first)
                    own[row] = dict(new)
                    if new is scores:
                        code[row] = result.provenance.get("code")
                    elif new is not known and code[row] != result.provenance.get("code"):
                        parts.add(row)
    return replace(first, provenance={**first.provenance, "command": commands, PARTS: sorted(parts)}, tables=tables)


def _longer(known: Mapping[str, Score], more: Mapping[str, Score], start: int, result: Result) -> dict[str, Score]:
    """Scores of inputs from ``start`` on, put behind those that are known if they follow them; else the longer ones."""
    counts = [len(scores.get("own_size", {}).get("values", ())) for scores in (known, more)]
    if not start or start != counts[0]:
        return more if not start and counts[1] > counts[0] else known  # type: ignore[return-value]
    scores = dict(known)
    for name, score in more.items():
        if "values" in score:
            before = known.get(name, {}).get("values", [])
            values = [math.nan if value is None else value for value in (*before, *score["values"])]
            scores[name] = summarise(values, result.experiment["resamples"])
    return scores


def _start(result: Result) -> int:
    return span(result.experiment["measures"]["answers"].get("images"))[0]


def _compared(result: Result) -> list[Any]:
    """What two runs must have in common to stand in one table."""
    same = [
        [label, about["model"], about["calibration"]["digest"], about["evaluation"]["digest"]]
        for label, about in result.variants.items()
    ]
    return [*same, _asked(result), result.experiment["measures"]["answers"].get("targets")]


SUMMARISED = (
    "natural, path",
    "natural, point",
    "maps",
    "trained decoder",
    "gradient",
    "SmoothGrad",
    "activation x input",
)


def answer_overview(results: Sequence[Result]) -> str:
    """The summary of all methods; runs with one network and the same queries are joined."""
    runs: dict[str, list[Result]] = {}
    for result in results:
        runs.setdefault(json.dumps(_compared(result)), []).append(result)
    whole = [joined(own) for own in runs.values()]
    methods = [method for result in whole for rows in result.tables["answers"].values() for method in _methods(rows)]
    return answer_summary(whole, list(dict.fromkeys(methods)))


def answer_summary(results: Sequence[Result], methods: Sequence[str] = SUMMARISED) -> str:
    """Markdown: best at own at equal size, channels / cells, one row for each tensor of each result.

    Behind what was measured on fewer inputs than the others stands how many.
    """
    body = []
    for result in results:
        (about,), (rows,) = result.variants.values(), result.tables["answers"].values()
        name = f"{_network(about)}, {'x'.join(map(str, about['model']['input_shape']))}"
        asked = " / ".join(str(_asked(result)[kind]) for kind in KINDS)
        for target in _targets(rows):
            most = max(_count(rows, method) for method in methods)
            scores = [
                _pair(rows, method, target, "best_at_own_size") + f" ({count})" * (0 < count < most)
                for method in methods
                for count in [_count(rows, method)]
            ]
            body.append([name, f"`{target}`", str(most), asked, *scores])
    return markdown_table(["network, input", "tensor", "inputs", "queries, up to", *methods], body) + "\n"


def _asked(result: Result) -> dict[str, int]:
    return {"channels": 16, "cells": 16, **(result.experiment["measures"]["answers"].get("queries") or {})}


def _network(about: Mapping[str, Any]) -> str:
    return about["model"]["spec"].rpartition(":")[2]


def _targets(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row.rsplit(", ", 2)[1] for row in rows))


def answer_tables(result: Result) -> str:
    """Markdown: the set-up, then one table for each question."""
    if "answers" not in result.tables:
        raise DataError("a result of the experiment answers", result.name, "Run sgfi experiment run answers.")
    parts = []
    for label, rows in result.tables["answers"].items():
        parts += [_setup(result, label, rows), *_tables(rows)]
    if "answer_routing" in result.tables:
        parts += [_routing(rows) for rows in result.tables["answer_routing"].values()]
    return "\n\n".join(parts) + "\n"


def _setup(result: Result, label: str, rows: Rows) -> str:
    about, asked = result.variants[label], _asked(result)
    size = "x".join(map(str, about["model"]["input_shape"]))
    counts = {method: _count(rows, method) for method in _methods(rows)}
    most = max(counts.values())
    fewer = [f"{method} {count}" for method, count in counts.items() if count < most]
    queries = f"the {asked['channels']} strongest channels / up to {asked['cells']} cells"
    others = f"{len(about['calibration']['indices'])} other inputs for "
    text = any("future_energy" in scores for scores in rows.values())
    others += "maps and decoder, all tokens of their text for the prior" if text else "the prior, maps and decoder"
    return (
        f"{_network(about)}, input {size}; {most} inputs{_noted(fewer)}; {queries}; "
        f"{others}. {_parted(result, counts)}"
        f"`{result.provenance['command']}`"
    )


def _parted(result: Result, methods: Collection[str]) -> str:
    rows = result.provenance.get(PARTS) or ()
    named = [method for method in methods if method in {row.rsplit(", ", 2)[0] for row in rows}]
    return f"First and later inputs by two versions of the code: {', '.join(named)}. " if named else ""


def _noted(fewer: list[str]) -> str:
    return f" (fewer: {', '.join(fewer)})" if fewer else ""


QUESTIONS = (
    (
        "Best at own, and how much of its own feature a picture removes, at equal size, channels / cells:",
        ("best_at_own_size", "own_size"),
        "removes",
    ),
    ("The same at equal prior energy:", ("best_at_own_energy", "own_energy"), "removes"),
    (
        "How often a picture excites its own feature most, and rank correlation of its energy with the occlusion map:",
        ("excites_itself", "occlusion_agreement"),
        "occlusion",
    ),
    (
        "Of the cells' pictures, the share of energy after the queried position, and exact tokens at that position:",
        ("future_energy", "exact_token"),
        "exact",
    ),
)
"""What a table is about, its two scores, and what the second is called in the head."""
CONTROLS = (
    "Controls, on {} inputs: mean absolute cosine of the answer with a random target's, with another input's target's, "
    "and with the answer at an unrelated input (channels; cells), and the length of a zero target's answer relative to "
    "its own:"
)


def _tables(rows: Rows) -> Iterator[str]:
    targets = _targets(rows)
    head = [f"`{target}`" for target in targets]
    for says, scores, second in QUESTIONS:
        body = [[method, *(_pair(rows, method, t, s) for s in scores for t in targets)] for method in _methods(rows)]
        body = [row for row in body if set("".join(row[1:])) - set("- /")]
        if body:
            yield says
            yield markdown_table(["picture", *head, *(f"{second}, {name}" for name in head)], body)
    controlled = {row: scores for row, scores in rows.items() if "random_cosine_size" in scores}
    if controlled:
        body = [[method, *_control_cells(controlled, method, targets)] for method in _methods(controlled)]
        yield CONTROLS.format(_most(controlled, "random_cosine_size"))
        yield markdown_table(["estimator", *head, "zero"], body)
    yield _intervals(rows, targets)


def _pair(rows: Rows, method: str, target: str, score: str) -> str:
    """Channels / cells."""
    return " / ".join(_mean(rows.get(f"{method}, {target}, {kind}", {}).get(score)) for kind in KINDS)


def _control_cells(rows: Rows, method: str, targets: list[str]) -> list[str]:
    cells, zeros = [], []
    for target in targets:
        by_kind = []
        for kind in KINDS:
            scores = rows.get(f"{method}, {target}, {kind}", {})
            labels = ("random", "swapped", "unrelated")
            by_kind.append(" ".join(_mean(scores.get(f"{label}_cosine_size")) for label in labels))
            zeros += [scores["zero"]["mean"]] if "zero" in scores else []
        cells.append("; ".join(by_kind))
    return [*cells, f"{max(zeros):.2g}" if zeros else "-"]


def _intervals(rows: Rows, targets: list[str]) -> str:
    """Of best at own, where there are enough inputs."""
    scores = ("best_at_own_size", "best_at_own_energy")
    body = [
        [method, *(_span_pair(rows, method, target, score) for score in scores for target in targets)]
        for method in _methods(rows)
        if _count(rows, method) >= FEWEST
    ]
    if not body:
        return f"Fewer than {FEWEST} inputs: a pilot, without intervals."
    head = [f"`{target}`" for target in targets]
    table = markdown_table(["picture", *head, *(f"prior energy, {name}" for name in head)], body)
    return f"95 % bootstrap intervals over inputs of best at own, at equal size and at equal prior energy:\n\n{table}"


def _span_pair(rows: Rows, method: str, target: str, score: str) -> str:
    """Channels / cells, from and to."""
    return " / ".join(_span(rows.get(f"{method}, {target}, {kind}", {}).get(score)) for kind in KINDS)


def _routing(rows: Rows) -> str:
    scores = ("cue_minus_random", "target", "agreement_minus_attractor")
    head = ["picture of the last token", "on cues minus random", "on the token itself", "auxiliary minus attractor"]
    body = [[row, *(_spanned(each.get(score)) for score in scores)] for row, each in rows.items()]
    return "Routing, shares of the picture's energy:\n\n" + markdown_table(head, body)


def _spanned(score: Score | None) -> str:
    if score is None or score["mean"] is None:
        return "-"
    return (
        f"{score['mean']:.3f} ({score['low']:.3f}, {score['high']:.3f})" if "low" in score else f"{score['mean']:.3f}"
    )


def _span(score: Score | None) -> str:
    return "-" if score is None or score.get("low") is None else f"{score['low']:.2f} to {score['high']:.2f}"


def _mean(score: Score | None) -> str:
    return "-" if score is None or score["mean"] is None else f"{score['mean']:.2f}"


def _methods(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row.rsplit(", ", 2)[0] for row in rows))


def _count(rows: Rows, method: str) -> int:
    own = {row: scores for row, scores in rows.items() if row.rsplit(", ", 2)[0] == method}
    return _most(own, "own_size")


def _most(rows: Rows, score: str) -> int:
    return max((len(scores[score].get("values", ())) for scores in rows.values() if score in scores), default=0)
