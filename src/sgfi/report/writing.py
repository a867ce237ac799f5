"""From a subject to the page: the steps of its kind, a few facts at the top, and how it was made at the end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from sgfi.errors import QueryError
from sgfi.inputs.models import describe_weights
from sgfi.report.checks import Record
from sgfi.report.html import Block, Code, Section, Text
from sgfi.report.look import is_picture
from sgfi.report.page import Page
from sgfi.report.picture_steps import PictureSteps
from sgfi.report.sequence_steps import SequenceSteps
from sgfi.report.steps import Steps, counted
from sgfi.report.subject import ReportSettings, Subject

MADE = "How it was made, and how to ask more"
WARNING = (
    "An inverse is an estimate of what a feature registered of an input that is known: not a reconstruction from a "
    "code, not an attribution score, not a causal intervention."
)


def write_report(
    subject: Subject, out: Path, settings: ReportSettings | None = None, *, progress: bool = True
) -> Record:
    """The page ``out``, its numbers beside it as .json; returns the numbers."""
    settings = settings or ReportSettings()
    steps_of = steps_for(subject)
    check_queries(subject, settings)
    made = {"spec": subject.loaded.spec, "weights": subject.loaded.weights}
    random = " with random weights" if describe_weights(made) == "random" else ""
    title = settings.title or f"What features of {subject.loaded.spec}{random} identify"
    inputs = ", ".join(subject.names)
    lead = (
        settings.lead
        or f"Feature inverses of `{subject.loaded.spec}`{random} on {counted(len(subject.x))}: {inputs}. {WARNING}"
    )
    record: Record = {"made_by": settings.command, "inputs": list(subject.names), "natural": subject.lens.describe()}
    page = Page(out, title, lead, record, settings.seconds, progress, settings.foot)
    steps = steps_of(subject, settings, page)
    page.run(steps.all())
    page.finish(_facts(page), Section(MADE, tuple(_made(steps))))
    return record


def steps_for(subject: Subject) -> type[Steps]:
    """How inputs of this shape are drawn; others are an error."""
    shape = tuple(subject.x.shape[1:])
    if is_picture(shape):
        return PictureSteps
    if len(shape) == 2 and subject.tokens:
        return SequenceSteps
    raise QueryError(
        "pictures (1 or 3, H, W) or sequences (L, D)",
        f"inputs of shape {shape}",
        "Nothing of a report can be drawn: ask single queries in Python, sgfi.look(...).value.",
    )


def check_queries(subject: Subject, settings: ReportSettings) -> None:
    """Before anything is written: every query names numbers that are there."""
    for query in settings.queries:
        for part in query.parts:
            part.selection(subject.lens.node(part.target), subject.x.device)


def _facts(page: Page) -> Sequence[tuple[str, str]]:
    """A few numbers of the run, those that there are."""
    record = page.record
    facts = []
    names = {"natural": "natural inverse", "maps": "the paper's calibrated maps"}
    for entry in record.get("removal", []):
        if entry["asked"] == "channels":
            what = f"{names[entry['estimator']]}: own picture removes its channel most (chance {entry['chance']:.2f})"
            facts.append((f"{entry['best_at_own']:.2f}", what))
    if "fitted_nodes" in record:
        facts.append((f"{record['fitted_nodes']}", "nodes of the maps"))
    return [*facts, (f"{sum(page.taken.values()):.0f} s", "all steps")]


def _made(steps: Steps) -> list[Block]:
    settings, subject, page = steps.settings, steps.subject, steps.page
    blocks: list[Block] = [*page.steps_table()]
    if settings.command:
        blocks += [Text("This page:"), Code(settings.command)]
    source = settings.source or subject.loaded.spec
    queries = [*settings.queries, *steps.asked.channels[:1], *steps.asked.cells[:1]]
    picture = isinstance(steps, PictureSteps)
    size = f" --size {subject.x.shape[-1]}" if picture else ""
    given = subject.loaded.weights
    weights = "" if given == "pretrained" else f" --weights {shlex.quote(str(given))}"
    data, out = ("photo.jpg", "answer.png") if picture else ('"a text"', "answer.safetensors")
    asked = f"sgfi look {subject.loaded.spec} {data}{size}{weights}"
    lines = [f'{asked} --query "{query}" --out {out}' for query in queries[:3]]
    if subject.maps is not None:
        lines += [f"sgfi maps info {source} --quality", f"sgfi evaluate {source} other-inputs/ --out results.json"]
    lines += [f"sgfi graph {subject.loaded.spec} --match {queries[0].target}"]
    note = "Single answers with their controls, and the names of tensors; queries are `<node>[:<channels>][@<coords>]`:"
    blocks += [Text(note), Code("\n".join(lines))]
    return [*blocks, *([Code(settings.more)] if settings.more else [])]
