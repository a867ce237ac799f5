"""The steps of a report on pictures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import sgfi
from sgfi.decisions import DecisionSettings, activation_means, gate, study
from sgfi.decisions.studies import default_depths
from sgfi.evaluation.trust import Trust
from sgfi.figures.decisions import decision_atlas
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Query
from sgfi.inversion.estimator import spread
from sgfi.natural import NotConverged, Solver
from sgfi.report import pictures
from sgfi.report.html import Block, Picture, Table
from sgfi.report.look import usual_preparation
from sgfi.report.page import paragraph
from sgfi.report.questions import COUNT, Questions
from sgfi.report.steps import Steps

PILOTS = (1, 1, 4)
"""Conjugate-gradient steps of solves that are timed to see what can be afforded: the first one warms up."""
LEAST = 1e-4
"""Seconds that a step takes at least."""
LADDER_PART, QUERY_PART, CONTROL_PART = 0.25, 0.1, 0.15
"""Of the report's seconds: what the depth ladder, the single channels, and the controls of a query may take."""
FEWEST_STEPS, FEWEST_QUERIES = 20, 3
"""Steps of a whole tensor; queries shown."""
USUAL_STEPS, SHORT_STEPS, SHORT_TOLERANCE = 20, 8, 0.2
"""Steps that a channel or cell is expected to take; the most where the network is large, and how well it is solved."""
SOLVES = 9
"""Of a query with its controls: the answer, three random targets, another input's, four neighbours."""
LADDER = """
    Nothing is fitted to this network. Each column takes one tensor, deeper to the right, and shows what the input most
    probably is given **all** of it. Detail that is missing was lost on the way; layout and colour often stay
    longest."""
CHANNELS = "Single channels, those that registered most of this input."
CELLS = "Single cells: the outline shows the part of the picture that the cell stands over."
EDITED = """
    Two branches that never meet. **Pictures**: inverses of the channels that speak most for the predicted class and
    against it, and of random ones, on the first input. **Numbers**: the same kind of group is replaced in the network
    itself by its mean over the mean input, and the margin between the two likeliest classes is measured again; a
    drop means that the group spoke for the decision. Few inputs prove nothing; `sgfi decide` takes many."""
MAP_WORDS = {
    "depths": """Whole tensors again, deeper to the right. Where the panels hardly lose detail with depth, the
        derivative at this very input carries its layout, whatever the target; the controls say where.""",
    "stages": """One input by three routes. **Raw VJP** is ordinary backpropagation. **First** repairs the signal at
        every boundary with one fitted linear map. **Final** checks that estimate against the network's own derivative
        and corrects what was left over.""",
    "channels": """The same channels and cells as above. A negative cosine means a picture in negative. In the signed
        view red is brighter, blue darker than neutral.""",
    "cells": "",
    "zero": "The maps have no bias, so a target of zero must come back as zero.",
}


