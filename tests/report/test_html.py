"""The report: one self-contained file that is well formed, safe, and dark when the reader is."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

from sgfi.report import Code, Drawing, Picture, Report, Section, Table, Text, render
from sgfi.report.checks import control_table

VOID = {"meta", "img", "source", "br"}


class Checker(HTMLParser):
    """Collects links and complains about tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.ids: list[str] = []
        self.anchors: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name in ("src", "srcset"):
                self.sources.append(str(value))
            elif name == "id":
                self.ids.append(str(value))
            elif name == "href":
                self.anchors.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def page() -> str:
    picture = Picture(b"light", b"dark", 'a "quoted" <picture>', "caption", 700)
    return render(
        Report(
            title="A <b>title</b>",
            lead="with `code` and **bold** & more",
            facts=(("0.79", "cosine"),),
            sections=(
                Section("First things", (Text("1 < 2"), picture, Drawing("<svg></svg>", "a & b"), Code("a && b"))),
                Section("Numbers", (Table(("name", "value"), (("x", "0.1"), ("y", "-12.5")), "a note"),)),
            ),
            foot="done",
        )
    )


def test_well_formed_with_working_anchors() -> None:
    checker = Checker()
    checker.feed(page())
    assert checker.open == []
    assert [anchor.removeprefix("#") for anchor in checker.anchors] == checker.ids == ["first-things", "numbers"]


def test_nothing_comes_from_elsewhere_and_nothing_runs() -> None:
    text = page()
    checker = Checker()
    checker.feed(text)
    assert len(checker.sources) == 2 and all(s.startswith("data:image/png;base64,") for s in checker.sources)
    assert not re.search(r"https?://|<script|<link|@import|url\(", text)


def test_dark_picture_for_dark_readers() -> None:
    text = page()
    dark = base64.b64encode(b"dark").decode()
    assert f'media="(prefers-color-scheme: dark)" srcset="data:image/png;base64,{dark}"' in text
    assert "@media (prefers-color-scheme:dark)" in text and 'name="viewport"' in text


def test_text_is_escaped_and_marked_up() -> None:
    text = page()
    assert "<h1>A &lt;b&gt;title&lt;/b&gt;</h1>" in text
    assert "<code>code</code> and <b>bold</b> &amp; more" in text
    assert "1 &lt; 2" in text and "a &amp;&amp; b" in text
    assert 'alt="a &quot;quoted&quot; &lt;picture&gt;"' in text


def test_columns_of_numbers_are_aligned() -> None:
    assert '<td class="number">-12.5</td>' in page() and "<td>x</td>" in page()


def test_a_wide_table_says_on_a_telephone_that_it_scrolls() -> None:
    narrow, wide = (render(Report("a", "b", (Section("c", (Table("abcd"[:n], ("1" * n,)),)),))) for n in (3, 4))
    assert "Scroll sideways" in wide and "Scroll sideways" not in narrow


def test_a_control_that_was_never_tried_has_no_column() -> None:
    record = {"estimator": "natural", "query": "a:1", "random": {"mean_absolute": 0.5}, "swapped": None}
    table = control_table([{**record, "neighbours": {"mean_absolute": 0.25}}])
    assert table.head[2:] == ("random", "neighbours") and table.rows[0][2:] == ("0.50", "0.25")
