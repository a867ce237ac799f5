"""Numbers of result files in the text of a page: each is followed by a mark that says where it stands.

``0.169<!-- folder measure/variant/row/score -->``: the mean at an address of the result in ``folder``, which is
relative to the page (``folder+folder``: of runs of ``answers`` as one). The number keeps its count of decimals.
Readers of the page do not see the marks.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from sgfi.errors import DataError
from sgfi.experiments.answer_tables import read_joined
from sgfi.experiments.results import Result

QUOTED = re.compile(r"(-?\d+(?:\.(\d+))?)(<!-- (\S+) ([^<>]+(?:/[^<>]+){3}) -->)")


def quoted(page: str, folder: Path) -> str:
    """The page with every marked number as its result has it; ``folder`` is where the page stands."""

    @cache
    def result(name: str) -> Result:
        return read_joined(folder, name)

    def number(match: re.Match[str]) -> str:
        mean = result(match[4]).at(match[5])["mean"]
        if mean is None:
            raise DataError("an address with a number", f"{match[5]} of {match[4]}, undefined", "Quote another.")
        return f"{mean:.{len(match[2] or '')}f}{match[3]}"

    return QUOTED.sub(number, page)


def without_marks(page: str) -> str:
    """For pages that are generated from this one."""
    return QUOTED.sub(lambda match: match[1], page)
