"""A browser at the page. Every read waits for the state that it is about, never for a time."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from sgfi.explorer.site import Params
from sgfi.explorer.worker import Ticket
from tests.explorer.serving import Running

CHROMIUM = os.environ.get("SGFI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
WAIT = 120_000
"""Milliseconds after which something that never came is a failure."""
VERDICT = '.verdict[data-verdict]:not([data-verdict=""])'
ANSWERED = "figcaption[data-stage]:not([data-stage=none]), .strip[data-stage]:not([data-stage=none])"
FACTS = ".trust .small dd"
"""There when the final answer's facts are, whether or not its picture is."""
SETTLED = """([query, stage]) => {
    const image = document.querySelector('img.answer'), caption = document.querySelector('figcaption[data-stage]');
    return document.querySelector('h2.query code')?.textContent === query && caption?.dataset.query === query
        && caption.dataset.stage === stage && image?.complete && image.naturalWidth > 0 }"""
LOADED = "s => { const i = document.querySelector(s); return i?.complete && i.naturalWidth > 0 }"
PIXELS = """image => { const c = document.createElement('canvas'); c.width = image.naturalWidth;
    c.height = image.naturalHeight; const d = c.getContext('2d'); d.drawImage(image, 0, 0);
    return Array.from(d.getImageData(0, 0, c.width, c.height).data) }"""


AXE = """async (rules) => (await axe.run(document, rules ? {runOnly: rules} : {})).violations.map(
    (entry) => [entry.id, entry.nodes.map((node) => node.html).slice(0, 3)])"""


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's Chromium; skips without it, except in CI."""
    missing = "needs Debian's chromium and the playwright package: apt install chromium, pip install playwright"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if sync_playwright is None or CHROMIUM is None:
        assert not os.environ.get("CI"), missing
        pytest.skip(missing)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visit:
    """One page of a fresh browser profile, and everything it asked for or complained about."""

    def __init__(self, browser: Any, running: Running, **options: Any) -> None:
        self.running = running
        self.context = browser.new_context(**{"viewport": {"width": 1360, "height": 860}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.urls: list[str] = []
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()
        """What the browser may complain about: part of the line that it writes for a refusal that is meant."""
        self.page.on("request", lambda request: self.urls.append(request.url))
        self.page.on("websocket", lambda socket: self.urls.append(socket.url))
        self.page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type in ("error", "warning") else 0
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, fragment: str = "") -> Visit:
        """Open the page and wait for the first answer, a preview or better."""
        self.page.goto(self.running.link + fragment)
        self.page.wait_for_selector(ANSWERED)
        return self

    def query(self) -> str:
        return self.page.locator("h2.query code").inner_text()

    def settle(self, query: str, stage: str = "final") -> str:
        """Wait until the picture of a query's answer is on the screen, and return its path."""
        self.page.wait_for_function(SETTLED, arg=[query, stage])
        return self.page.locator("img.answer").get_attribute("data-path")

    def pick(self, selector: str) -> str:
        """Click the first thing that asks a query, wait for its answer, and return the query."""
        query = self.page.locator(selector).first.get_attribute("data-query")
        self.page.locator(f'{selector}[data-query="{query}"]').first.click()
        self.settle(query)
        return query

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element reads so."""
        self.page.wait_for_function(
            "([selector, text]) => document.querySelector(selector)?.textContent === text", arg=[selector, text]
        )

    def pixels(self, selector: str = "img.answer") -> list[int]:
        self.page.wait_for_function(LOADED, arg=selector)
        return self.page.eval_on_selector(selector, PIXELS)

    def order(self, queries: list[str], within: str = ".tiles:last-of-type") -> None:
        """Wait until thumbnails stand in this order."""
        self.page.wait_for_function(
            "([within, wanted]) => JSON.stringify([...document.querySelectorAll(`${within} .pick`)].map("
            "(pick) => pick.dataset.query)) === JSON.stringify(wanted)",
            arg=[within, queries],
        )

    def audit(self) -> None:
        """No accessibility rule is broken on the screen at hand: all of them by day, colours by night; and at phone
        width nothing is wider than the screen. Needs a context with ``bypass_csp``: axe is no part of the page."""
        axe = pytest.importorskip("axe_core_python").__path__[0]
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.add_script_tag(path=f"{axe}/axe.min.js")
        for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
            self.page.emulate_media(color_scheme=scheme)
            broken = self.page.evaluate(AXE, rules)
            assert broken == [], f"{scheme}: {broken}"
        wide = self.page.viewport_size
        self.page.set_viewport_size({"width": 390, "height": 844})
        assert self.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        self.page.set_viewport_size(wide)

    @contextmanager
    def held(self, pattern: str) -> Iterator[None]:
        """The server's replies to addresses that match stay on their way until the block ends."""
        site, free = self.running.site, threading.Event()
        plain = site.request

        def request(path: str, params: Params | None = None, known: str | None = None) -> Ticket:
            if re.search(pattern, f"{path}?{urlencode(params or {})}"):
                assert free.wait(WAIT / 1000)
            return plain(path, params, known)

        site.request = request  # type: ignore[method-assign]
        try:
            yield
        finally:
            del site.request
            free.set()

    def close(self) -> None:
        own = (f"http://127.0.0.1:{self.running.port}/", f"ws://127.0.0.1:{self.running.port}/", "blob:", "data:")
        self.context.close()
        elsewhere = [url for url in self.urls if not url.startswith(own)]
        assert elsewhere == [], elsewhere
        complaints = [line for line in self.complaints if not any(part in line for part in self.expected)]
        assert complaints == [], complaints
