"""Everything that the results of one question measured, as one table with the paper's numbers in it.

Where few set-ups were measured in many ways, every number has a row and every set-up a column, with the paper's numbers
in the last one. Otherwise scores are columns, and rows of the paper stand below the rows of ours that they are about.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from sgfi.evaluation.tables import markdown_table
from sgfi.experiments.paper_index import evaluated, setup
from sgfi.experiments.published import ANY, Entry, claimed, judged, network, reported, same_network, specs_of
from sgfi.experiments.results import Result, Score, cell, inputs_of, shown_rows, variants_of

UNNAMED, ALL = "as declared", "all variants"
FEW_SETUPS, MANY_SCORES = 5, 9
"""Columns that can be read side by side: of set-ups, and of scores."""
Quantity = tuple[str, str, str]
"""Measure, row, score."""
Item = TypeVar("Item")


@dataclass(frozen=True)
class Number:
    """One measured number."""

    setup: str
    variant: str
    quantity: Quantity
    score: Score
    verdict: str
    """How it stands to the paper's of the same network; nothing where they cannot be compared."""
    fewer: str
    """How many inputs it is about, where they are not those of the set-up."""


@dataclass(frozen=True)
class PaperRow:
    """What numbers of the paper are about: a network, and the variant, measure and row that they stand beside."""

    network: str
    variant: str
    measure: str
    row: str

    @classmethod
    def of(cls, entry: Entry) -> PaperRow:
        measure, *between, _ = entry["row"].split("/")
        about = network(entry) or ANY
        variant, row = (*between, "*", "*")[:2]
        return cls(about if about != ANY else "", variant, measure, row)

    @property
    def about(self) -> str:
        """The network, and the variant where it is one alone."""
        variant = "" if self.variant in ("*", UNNAMED) else self.variant
        if variant and _letters(variant).startswith(_letters(self.network)):
            return variant
        return ", ".join(filter(None, [self.network, variant]))

    @property
    def name(self) -> str:
        return f"*the paper: {self.about}*" if self.about else "*the paper*"


def measured_table(results: Collection[Result], wanted: Collection[Quantity] | None = None) -> str:
    """Markdown; ``wanted``: these alone. Nothing where nothing was measured."""
    section = Section(tuple(results), wanted)
    lines = {(number.setup, *number.quantity[:2]) for number in section.numbers}
    if not lines:
        return ""
    many = len(section.scores) > MANY_SCORES
    sparse = len(section.setups) > 1 and 2 * len(section.numbers) < len(lines) * len(section.scores)
    if len(section.setups) <= FEW_SETUPS:
        return section.by_quantity() if many or sparse or len(section.quantities) < len(lines) else section.by_row()
    return section.by_setup() if many or sparse else section.by_row()


def setup_named(result: Result, variant: str) -> str:
    """A variant by its label and its set-up, or by this alone where it begins like the label; of pairs all set-ups."""
    labels = variants_of(result, variant)
    named = ", ".join(_once(setup(result, label) for label in labels))
    if variant == UNNAMED or (variant in labels and _letters(named).startswith(_letters(variant))):
        return named
    return f"{variant}: {named}"


