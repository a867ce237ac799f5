"""The documentation: links lead somewhere, every page is in the table of contents, code blocks run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
RUN = ("your-model.md", "natural.md")
"""Pages whose Python blocks run, in order and in one name space, without data or weights of the reader's."""


def blocks(page: Path) -> str:
    """The Python blocks of a page, one after the other."""
    return "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link, as GitHub and the site spell it."""
    titles = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^(?:.*<)?([\w/\-]+)>?$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {page.stem for page in PAGES} - set(listed) - {"index"} == set()
    assert len(listed) == len(set(listed)), "listed twice"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_are_python(page: Path) -> None:
    compile(blocks(page), page.name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_code_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    torch.manual_seed(0)
    exec(compile(blocks(DOCS / name), name, "exec"), space)
    assert torch.isfinite(space["answer"].value).all()
