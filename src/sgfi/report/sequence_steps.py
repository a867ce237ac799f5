"""The steps of a report on sequences: texts as a language model's embeddings, or arrays (L, D)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

import sgfi
from sgfi.decisions.readout import output_name
from sgfi.errors import QueryError
from sgfi.evaluation.trust import Trust, trust
from sgfi.figures.atlases import depth_name, shape_name
from sgfi.figures.tokens import Strip, token_strips
from sgfi.inversion import Estimator, Query
from sgfi.inversion.estimator import spread
from sgfi.language import energy_profile
from sgfi.report.html import Block, Picture, Table
from sgfi.report.page import paragraph
from sgfi.report.questions import Questions
from sgfi.report.steps import Steps

COUNT = 5
LONGEST = 24
"""Tokens that a strip shows: the last ones."""
LADDER = """
    The last position of ever deeper tensors. Fill is the share of the inverse's energy at each position: where in the
    sequence the feature reads. It is neither an attention weight nor a probability."""
TOKENS = "Single positions of one tensor half-way down, each framed."
CHANNELS = "Single channels of that tensor, those that registered most of this input."
CAUSES = """
    Above: the inverse of the margin between the two likeliest outcomes. Below: its drop when one position's
    embedding is replaced by the mean embedding and the model is run again, an intervention that no inverse enters
    (negative drops are shown as nothing). They are parallel evidence."""


class SequenceSteps(Steps):
    """Inputs (N, L, D)."""

    @cached_property
    def asked(self) -> Questions:
        subject = self.subject
        targets = spread(subject.targets, self.settings.depths)
        return Questions.of(subject.lens, subject.x, targets, self.settings.queries, COUNT)

    def ladder(self) -> Sequence[Block]:
        return [paragraph(LADDER), *self._depths(self.subject.lens)]

    def channels(self) -> Sequence[Block]:
        return [paragraph(CHANNELS), *self._single(self.subject.lens, self.asked.channels)]

    def cells(self) -> Sequence[Block]:
        if not self.asked.cells:
            return [paragraph("None of these tensors has positions.")]
        return [paragraph(TOKENS), *self._single(self.subject.lens, self.asked.cells)]

    def drawn_trust(self, answers: Sequence[Trust], estimator: Estimator) -> Sequence[Block]:
        strips = []
        for answer in answers:
            at = self._positions(answer.inverse.query)
            strips.append(self._strip(answer.inverse.value, str(answer.inverse.query), at))
            strips += [self._strip(value, f"control: {label}", at) for label, value in answer.controls.items()]
        return [self._picture(strips, "Answers beside what other targets give")]

    def decision(self) -> Sequence[Block]:
        lens, x = self.subject.lens, self.subject.x[:1]
        name = output_name(lens.graph)
        program = lens.graph.program(("input",), (name,))
        margin, query, outcomes = self._margin(name, x)
        answer = trust(lens, x, query)
        length = x.shape[1]
        edited = x.repeat(length, 1, 1)
        edited[range(length), range(length)] = lens.prior.mean_like(x)
        with torch.no_grad():
            before, after = margin(program(x)[0]), margin(program(edited)[0])
        drop = before - after
        self.record["decision"] = {
            "outcomes": outcomes,
            "margin": round(float(before), 4),
            "drop": [round(float(value), 4) for value in drop],
            "sentence": answer.sentence(),
        }
        kept = drop.clamp_min(0)
        strips = [
            self._strip(answer.inverse.value, "inverse of the margin"),
            *(self._strip(value, f"control: {label}") for label, value in answer.controls.items()),
            self._shown(kept / kept.sum().clamp_min(1e-30), "share of the drops"),
        ]
        title = f"{outcomes[0]!r} against {outcomes[1]!r}: margin {float(before):.2f}"
        labels = self.subject.tokens[0]
        table = Table(("position", "drop"), tuple((labels[at], f"{drop[at]:.2f}") for at in range(length)))
        return [self._picture(strips, title), paragraph(CAUSES), paragraph(answer.sentence()), table]

    def drawn_maps(self, family: sgfi.MapFamily) -> Sequence[Block]:
        blocks = [*self._depths(family), *self._single(family, self.asked.channels)]
        return [*blocks, *(self._single(family, self.asked.cells) if self.asked.cells else [])]

    def _margin(self, name: str, x: Tensor):  # type: ignore[no-untyped-def]
        """Of the first input: logits -> (n,), the query that asks about it, and the two outcomes' names."""
        lens = self.subject.lens
        with torch.no_grad():
            logits = lens.graph.program(("input",), (name,))(x)[0]
        node, last = lens.node(name), x.shape[1] - 1
        if logits.dim() not in (2, 3) or logits.shape[-1] < 2 or node.channel_axis not in (-1, logits.dim() - 1):
            todo = "Ask about another output in Python."
            raise QueryError("logits (B, classes) or (B, L, vocabulary)", str(tuple(logits.shape)), todo)
        row = logits[0] if logits.dim() == 2 else logits[0, last]
        first, second = row.topk(2).indices.tolist()
        direction = torch.zeros(logits.shape[-1], dtype=torch.float64)
        direction[first], direction[second] = 1.0, -1.0
        query = Query(name, None, None if logits.dim() == 2 else ((last,),), direction.unsqueeze(0))
        tokenizer = self.subject.loaded.tokenizer
        spelled = [str(word) if tokenizer is None else tokenizer.decode([word]) for word in (first, second)]

        def margin(values: Tensor) -> Tensor:
            rows = values if values.dim() == 2 else values[:, last]
            return rows[:, first] - rows[:, second]

        return margin, query, spelled

    def _depths(self, estimator: Estimator) -> Sequence[Block]:
        length, strips = self.subject.x.shape[1], []
        for target in self.asked.targets:
            node = estimator.node(target)
            query = Query(target, None, ((length - 1,),)) if node.coord_shape == (length,) else Query(target)
            value = sgfi.sweep(estimator, self.subject.x[:1], [query])[0].value
            strips.append(self._strip(value, f"{depth_name(node)} {shape_name(node)}", self._positions(query)))
        return [self._picture(strips, "The last position, from shallow to deep")]

    def _single(self, estimator: Estimator, queries: Sequence[Query]) -> Sequence[Block]:
        inverses = sgfi.sweep(estimator, self.subject.x[:1], queries)
        strips = [
            self._strip(inverse.value, str(Query(None, query.channels, query.coords)), self._positions(query))
            for query, inverse in zip(queries, inverses, strict=True)
        ]
        return [self._picture(strips, str(queries[0].target))]

    def _strip(self, value: Tensor, label: str, queried: Sequence[int] = ()) -> Strip:
        return self._shown(energy_profile(value)[0], label, queried)

    def _shown(self, profile: Tensor, label: str, queried: Sequence[int] = ()) -> Strip:
        """The last tokens of the first input."""
        first = max(0, len(profile) - LONGEST)
        at = [position - first for position in queried if position >= first]
        return Strip(self.subject.tokens[0][first:], profile[first:].tolist(), label, (), at)

    def _positions(self, query: Query) -> list[int]:
        single = query.coords is not None and all(len(coord) == 1 for coord in query.coords)
        return [int(coord[0]) for coord in query.coords or () if coord[0] is not None] if single else []

    def _picture(self, strips: Sequence[Strip], title: str) -> Picture:
        return Picture.of(token_strips(strips, title), f"Token strips: {title}")