@dataclass(frozen=True)
class Section:
    """The results of one question."""

    results: tuple[Result, ...]
    wanted: Collection[Quantity] | None = None

    @cached_property
    def numbers(self) -> list[Number]:
        """Of equal variants in different results one after the other, and of all variants at the end."""
        alone = len({setup(result, label) for result in self.results for label in result.variants}) == 1
        numbers = [number for result in self.results for number in _numbers(result, self.wanted, alone)]
        variants = _once(number.variant for number in numbers)
        return sorted(numbers, key=lambda number: (number.variant == ALL, variants.index(number.variant)))

    @cached_property
    def setups(self) -> list[str]:
        return _once(number.setup for number in self.numbers)

    @cached_property
    def scores(self) -> list[str]:
        return _once(number.quantity[2] for number in self.numbers)

    @cached_property
    def quantities(self) -> list[Quantity]:
        """Row by row, in the order of their measures."""
        lines = _once(number.quantity[:2] for number in self.numbers)
        return sorted(_once(number.quantity for number in self.numbers), key=lambda each: lines.index(each[:2]))

    @cached_property
    def paper(self) -> list[tuple[str, Quantity, Entry, bool]]:
        """Variants and quantities of ours with what the paper says there, and whether of the same network."""
        entries = [
            (variant, (measure, row, score), entry, same_network(entry, specs_of(result, variant)))
            for result in self.results
            for address, entry in reported(result)
            for measure, variant, row, score in [address.split("/")]
        ]
        return [each for each in entries if each[1] in self.quantities]

    @cached_property
    def principal(self) -> set[Quantity]:
        """The first score of every row, and what the paper has or a claim is about: these with intervals."""
        first = {quantity[:2]: quantity for quantity in reversed(self.quantities)}
        return {*first.values(), *(quantity for _, quantity, _, _ in self.paper), *claimed_quantities(self.results)}

    def by_row(self) -> str:
        """Scores as columns."""
        ours: dict[tuple[str, str, str], dict[str, str]] = {}
        for number in self.numbers:
            line = (number.variant, number.setup, self._row(*number.quantity[:2]) + number.fewer)
            ours.setdefault(line, {})[number.quantity[2]] = self._text(number)
        paper: dict[PaperRow, dict[str, str]] = {}
        for _, quantity, entry, _ in self.paper:
            paper.setdefault(PaperRow.of(entry), {})[quantity[2]] = said(entry)
        body = []
        for variant in _once(variant for variant, _, _ in ours):
            rows = [(setup, row, cells) for (own, setup, row), cells in ours.items() if own == variant]
            rows += [(each.name, self._row(each.measure, each.row), paper[each]) for each in self._beside(variant)]
            body += [[*names, *(cells.get(score, "") for score in self.scores)] for *names, cells in rows]
        return markdown_table(["set-up", "row", *map(plain, self.scores)], body)

    def by_setup(self) -> str:
        """Quantities as columns: what was asked for, or the principal ones."""
        columns = [quantity for quantity in self.quantities if self.wanted is not None or quantity in self.principal]
        common = {quantity: self._same_inputs(quantity) for quantity in columns}
        ours: dict[tuple[str, str], dict[Quantity, str]] = {}
        for number in self.numbers:
            text = self._text(number, span=len(columns) <= MANY_SCORES) + number.fewer * (
                not common.get(number.quantity)
            )
            ours.setdefault((number.variant, number.setup), {})[number.quantity] = text
        paper: dict[str, dict[Quantity, str]] = {}
        for _, quantity, entry, _ in self.paper:
            paper.setdefault(PaperRow.of(entry).name, {})[quantity] = said(entry)
        body = []
        for variant in _once(variant for variant, _ in ours):
            rows = [(setup, cells) for (own, setup), cells in ours.items() if own == variant]
            rows += [(name, paper[name]) for name in _once(row.name for row in self._beside(variant))]
            body += [[name, *(cells.get(quantity, "") for quantity in columns)] for name, cells in rows]
        return markdown_table(["set-up", *(self._named(quantity) + common[quantity] for quantity in columns)], body)

    def by_quantity(self) -> str:
        """Set-ups as columns, and what the paper says as the last."""
        numbers = {(number.setup, number.quantity): number for number in self.numbers}
        paper: dict[Quantity, list[str]] = {}
        for _, quantity, entry, _ in self.paper:
            about = PaperRow.of(entry).about
            paper.setdefault(quantity, []).append(f"{about}: {said(entry)}" if about else said(entry))
        body = []
        for quantity in self.quantities:
            common, row = self._same_inputs(quantity), [numbers.get((name, quantity)) for name in self.setups]
            cells = [self._text(number) + number.fewer * (not common) if number else "" for number in row]
            cells += ["; ".join(_once(paper.get(quantity, [])))] * bool(paper)
            body.append([self._named(quantity) + common, *cells])
        return markdown_table(["", *self.setups, *["the paper"] * bool(paper)], body)

    def _text(self, number: Number, *, span: bool = True) -> str:
        shown = cell(number.score, span=span and number.quantity in self.principal)
        return shown + f" ({number.verdict})" * bool(number.verdict)

    def _same_inputs(self, quantity: Quantity) -> str:
        """How many inputs a quantity is about, where that is not said by the set-ups and the same in all of them."""
        counts = {number.fewer for number in self.numbers if number.quantity == quantity}
        return counts.pop() if len(counts) == 1 else ""

    def _named(self, quantity: Quantity) -> str:
        measure, row, score = quantity
        return f"{self._row(measure, row)}: {plain(score)}"

    def _row(self, measure: str, row: str) -> str:
        """With its measure where there are several."""
        several = len({quantity[0] for quantity in self.quantities}) > 1
        return f"{plain(measure)}, {row}" if several and row != measure else row

    def _beside(self, variant: str) -> list[PaperRow]:
        """Rows of the paper whose last variant this is: of the same network, or where there is none of any."""
        order = _once(number.variant for number in self.numbers)
        about: dict[PaperRow, dict[str, bool]] = {}
        for name, _, entry, same in self.paper:
            variants = about.setdefault(PaperRow.of(entry), {})
            variants[name] = same or variants.get(name, False)
        chosen = {row: [name for name, same in v.items() if same] or list(v) for row, v in about.items()}
        rows = [row for row, variants in chosen.items() if max(variants, key=order.index) == variant]
        names = _once(row.name for row in rows)
        return sorted(rows, key=lambda row: names.index(row.name))


def claimed_quantities(results: Iterable[Result]) -> set[Quantity]:
    """What claims compare."""
    sides = [claim[side] for result in results for claim in claimed(result) for side in ("left", "right")]
    parts = [side.split("/") for side in sides if isinstance(side, str)]
    return {(measure, row, score) for measure, _, row, score in parts}


def plain(name: str) -> str:
    return name.replace("_", " ")


def said(entry: Entry) -> str:
    """Without the network, which stands elsewhere."""
    return str(entry["says"]).removesuffix(f" ({network(entry)})")


def _numbers(result: Result, wanted: Collection[Quantity] | None, alone: bool) -> Iterator[Number]:
    """``alone``: there is one set-up, so that names of variants say enough."""
    verdicts = judged(result)
    for measure in result.tables:
        for variant, row, scores in shown_rows(result, measure):
            name = variant if alone and variant != UNNAMED else setup_named(result, variant)
            inputs = inputs_of(result, measure, variant)
            most = max(evaluated(result, label) for label in variants_of(result, variant))
            fewer = "" if inputs in (None, most) else f" ({inputs} inputs)"
            for score, value in scores.items():
                if wanted is None or (measure, row, score) in wanted:
                    verdict = verdicts.get("/".join((measure, variant, row, score)), "")
                    yield Number(name, variant, (measure, row, score), value, verdict, fewer)


def _once(items: Iterable[Item]) -> list[Item]:
    return list(dict.fromkeys(items))


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
