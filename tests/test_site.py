"""The built documentation site: nothing from outside, every inner link leads somewhere, pages open from disk.

``make docs`` builds the site. In CI that comes after the tests, and this file runs once more with SGFI_SITE set;
without it all but the checker's own test are skipped.
"""

from __future__ import annotations

import os
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

SITE = Path(os.environ.get("SGFI_SITE", "docs/_build/html")).resolve()
needs_site = pytest.mark.skipif("SGFI_SITE" not in os.environ, reason="set SGFI_SITE to a built site (make docs)")
LOADED = {
    "script": ("src",),
    "link": ("href",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
}
OPENED = ("index.html", "_gallery/index.html", "natural.html", "method.html")


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attributes if value is not None}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif not (tag == "link" and given.get("rel") == "canonical"):
            self.loaded += [given[name] for name in LOADED.get(tag, ()) if name in given]
        self.ids |= {given[name] for name in ("id", "name") if name in given}


def outside(address: str) -> bool:
    return address.startswith(("http:", "https:", "//"))


def faults(folder: Path) -> list[str]:
    """Everything that a page of the folder loads from elsewhere, and every inner link that leads nowhere."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in folder.rglob("*.html")}
    wrong = []
    for file, page in pages.items():
        name = file.relative_to(folder)
        wrong += [f"{name} loads {address}" for address in page.loaded if outside(address)]
        for address in [*page.loaded, *page.links]:
            path, anchor = urldefrag(address)
            if outside(address) or path.startswith(("data:", "mailto:", "javascript:")):
                continue
            target = (file.parent / unquote(path.partition("?")[0])).resolve() if path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (anchor and target in pages and unquote(anchor) not in pages[target].ids):
                wrong.append(f"{name} -> {address}")
    for file in folder.rglob("*.css"):
        text = file.read_text(encoding="utf-8", errors="replace")
        wrong += [
            f"{file.name}: {mark}" for mark in ("url(http", "url(//", '@import "http', "@import url(") if mark in text
        ]
    return wrong


def test_faults_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html">b</a><a href="#here">h</a><a href="https://x.org">o</a><script src="//x.org/y.js"></script>'
    )
    (tmp_path / "s.css").write_text("a { background: url(https://x.org/z.png) }")
    assert faults(tmp_path) == ["a.html loads //x.org/y.js", "a.html -> b.html", "a.html -> #here", "s.css: url(http"]
    (tmp_path / "b.html").write_text('<p id="here"><a href="a.html">a</a></p>')
    (tmp_path / "a.html").write_text('<a href="b.html#here">b</a>')
    (tmp_path / "s.css").write_text("a { background: url(data:image/png;base64,) }")
    assert faults(tmp_path) == []


@needs_site
def test_the_site_is_whole_and_loads_nothing_from_elsewhere() -> None:
    assert len(list(SITE.rglob("*.html"))) > 30
    assert faults(SITE) == []


@needs_site
def test_pages_open_from_disk_without_a_request_and_without_an_error() -> None:
    sync = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium")
    with sync.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in OPENED:
            for width, scheme in ((1280, "light"), (390, "dark")):
                page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
                requests: list[str] = []
                errors: list[str] = []
                page.on("request", lambda request, kept=requests: kept.append(request.url))
                page.on("pageerror", lambda error, kept=errors: kept.append(str(error)))
                page.goto((SITE / name).as_uri())
                page.wait_for_load_state("networkidle")
                assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
                assert errors == []
                assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} at {width}"
                if name == "method.html":
                    page.wait_for_selector("mjx-container svg")  # formulas are drawn by the vendored script
                page.close()
        browser.close()