class PictureSteps(Steps):
    """Inputs (N, 1 or 3, H, W)."""

    @property
    def preparation(self) -> Preprocessing:
        return self.subject.loaded.preprocessing or usual_preparation(self.subject.x)

    @cached_property
    def asked(self) -> Questions:
        subject = self.subject
        targets = spread(subject.targets, self.settings.depths)
        return Questions.of(self.lens, subject.x, targets, self.settings.queries, self.affordable_queries)

    @cached_property
    def lens(self) -> sgfi.NaturalInverse:
        """With fewer steps where the controls of a query would take too long."""
        lens, allowed = self.subject.lens, self._affordable_solves(self.subject.lens.solver.steps)
        if allowed >= SOLVES:
            return lens
        solver, tolerance = lens.solver, max(SHORT_TOLERANCE, lens.solver.tolerance)
        return replace(lens, solver=replace(solver, steps=min(SHORT_STEPS, solver.steps), tolerance=tolerance))

    @cached_property
    def checked(self) -> int:
        allowed = self._affordable_solves(self.lens.solver.steps) / SOLVES
        return int(min(max(allowed, 1), len(self.subject.x)))

    def _affordable_solves(self, steps: int) -> float:
        if self.settings.seconds is None:
            return float("inf")
        steps = min(steps, USUAL_STEPS)
        return CONTROL_PART * self.settings.seconds / (steps * self.subject.lens.path.points * self.seconds_per_step)

    @cached_property
    def seconds_per_step(self) -> float:
        """Of one conjugate-gradient step for a whole tensor half-way down, at one input and one point."""
        lens, names = self.subject.lens, self.subject.targets
        taken = []
        for steps in PILOTS:
            pilot = sgfi.natural(lens.graph, lens.prior, jacobian="point", solver=Solver(steps=steps, tolerance=1e-9))
            started = time.monotonic()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NotConverged)  # it is timed, not looked at
                sgfi.invert(pilot, self.subject.x[:1], target=names[len(names) // 2])
            taken.append(time.monotonic() - started)
        return max((taken[2] - taken[1]) / (PILOTS[2] - PILOTS[1]), LEAST)

    @cached_property
    def affordable_ladder(self) -> tuple[int, int]:
        """Inputs, and conjugate-gradient steps for each of their tensors: fewer steps first, then fewer inputs."""
        count = len(self.subject.x)
        if self.settings.seconds is None:
            return count, pictures.LADDER_STEPS
        depths = min(self.settings.depths, len(self.subject.targets))
        allowed = LADDER_PART * self.settings.seconds / (depths * self.seconds_per_step)
        inputs = min(max(int(allowed / FEWEST_STEPS), 1), count)
        return inputs, int(min(max(allowed / inputs, FEWEST_STEPS), pictures.LADDER_STEPS))

    @property
    def affordable_queries(self) -> int:
        allowed = self._affordable_solves(self.lens.solver.steps) * QUERY_PART / CONTROL_PART
        return int(min(max(allowed, FEWEST_QUERIES), COUNT))

    def affordable_share(self, queries: int) -> int:
        """Up to how many numbers a query's share is worked out: a product with the Jacobian for each."""
        if self.settings.seconds is None:
            return pictures.SHARED_UP_TO
        product = self.seconds_per_step * self.subject.lens.path.points / 2
        return int(min(QUERY_PART * self.settings.seconds / (queries * product), pictures.SHARED_UP_TO))

    def ladder(self) -> Sequence[Block]:
        subject, (count, steps) = self.subject, self.affordable_ladder
        self.record["natural_ladder"] = {"jacobian": "point", "ridge": pictures.LADDER_RIDGE, "steps": steps}
        drawn = pictures.ladder_picture(
            subject.lens, subject.x[:count], subject.names[:count], self.asked.targets, self.preparation, steps
        )
        return [paragraph(LADDER), drawn]

    def channels(self) -> Sequence[Block]:
        return [paragraph(CHANNELS), self._queries(self.asked.channels)]

    def cells(self) -> Sequence[Block]:
        if not self.asked.cells:
            return [paragraph("None of these tensors has cells.")]
        return [paragraph(CELLS), self._queries(self.asked.cells)]

    def _queries(self, queries: Sequence[Query]) -> Picture:
        shared = self.affordable_share(len(queries))
        return pictures.query_picture(self.lens, self.subject.x[:1], queries, self.preparation, shared)

    def drawn_trust(self, answers: Sequence[Trust], estimator: Estimator) -> Sequence[Block]:
        if isinstance(estimator, sgfi.NaturalInverse):
            shared = self.affordable_share(len(answers))
            return [pictures.trust_picture(answers, estimator, self.subject.x, self.preparation, shared)]
        return [pictures.map_trust_picture(answers, self.subject.x, self.preparation)]

    def decision(self) -> Sequence[Block]:
        subject = self.subject
        lens, x = self.lens, subject.x
        depths = tuple(spread(default_depths(lens, self.settings.depths), 2))
        means = activation_means(lens, [lens.prior.mean_like(x).unsqueeze(0)], depths)
        options = DecisionSettings(
            depths=depths, repeats=5, protocols=("mean",), curve_repeats=1, inversions=False, resamples=500
        )
        outcome = study(lens, x, means, options, subject.names)
        signed = gate(outcome)
        self.record["decision"] = {"study": outcome.as_dict(), "gate": signed.as_dict()}
        title = f"{subject.names[0]}: class {outcome.top[0]} against {outcome.second[0]}"
        atlas = decision_atlas(lens, x[:1], outcome, signed, title=title, preprocessing=self.preparation)
        rows = tuple(
            (name, str(top), str(second), f"{margin:.2f}")
            for name, top, second, margin in zip(
                outcome.names, outcome.top, outcome.second, outcome.margin.tolist(), strict=True
            )
        )
        table = Table(("input", "predicted class", "runner-up", "margin"), rows)
        return [table, Picture.of(atlas, title), paragraph(EDITED)]

    def drawn_maps(self, family: sgfi.MapFamily) -> Sequence[Block]:
        subject = self.subject
        drawn = pictures.map_pictures(family, self.asked, subject.x, subject.names, self.preparation)
        blocks: list[Block] = []
        for name, picture in drawn.items():
            blocks += [*([paragraph(MAP_WORDS[name])] if MAP_WORDS[name] else []), picture]
        return blocks
