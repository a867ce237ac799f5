"""The record of a finished experiment: read, tabulate, judge its claims, compare with another."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgfi.errors import DataError
from sgfi.evaluation.statistics import Interval, bootstrap, contrast, ratio
from sgfi.evaluation.tables import markdown_table
from sgfi.experiments.declaration import Claim
from sgfi.experiments.measures import known
from sgfi.experiments.provenance import describe_code

FILE = "result.json"
JUDGED = 12
"""Digits of means and intervals, which are compared with claims as near to one as 0.99999997."""
WIDEST = 9
"""Scores that one table may have in columns."""
ROUNDING = 1e-6
"""What "=" allows for."""
Score = dict[str, Any]
"""``mean`` and, where it is over images, ``low``, ``high`` and ``values``; of a ratio of means, which is formed inside
every resample, ``numerator`` and ``denominator`` in place of ``values``."""


@dataclass(frozen=True)
class Result:
    """What a run wrote."""

    experiment: Mapping[str, Any]
    provenance: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]
    tables: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Score]]]]
    """measure -> variant -> row -> score -> numbers."""

    @property
    def name(self) -> str:
        return self.experiment["name"]

    def scores(self) -> Iterator[tuple[str, Score]]:
        """Every number under its address, measure/variant/row/score."""
        for measure, variants in self.tables.items():
            for variant, rows in variants.items():
                for row, scores in rows.items():
                    for name, score in scores.items():
                        yield "/".join((measure, variant, row, name)), score

    def at(self, address: str) -> Score:
        """The numbers at measure/variant/row/score."""
        score = dict(self.scores()).get(address)
        if score is None:
            raise DataError(
                "measure/variant/row/score of this result", repr(address), "sgfi experiment show lists them."
            )
        return score

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def _images(result: Result, measure: str) -> Any:
    """The option ``images`` of a measure: how many inputs, or from which to which."""
    kinds = (result.experiment.get(kind, {}) for kind in ("measures", "pairs", "across"))
    return next((own[measure].get("images") for own in kinds if measure in own), None)


def inputs_of(result: Result, measure: str, variant: str) -> int | None:
    """Evaluated inputs of a measure: its option ``images``, or its numbers per input; None where it keeps neither."""
    images = _images(result, measure)
    rows = result.tables[measure].get(variant, {}).values()
    most = max((len(score.get("values", ())) for scores in rows for score in scores.values()), default=0)
    if not most:
        return None
    drawn = [len(result.variants[label]["evaluation"]["indices"]) for label in variants_of(result, variant)]
    return min(*drawn, images if isinstance(images, int) else most)


def variants_of(result: Result, variant: str) -> list[str]:
    """A variant alone, both of a pair, or of a row across variants all of them."""
    labels = [variant] if variant in result.variants else variant.split(" -> ")
    return [label for label in labels if label in result.variants] or list(result.variants)


def read_result(path: str | Path) -> Result:
    """From a result file or the folder that holds it."""
    path = Path(path)
    file = path / FILE if path.is_dir() else path
    try:
        return Result(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DataError("the result of an experiment", f"{file}: {error}", "Run sgfi experiment run first.") from error


def summarise(value: Any, resamples: int) -> Score:
    """A number, a ratio of means, or a number per image with their mean and interval. Undefined ones of these are left
    out and counted."""
    if isinstance(value, (int, float)):
        return {"mean": _short(float(value), JUDGED)}
    if isinstance(value, Interval):
        return {key: _short(getattr(value, key), JUDGED) for key in ("mean", "low", "high")}
    if isinstance(value, Mapping):
        sides: Score = {side: [_short(float(number)) for number in numbers] for side, numbers in value.items()}
        if not any(value["denominator"]):
            return {"mean": None, **sides}
        return summarise(ratio(**value, resamples=resamples), resamples) | sides
    defined = [float(number) for number in value if math.isfinite(number)]
    record: Score = {"values": [_short(float(number)) for number in value]}
    if not defined:
        return {"mean": None, **record}
    record |= summarise(bootstrap(defined, resamples=resamples), resamples)
    return record | ({"undefined": len(value) - len(defined)} if len(defined) < len(value) else {})


def _short(value: float, digits: int = 6) -> float | None:
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


# Claims.


@dataclass(frozen=True)
class Verdict:
    """A claim and how it fared."""

    says: str
    holds: bool | None
    """None where a number it needs was not measured."""
    numbers: str
    ours: bool = False

    @property
    def word(self) -> str:
        return {True: "holds", False: "DOES NOT HOLD", None: "not measured"}[self.holds]


def verdicts(result: Result) -> list[Verdict]:
    """Every claim of the experiment, judged on the means; with ``*`` it must hold for every variant."""
    return [judge(result, claim) for claim in result.experiment["claims"]]


def judge(result: Result, declared: Mapping[str, Any]) -> Verdict:
    """One claim."""
    claim = Claim.from_dict(declared)
    numbers = {address: score["mean"] for address, score in result.scores()}
    variants = list(result.tables.get(claim.left.split("/")[0], {})) if "/*/" in claim.left else [""]
    shown, holds = [], bool(variants)
    for variant in variants:
        left = numbers.get(_named(claim.left, variant))
        right = numbers.get(_named(claim.right, variant)) if isinstance(claim.right, str) else claim.right
        if left is None or right is None:
            return Verdict(claim.says, None, "a number is missing", claim.ours)
        right *= claim.factor
        kept = {"<": left < right, ">": left > right, "=": abs(left - right) <= ROUNDING}[claim.relation]
        compared = f"{number(left)} {'' if kept else 'not '}{claim.relation} {number(right)}"
        shown.append(f"{variant}: {compared}" if variant else compared)
        holds = holds and kept
    return Verdict(claim.says, holds if variants else None, "; ".join(shown), claim.ours)


def _named(address: str, variant: str) -> str:
    return address.replace("/*/", f"/{variant}/")


# Tables.


def number(value: float | None) -> str:
    """Three figures, more where the number is tiny or next to one."""
    if value is None or not math.isfinite(value):
        return "undefined"
    if 0 < abs(1 - abs(value)) < 5e-4:
        return f"{value:.7g}"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3f}"
    return f"{value:.1e}"


def cell(score: Score | None, *, span: bool = True) -> str:
    """The mean, with its interval where there is one and ``span`` asks for it."""
    if score is None:
        return ""
    shown = f" [{number(score['low'])}, {number(score['high'])}]" if span and score.get("low") is not None else ""
    return number(score["mean"]) + shown


def shown_rows(result: Result, measure: str) -> list[tuple[str, str, Mapping[str, Score]]]:
    """Variant, row and scores of what tables show of a measure."""
    shown = known(measure).shown
    return [
        (variant, row, scores)
        for variant, rows in result.tables[measure].items()
        for row, scores in rows.items()
        if not shown or any(row == name or row.startswith(f"{name}, ") for name in shown)  # of any estimator
    ]


def table(result: Result, measure: str) -> str:
    """The rows of a measure that tables show, as Markdown; rows that share no score stand in tables of their own where
    one would be too wide."""
    lines = shown_rows(result, measure)
    names = list(dict.fromkeys(score for _, _, scores in lines for score in scores))
    tables = []
    for columns in [names] if len(names) <= WIDEST else _sharing([scores for _, _, scores in lines]):
        own = [(variant, row, scores) for variant, row, scores in lines if not columns or set(columns) & set(scores)]
        body = [[variant, row, *(cell(scores.get(name)) for name in columns)] for variant, row, scores in own]
        tables.append(markdown_table(["variant", "row", *columns], body))
    return "\n\n".join(tables)


def _sharing(rows: Sequence[Mapping[str, Score]]) -> list[list[str]]:
    """The scores in groups, of which no row has two."""
    groups: list[list[str]] = []
    for scores in rows:
        sharing = [group for group in groups if set(group) & set(scores)]
        groups = [group for group in groups if group not in sharing]
        groups.append(list(dict.fromkeys([*(name for group in sharing for name in group), *scores])))
    return groups


def _code(result: Result) -> str:
    words = describe_code(result.provenance)
    return words[0].upper() + words[1:]


def markdown(result: Result) -> str:
    """The whole result for people."""
    experiment = result.experiment
    parts = [f"# {experiment['title']}", f"`{result.provenance['command']}`", f"{_code(result)}."]
    if experiment["question"]:
        parts.append(experiment["question"])
    setups = [
        [
            label,
            Path(about["model"]["spec"]).name,
            about["target"],
            "x".join(map(str, about["shape"])),
            str(about["channel_axis"]),
            ",".join(map(str, about["coord_axes"])) or "-",
            str(about["fitted_nodes"]),
            f"{len(about['calibration']['indices'])} / {len(about['evaluation']['indices'])}",
        ]
        for label, about in result.variants.items()
    ]
    head = "variant, model, target, shape, channel axis, coordinates, fitted nodes, drawn to fit / to evaluate".split(
        ", "
    )
    parts.append(markdown_table(head, setups))
    for measure in result.tables:
        parts += [f"## {measure}", known(measure).about + _counts(result, measure), table(result, measure)]
    judged = verdicts(result)
    if judged:
        parts += ["## Claims", *(f"- {v.word}: {v.says} ({v.numbers})" for v in judged)]
    return "\n\n".join(parts) + "\n"


def _counts(result: Result, measure: str) -> str:
    """How many inputs a measure used, where it kept that; by variant where they differ."""
    counts = {variant: inputs_of(result, measure, variant) for variant in result.tables[measure]}
    if None in counts.values():
        return ""
    same = len(set(counts.values())) == 1
    words = str(next(iter(counts.values()))) if same else ", ".join(f"{n} ({label})" for label, n in counts.items())
    return f" Inputs: {words}."


def compare(first: Result, second: Result) -> str:
    """Numbers that both results have, with the difference; paired over images where both saw the same ones."""
    means = {address: score["mean"] for address, score in second.scores()}
    rows = []
    for address, score in first.scores():
        if score["mean"] is not None and means.get(address) is not None:
            rows.append([address, number(score["mean"]), number(means[address]), _difference(first, second, address)])
    if not rows:
        raise DataError("two results with numbers in common", "none", "Compare runs of one experiment.")
    return markdown_table(["measure/variant/row/score", "first", "second", "second - first"], rows)


def _difference(first: Result, second: Result, address: str) -> str:
    left, right = first.at(address), second.at(address)
    variant = address.split("/")[1]
    measure = address.split("/")[0]
    marks = [
        (result.variants.get(variant, {}).get("evaluation", {}).get("digest"), _images(result, measure))
        for result in (first, second)
    ]
    both = left.get("values"), right.get("values")
    if marks[0][0] is not None and marks[0] == marks[1] and all(both) and len(both[0]) == len(both[1]):  # type: ignore[arg-type]
        pairs = [(a, b) for a, b in zip(*both, strict=True) if a is not None and b is not None]  # type: ignore[arg-type]
        interval = contrast([b for _, b in pairs], [a for a, _ in pairs], resamples=10_000).interval
        return f"{number(interval.mean)} [{number(interval.low)}, {number(interval.high)}] paired"
    return number(right["mean"] - left["mean"])
