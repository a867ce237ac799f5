"""A report that grows: what is finished stands on the page at once, and what could not be done is named there."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sgfi.errors import SgfiError
from sgfi.report.checks import Record
from sgfi.report.html import Block, Picture, Report, Section, Table, Text, render
from sgfi.storage import write_text

Step = tuple[str, str, Callable[[], Sequence[Block]]]
"""Section, name of the step, and what it puts there."""
UNFINISHED = "**This page is still being written: reload it for more.**"


@dataclass
class Page:
    """The file, its sections so far, and the numbers behind them."""

    out: Path
    title: str
    lead: str
    record: Record
    seconds: float | None = None
    progress: bool = True
    foot: str = ""
    sections: dict[str, list[Block]] = field(default_factory=dict)
    taken: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=lambda: time.monotonic())

    def run(self, steps: Sequence[Step]) -> None:
        """One after another; a step that this model or these inputs do not allow is left out, with the reason."""
        for section, name, make in steps:
            if self.late:
                self.left_out[name] = self.why_late
                continue
            self._say(f"{name} ...")
            begun = time.monotonic()
            try:
                blocks = make()
            except SgfiError as error:
                self.left_out[name] = f"expected {error.expected}; got {error.got}"
                continue
            self.taken[name] = round(time.monotonic() - begun, 2)
            self._add(section, blocks)

    @property
    def late(self) -> bool:
        return self.seconds is not None and time.monotonic() - self.started > self.seconds

    @property
    def why_late(self) -> str:
        return f"the {self.seconds:g} s of this report were used up"

    def finish(self, facts: Sequence[tuple[str, str]], last: Section) -> None:
        """The whole page, and the numbers beside it as JSON."""
        self.record |= {"seconds": self.taken, "left_out": self.left_out}
        write_text(self.out.with_suffix(".json"), json.dumps(self.record, indent=1) + "\n")
        self.sections[last.title] = list(last.blocks)
        self._write(self.lead, tuple(facts))

    def steps_table(self) -> list[Block]:
        """Seconds by step, and what was left out."""
        taken = Table(("step", "time"), tuple((name, f"{seconds:.1f} s") for name, seconds in self.taken.items()))
        missing = Table(("left out", "because"), tuple(self.left_out.items()))
        return [taken, *([missing] if self.left_out else [])]

    def _add(self, section: str, blocks: Sequence[Block]) -> None:
        first = not any(isinstance(block, Picture) for own in self.sections.values() for block in own)
        self.sections.setdefault(section, []).extend(blocks)
        self._write(f"{self.lead} {UNFINISHED}", ())
        if first and any(isinstance(block, Picture) for block in blocks):
            self._say(f"first picture: {self.out.resolve().as_uri()}")

    def _write(self, lead: str, facts: tuple[tuple[str, str], ...]) -> None:
        sections = tuple(Section(title, tuple(blocks)) for title, blocks in self.sections.items())
        write_text(self.out, render(Report(self.title, lead, sections, facts, self.foot)))

    def _say(self, text: str) -> None:
        if self.progress:
            print(text, file=sys.stderr, flush=True)


def paragraph(words: str) -> Text:
    """Text whose line breaks mean nothing."""
    return Text(" ".join(words.split()))
