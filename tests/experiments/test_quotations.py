"""Numbers in the text of pages are those of the result files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sgfi.errors import DataError
from sgfi.experiments.quotations import QUOTED, quoted, without_marks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    page
    for page in (*DOCS.glob("*.md"), DOCS / "results" / "experiments" / "preface.md")
    if QUOTED.search(page.read_text(encoding="utf-8"))
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    table = {"swap": {"ours, more": {"H_A J_B": {"to_A": {"mean": 0.12345}, "to_B": {"mean": None}}}}}
    result = {"experiment": {}, "provenance": {}, "variants": {}, "tables": table}
    (tmp_path / "a" / "result.json").write_text(json.dumps(result))
    return tmp_path


def test_a_marked_number_is_read_and_keeps_its_decimals(folder: Path) -> None:
    mark = "<!-- a swap/ours, more/H_A J_B/to_A -->"
    page = f"It is 0.9{mark}, or 9.999{mark}; 0.7 is nobody's."
    assert quoted(page, folder) == f"It is 0.1{mark}, or 0.123{mark}; 0.7 is nobody's."
    assert without_marks(page) == "It is 0.9, or 9.999; 0.7 is nobody's."
    with pytest.raises(DataError, match="undefined"):
        quoted("1<!-- a swap/ours, more/H_A J_B/to_B -->", folder)
    with pytest.raises(DataError):
        quoted("1<!-- a swap/ours, more/H_A J_B/to_C -->", folder)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_of_the_docs_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert quoted(text, page.parent) == text


def test_the_caveats_quote_their_numbers() -> None:
    assert "preface.md" in [page.name for page in PAGES]
