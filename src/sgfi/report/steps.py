"""The steps of a report that inputs of every kind share; how answers are drawn is left to the kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import sgfi
from sgfi.evaluation.quality import advice, quality
from sgfi.evaluation.tables import measure
from sgfi.evaluation.trust import Trust, trust
from sgfi.inputs.data import TensorBatches
from sgfi.inversion import Estimator, Query
from sgfi.report import checks
from sgfi.report.html import Block, Drawing, Text
from sgfi.report.page import Page, Step, paragraph
from sgfi.report.questions import Questions
from sgfi.report.subject import Maps, ReportSettings, Subject

NATURAL = "What features identify: the natural inverse"
TRUSTED = "Which picture to trust"
DECISION = "The decision"
CALIBRATED = "The paper's calibrated inverses"
WHICH_IS_WHICH = (
    "**The natural inverse** is what the input most probably is, given only what the feature registered: what "
    "the feature does not determine stays out of the picture. Whether it follows its target, the controls say."
)
OF_MAPS = (
    "**The paper's calibrated inverse** is the signal pulled back through the derivative at this input and repaired by "
    "fitted maps: where a random target gives nearly the same picture, it shows the input (the operating point) and "
    "not the feature."
)
CONTROL_NOTE = """
    Above, what the controls say about the first input; in the table, the mean absolute cosine with the answer over
    {inputs}. {controls}"""
CONTROLS = {
    "random": "**random**: random targets; near 1, the operating point speaks.",
    "swapped": "**swapped**: another input's target.",
    "neighbours": "**neighbours**: the answers of neighbouring queries; near 1, the picture is not the query's own.",
}
REMOVAL_NOTE = """
    Each picture, scaled to 15 % of the input's deviation from the mean, is taken out of the input: how much of its own
    feature goes, of the others', and how often the own picture is the one that removes it most. {inputs}: an
    illustration, not a benchmark."""
ALIGNMENT_NOTE = """
    Mean over {inputs}. **Pixel cosine** is alignment, not quality: it compares an inverse with the input in the
    network's coordinates; 1 is the same direction, 0 is unrelated. **Centred** takes each one's mean away first, so
    that brightness alone earns nothing (final inverse). A low value for a channel is no failure, a high value does
    not show that the network uses the feature."""
QUALITY_NOTE = """
    The share of a node's energy that its maps miss, worst first, as calibration recorded it: of samples the maps were
    fitted to and, where it was recorded, of others; **lost here** is what is missed beyond the worst of the node's
    children. `sgfi maps info MAPS --quality` lists every node."""


class Steps(ABC):
    """One run: what is asked, the answers so far, and the blocks they become."""

    def __init__(self, subject: Subject, settings: ReportSettings, page: Page) -> None:
        self.subject, self.settings, self.page = subject, settings, page
        self.record: dict[str, Any] = page.record

    @property
    def lens(self) -> sgfi.NaturalInverse:
        """The natural inverse as it can be afforded."""
        return self.subject.lens

    @property
    def checked(self) -> int:
        """How many of the inputs controls and removal are worked out for."""
        return len(self.subject.x)

    @cached_property
    @abstractmethod
    def asked(self) -> Questions:
        """Chosen when the first step needs it."""

    @abstractmethod
    def ladder(self) -> Sequence[Block]: ...
    @abstractmethod
    def channels(self) -> Sequence[Block]: ...
    @abstractmethod
    def cells(self) -> Sequence[Block]: ...
    @abstractmethod
    def drawn_trust(self, answers: Sequence[Trust], estimator: Estimator) -> Sequence[Block]: ...
    @abstractmethod
    def decision(self) -> Sequence[Block]: ...
    @abstractmethod
    def drawn_maps(self, family: sgfi.MapFamily) -> Sequence[Block]: ...

    def all(self) -> list[Step]:
        """In the order of their worth to a reader who has little time."""
        own: list[Step] = [("What was asked", "the queries with their controls", self.own_queries)]
        natural: list[Step] = [
            (NATURAL, "natural inverse: depths", self.ladder),
            (NATURAL, "natural inverse: channels", self.channels),
            (NATURAL, "natural inverse: cells" if self.subject.x.dim() == 4 else "natural inverse: tokens", self.cells),
            (TRUSTED, "natural inverse: controls", self.natural_trust),
            (TRUSTED, "natural inverse: removal", self.natural_removal),
            (DECISION, "decision", self.decision),
        ]
        maps: list[Step] = [
            (CALIBRATED, "maps: open or fit", self.opened_maps),
            (CALIBRATED, "maps: draw", lambda: self.drawn_maps(self.family)),
            (CALIBRATED, "maps: controls", self.map_trust),
            (CALIBRATED, "maps: removal", self.map_removal),
            (CALIBRATED, "maps: alignment", self.alignment),
            (CALIBRATED, "maps: quality", self.quality),
        ]
        return [*(own if self.settings.queries else []), *natural, *(maps if self.subject.maps else [])]

    # Natural inverse

    def own_queries(self) -> Sequence[Block]:
        return [paragraph(WHICH_IS_WHICH), *self._trusted("natural", self.lens, self.settings.queries)]

    def natural_trust(self) -> Sequence[Block]:
        if self.settings.queries:
            return [paragraph("The controls of the queries asked stand with them above.")]
        lead = [paragraph(WHICH_IS_WHICH + (f" {OF_MAPS}" if self.subject.maps else ""))]
        return [*lead, *self._trusted("natural", self.lens, self.asked.trust)]

    def natural_removal(self) -> Sequence[Block]:
        return self._removal("natural", self.lens)

    # Maps

    @cached_property
    def family(self) -> sgfi.MapFamily:
        assert self.subject.maps is not None
        return self.subject.maps.open()

    @property
    def maps(self) -> Maps:
        assert self.subject.maps is not None
        return self.subject.maps

    def opened_maps(self) -> Sequence[Block]:
        family = self.family
        self.record |= {
            "maps": {"folder": self.maps.folder, "MiB": round(family.bytes / 2**20, 1)},
            "fitted_nodes": len(family.plan.fitted),
            "target": family.target,
        }
        note = f"{len(family.plan.fitted)} fitted nodes. Arrows run from a node to the children it is repaired from."
        return [paragraph(OF_MAPS), Drawing(family.plan.draw(), note)]

    def map_trust(self) -> Sequence[Block]:
        queries = [query for query in self.asked.trust if answerable(self.family, query)]
        if not queries:
            return [Text("None of the queries asked is about a boundary of the maps' plan.")]
        return self._trusted("maps", self.family, queries)

    def map_removal(self) -> Sequence[Block]:
        return self._removal("maps", self.family)

    def alignment(self) -> Sequence[Block]:
        x = self.subject.x
        batches = TensorBatches(x, self.subject.names, len(x))
        results = measure(self.family, batches, [Query(target) for target in self.asked.targets])
        self.record["results"] = results
        return [checks.alignment_table(results), paragraph(ALIGNMENT_NOTE.format(inputs=counted(len(x))))]

    def quality(self) -> Sequence[Block]:
        manifest = self.maps.manifest()
        nodes = quality(manifest)
        lines = advice(nodes, manifest["calibration"]["samples"]) or ["Nothing stands out."]
        return [checks.quality_table(nodes), paragraph(QUALITY_NOTE), *map(paragraph, lines)]

    # Both

    def _trusted(self, name: str, estimator: Estimator, queries: Sequence[Query]) -> Sequence[Block]:
        """Another input's target is that of the input before; of a single one, the next input's."""
        x, count = self.subject.x, self.checked
        others = x[1:2] if count == 1 and len(x) > 1 else None
        answers: list[Trust] = []
        for query in queries:
            if answers and self.page.late:
                self.page.left_out[f"controls of {query}"] = self.page.why_late
                continue
            answers.append(trust(estimator, x[:count], query, others=others))
        records = checks.controls(name, answers)
        self.record.setdefault("controls", []).extend(records)
        explained = " ".join(CONTROLS[name] for name in checks.tried(records))
        note = paragraph(CONTROL_NOTE.format(inputs=counted(count), controls=explained))
        said = [paragraph(f"`{entry['query']}`: {entry['sentence']}") for entry in records]
        return [*self.drawn_trust(answers, estimator), *said, checks.control_table(records), note]

    def _removal(self, name: str, estimator: Estimator) -> Sequence[Block]:
        groups = [queries for queries in (self.asked.channels, self.asked.cells) if len(queries) > 1]
        prior = self.subject.lens.prior
        x = self.subject.x[: self.checked]
        records = [checks.removed(name, estimator, x, queries, prior) for queries in groups]
        self.record.setdefault("removal", []).extend(records)
        return [checks.removal_table(records), paragraph(REMOVAL_NOTE.format(inputs=counted(len(x)).capitalize()))]


def counted(inputs: int) -> str:
    """``3 inputs``, ``one input``."""
    return "one input" if inputs == 1 else f"{inputs} inputs"


def answerable(family: sgfi.MapFamily, query: Query) -> bool:
    """Whether maps can be asked this: one of their boundaries, no group."""
    return not query.also and (query.target is None or family.graph.nodes.canonical(query.target) in family.targets)
