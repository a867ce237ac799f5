"""What a path answers, whoever carries the message: a web server, a notebook's widget, or a test.

====================================================  =======================================================
``/api/health``                                       queue, counts, memory
``/api/models``                                       open lenses with their tensors and the boundary DAG
``/api/inputs``                                       known inputs; POST adds one and returns its digest
``/quality/<lens>.json``                              error of every node of a map folder, and advice
``/input/<lens>/<input>.png|json``                    an input as the model sees it; a text's tokens
``/inverse/<lens>/<input>/<query>.png|json|safetensors``   ``?stage=preview|raw|first|final|share``
``/export/<lens>/<input>/<query>.svg|html|py|sh``     what is shown, to take away
``/sweep/<lens>/<input>/<query>|<query>....json``     numbers about many answers, when all are there
``/likeness/<lens>/<input>/<query>|<query>....json``  selectivity among known answers
``/trust|scores|reads|decide|tokens/<lens>/<input>/<query>.json``  the other stages; trust has pictures too
====================================================  =======================================================
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import torch

from sgfi.errors import QueryError, SgfiError
from sgfi.explorer import export, pictures, tokens
from sgfi.explorer.answers import INVERSES, LIMITS, STAGES, THUMBNAILS, URGENCY, answer
from sgfi.explorer.comparing import pair
from sgfi.explorer.inputs import as_pixels
from sgfi.explorer.models import describe_lens, quality_of
from sgfi.explorer.store import Artefact, digest
from sgfi.explorer.worker import BusyError, Cancelled, FaultError, Ticket, Worker, together
from sgfi.explorer.workspace import Question, Workspace

FOREVER = "private, max-age=31536000, immutable"
TYPES = {"json": "application/json", "png": "image/png", "safetensors": "application/octet-stream"}
MOST_TOGETHER = 256
"""Answers that are asked for, or compared with each other, at once."""
Params = Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """A status, a type and bytes."""

    body: bytes
    type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class NotFoundError(SgfiError):
    """No such address."""


def json_reply(record: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(json.dumps(record).encode(), "application/json", status, headers)


def error_record(error: BaseException) -> dict[str, str]:
    """The three beats."""
    if isinstance(error, SgfiError):
        return {"expected": error.expected, "got": error.got, "todo": error.todo}
    if isinstance(error, Cancelled):
        return {"expected": "somebody to wait for the answer", "got": "a cancelled question", "todo": "Ask again."}
    return {"expected": "an answer", "got": type(error).__name__, "todo": "This is a fault of sgfi: please report it."}


def error_reply(error: BaseException) -> Reply:
    status = {BusyError: 503, NotFoundError: 404, FaultError: 500, Cancelled: 499}.get(type(error))
    status = status or (400 if isinstance(error, SgfiError) else 500)
    return json_reply({"error": error_record(error)}, status)


class Site:
    """Answers paths about one workspace with one worker."""

    def __init__(self, workspace: Workspace, worker: Worker | None = None) -> None:
        self.workspace, self.worker = workspace, worker or Worker()

    def close(self) -> None:
        self.worker.close()

    def ask(
        self, question: Question, progress: Callable[[int], None] | None = None, background: bool = False
    ) -> Ticket:
        """A claim on an :class:`Artefact`: at once where it is known."""
        known = self.workspace.store.get(question.key)
        if known is not None:
            return Ticket.done(known)

        def run(tick: Callable[[], None]) -> Artefact:
            made = self.workspace.store.get(question.key)  # ready since it was asked for
            if made is None:
                made = answer(self.workspace, question, tick)
                self.workspace.store.put(question.key, made)
            return made

        urgency = THUMBNAILS if background else URGENCY
        return self.worker.submit(question.key, run, urgency[question.stage], progress)

    def request(self, path: str, params: Params | None = None, known: str | None = None) -> Ticket:
        """A claim on the :class:`Reply` to a GET; ``known`` is the ETag that the client has."""
        try:
            return self._routed(path, params or {}, known)
        except SgfiError as error:
            return Ticket.done(error_reply(error))

    def add(self, data: bytes, name: str, kind: str) -> Reply:
        """The reply to an upload."""
        try:
            entry = self.workspace.add(data, name, kind)
        except SgfiError as error:
            return error_reply(error)
        return json_reply({"sha": entry.sha, "name": entry.name, "kind": entry.kind}, 201)

    def health(self) -> dict[str, Any]:
        return {
            "ok": True,
            "waiting": self.worker.waiting,
            "counts": dict(self.worker.counts),
            "memory": self.workspace.store.held,
        }

    def _routed(self, path: str, params: Params, known: str | None) -> Ticket:
        parts = [unquote(part) for part in path.strip("/").split("/", 3)]
        if parts[0] == "api" and len(parts) == 2:
            records: dict[str, Callable[[], Any]] = {
                "health": self.health,
                "models": lambda: [describe_lens(lens) for lens in self.workspace.lenses.values()],
                "inputs": self._inputs,
            }
            if parts[1] in records:
                return Ticket.done(json_reply(records[parts[1]]()))
        if parts[0] == "quality" and len(parts) == 2:
            return Ticket.done(json_reply(quality_of(self.workspace.lens(_suffixed(parts[1])[0]))))
        if parts[0] == "input" and len(parts) == 3:
            return Ticket.done(self._input(parts[1], *_suffixed(parts[2])))
        if parts[0] == "export" and len(parts) == 4:
            return self._export(parts[1], parts[2], *_suffixed(parts[3]), params)
        if parts[0] == "sweep" and len(parts) == 4:
            return self._sweep(parts[1], parts[2], _suffixed(parts[3])[0].split("|"), params.get("stage", "final"))
        if parts[0] == "likeness" and len(parts) == 4:
            return Ticket.done(json_reply(self._likeness(parts[1], parts[2], _suffixed(parts[3])[0].split("|"))))
        if len(parts) == 4 and (parts[0] == "inverse" or parts[0] in STAGES):
            query, suffix = _suffixed(parts[3])
            return self._answered(parts[0], parts[1], parts[2], query, suffix, params, known)
        raise NotFoundError("an address of the explorer", repr(path[:200]), "The page itself is at /.")

    def _inputs(self) -> list[dict[str, Any]]:
        lenses = self.workspace.lenses.items()
        return [
            {
                "sha": sha,
                "name": entry.name,
                "kind": entry.kind,
                "lenses": [key for key, lens in lenses if entry.fits(lens)],
            }
            for sha, entry in self.workspace.inputs.items()
        ]

    def _input(self, lens: str, sha: str, suffix: str) -> Reply:
        opened, x = self.workspace.lens(lens), self.workspace.prepared(lens, sha)
        if suffix == "png" and opened.picture:
            return Reply(pictures.pixels_png(as_pixels(x, opened)), "image/png", headers={"cache-control": FOREVER})
        if suffix == "json":
            entry = self.workspace.input(sha)
            words = tokens.pieces(opened, entry.text) if entry.kind == "text" else None
            return json_reply({"name": entry.name, "shape": list(x.shape), "tokens": words})
        raise NotFoundError("an input as .png or .json", repr(suffix[:20]), "Ask for one of these.")

    def _export(self, lens: str, sha: str, query: str, suffix: str, params: Params) -> Ticket:
        """What is shown, as one file: ``svg``, ``html``, ``py`` or ``sh``."""
        stage = params.get("stage", "final")
        if suffix not in export.TYPES or stage not in INVERSES:
            known = f"{', '.join(export.TYPES)} at a stage among {', '.join(INVERSES)}"
            raise NotFoundError(known, repr((suffix, stage)), "Choose one of these.")
        question = self.workspace.question(lens, sha, query, stage)
        opened, entry = self.workspace.lens(lens), self.workspace.input(sha)
        spelled = self.workspace.located(question.query)
        link = {
            "m": lens,
            "x": sha,
            "q": question.query,
            "s": "1" if stage == "share" else "",
            "w": params.get("view", ""),
        }
        python = export.python_lines(opened, entry, question, spelled)
        shown = {name: text for name, text in link.items() if text}
        shell = export.command_lines(opened, entry, question, spelled, shown)
        if suffix in ("py", "sh"):
            return Ticket.done(Reply({"py": python, "sh": shell}[suffix].encode(), export.TYPES[suffix]))
        checks = self.workspace.question(lens, sha, query, "trust", params.get("other", ""))

        def composed(made: list[Artefact]) -> Reply:
            answered, checked = made
            view = {"view": params.get("view", pictures.VIEWS[0])}
            panels: dict[str, bytes] = {}
            if opened.picture:
                panels["input"] = self._input(lens, sha, "png").body
                panels["answer"] = self._encoded(question, answered, "png", view)
                for part, caption in (("random", "control: random target"), ("swapped", "control: another target")):
                    if part in checked.tensors:
                        panels[caption] = self._encoded(checks, checked, "png", {**view, "part": part})
            figure = export.svg(question, panels, checked.facts["sentence"])
            if suffix == "html":
                figure = export.page(question, figure, {**answered.facts, **checked.facts}, python, shell)
            return Reply(figure.encode(), export.TYPES[suffix])

        return together([self.ask(question), self.ask(checks)]).chained(composed)

    def _sweep(self, lens: str, sha: str, queries: list[str], stage: str) -> Ticket:
        """Facts of many answers, in the order of their queries; they stand in the queue like thumbnails."""
        if len(queries) > MOST_TOGETHER or stage not in INVERSES:
            raise QueryError(
                f"at most {MOST_TOGETHER} queries at a stage among {', '.join(INVERSES)}",
                f"{len(queries)} at {stage[:20]!r}",
                "Ask for fewer at once.",
            )
        questions = [self.workspace.question(lens, sha, query, stage) for query in queries]
        asked = together([self.ask(question, background=True) for question in questions])
        return asked.chained(lambda made: json_reply({"answers": [dict(each.facts) for each in made]}))

    def _likeness(self, lens: str, sha: str, queries: list[str]) -> dict[str, Any]:
        """Selectivity among answers that are known: one minus the mean absolute cosine with the others."""
        questions = [self.workspace.question(lens, sha, query, "final") for query in queries[:MOST_TOGETHER]]
        known = {question.query: self.workspace.store.get(question.key) for question in questions}
        values = {query: made.tensors["value"].flatten() for query, made in known.items() if made is not None}
        if len(values) < 2:
            raise QueryError("two known answers or more", str(len(values)), "Ask for the answers first.")
        stacked = torch.nn.functional.normalize(torch.stack(list(values.values())).double(), dim=1)
        alike = ((stacked @ stacked.mT).abs().sum(1) - 1) / (len(stacked) - 1)
        scores = (1 - alike).tolist()
        return {"selectivity": {query: round(score, 4) for query, score in zip(values, scores, strict=True)}}

    def _answered(
        self, what: str, lens: str, sha: str, query: str, suffix: str, params: Params, known: str | None
    ) -> Ticket:
        stage = params.get("stage", "final") if what == "inverse" else what
        if suffix not in TYPES or (what == "inverse" and stage not in INVERSES):
            raise NotFoundError(
                f"one of {', '.join(TYPES)} and a stage among {', '.join(INVERSES)}",
                repr((suffix, stage)),
                "Correct the address.",
            )
        question = self.workspace.question(lens, sha, query, stage, params.get("other", ""))
        tag = '"' + digest([question.key, suffix, sorted(params.items())])[:32] + '"'
        if known == tag:
            return Ticket.done(Reply(b"", TYPES[suffix], 304, {"etag": tag, "cache-control": FOREVER}))

        def reply(made: Artefact) -> Reply:
            try:
                body = self._encoded(question, made, suffix, params)
            except SgfiError as error:
                return error_reply(error)
            return Reply(body, TYPES[suffix], headers={"etag": tag, "cache-control": FOREVER})

        return self.ask(question, background="background" in params).chained(reply)

    def _encoded(self, question: Question, made: Artefact, suffix: str, params: Params) -> bytes:
        if suffix == "json":
            facts = dict(made.facts)
            if "with" in params:
                facts |= pair(self.workspace, question, made, params["with"]).facts()
            if "share" in made.tensors:  # of places and cells, a small table
                facts["share"] = [[round(v, 4) for v in row] for row in made.tensors["share"].tolist()]
            return json.dumps({**facts, "key": question.key}).encode()
        if suffix == "safetensors":
            return made.packed()
        lens, part = self.workspace.lens(question.lens), params.get("part", "value")
        if part not in made.tensors or part in ("opacity", "share"):
            raise NotFoundError("a part that can be drawn", repr(part[:40]), f"Parts: {', '.join(made.tensors)}.")
        x = self.workspace.prepared(question.lens, question.input)
        gain = _gain(params.get("gain"))
        view, value = params.get("view", pictures.VIEWS[0]), made.tensors[part][0]
        if "with" in params or "minus" in params:
            both = pair(self.workspace, question, made, params.get("with") or params["minus"])
            if "minus" in params:  # on the scale that both have when signed
                shown = pictures.draw(lens, x, both.first - both.second, view="signed", beside=both.first)
            else:
                scale = 1 / both.first.abs().max().clamp_min(1e-30) if both.scaled else 1.0
                shown = pictures.draw(lens, x, scale * both.first, view=view, beside=scale * both.second)
            return pictures.png(shown)
        if question.stage in ("preview", "raw", "first"):  # in no unit of the input: only the pattern is shown
            value = value / value.abs().max().clamp_min(1e-30)
        return pictures.png(pictures.draw(lens, x, value, made.tensors.get("opacity"), gain, view))


def _suffixed(name: str) -> tuple[str, str]:
    """``layer3.1.add:17.png`` -> the query and ``png``."""
    query, _, suffix = name.rpartition(".")
    return query, suffix


def _gain(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        gain = float(text)
    except ValueError:
        gain = -1.0
    if not 0 < gain < 1e6:
        raise QueryError("a positive gain", repr(text[:40]), "Give a number such as 2.5.")
    return gain


__all__ = ["LIMITS", "NotFoundError", "Reply", "Site", "error_record", "error_reply", "json_reply"]
