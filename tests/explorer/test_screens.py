"""Every screen of the page on a tiny model: what a person does there, and whether everybody can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.evaluation.quality import quality
from sgfi.explorer import Lens, Site, Store, Workspace, map_lens
from sgfi.storage import read_manifest
from tests.explorer.browsing import VERDICT, Visit
from tests.explorer.serving import Running, Serving, picture

pytestmark = pytest.mark.slow
DROPPED = """bytes => { const data = new DataTransfer();
    data.items.add(new File([new Uint8Array(bytes)], 'dropped.png', {type: 'image/png'})); return data }"""


@pytest.fixture(scope="module")
def bench(lens: Lens, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The natural inverse of a tiny model, maps of it beside, and three pictures."""
    folder = tmp_path_factory.mktemp("screens")
    batches = [torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    family = sgfi.calibrate(sgfi.plan(lens.estimator.graph, "two", ["one"]), batches, progress=False)
    sgfi.save(family, folder / "maps")
    maps = map_lens(family, lens.loaded, str(folder / "maps"), read_manifest(folder / "maps"))
    workspace = Workspace(Store(folder / "store"), [lens, maps])
    for seed in range(3):
        workspace.add(picture(seed), f"picture {seed}", "picture")
    site = Site(workspace)
    with Serving(site) as running:
        yield running
    site.close()


def test_every_screen_is_for_everybody(browser, bench: Running) -> None:
    _, maps = bench.site.workspace.lenses.values()
    visit = Visit(browser, bench, bypass_csp=True)
    page = visit.go("#q=two:3").page
    visit.settle("two:3")
    page.wait_for_selector(VERDICT)
    page.wait_for_selector(".tile .pick[data-stage=final]")
    visit.audit()  # ladder, panels, trust and grid
    for key, selector in (("?", ".help"), ("e", ".export"), ("o", ".open")):
        page.keyboard.press(key)
        page.wait_for_selector(selector)
        visit.audit()
        page.keyboard.press(key)
        page.wait_for_selector(selector, state="detached")
    page.keyboard.press("c")
    page.locator(".compare select").first.select_option(maps.id)
    page.locator(".compare select").nth(1).select_option("final")
    page.get_by_text("both are brought to length one").wait_for()
    visit.pixels("img.minus")
    visit.audit()
    page.keyboard.press("d")
    page.wait_for_selector(".decide table")
    visit.audit()
    page.keyboard.press("o")
    page.locator(".models button").nth(1).click()  # the maps
    page.keyboard.press("o")
    page.get_by_text("calibrated maps").wait_for()
    nodes = {node.name: node for node in quality(maps.manifest)}
    page.wait_for_selector(f'.maps [data-missed="{nodes["input"].seen}"]')
    page.locator(".maps summary").click()
    assert page.locator(".maps tbody tr").count() == len(nodes)
    visit.audit()
    visit.close()


def test_units_are_sorted_pinned_and_restored(browser, bench: Running) -> None:
    lens, sha = next(iter(bench.site.workspace.lenses)), next(iter(bench.site.workspace.inputs))
    visit = Visit(browser, bench)
    page = visit.go("#q=two:3").page
    channels = [f"two:{channel}" for channel in range(8)]
    scores = bench.json(f"/scores/{lens}/{sha}/two.json")["channels"]
    ordered = {sort: sorted(channels, key=lambda q, s=scores[sort]: -s[channels.index(q)]) for sort in scores}
    for sort in ("activation", "contribution"):
        page.locator(".toolbar select").select_option(sort)
        visit.order(ordered[sort])
    page.locator(".toolbar select").select_option("selectivity")
    visit.shows(".count", "8 of 8 shown, 8 in all")  # known when all of them are
    alike = bench.json(f"/likeness/{lens}/{sha}/{'%7C'.join(channels)}.json")["selectivity"]
    visit.order(sorted(ordered["activation"], key=lambda query: -alike[query]))
    page.locator(".toolbar select").select_option("index")
    visit.order(channels)
    page.get_by_role("button", name="Pin two:5", exact=True).click()
    page.wait_for_selector('ul[aria-label="Pinned"] [data-query="two:5"][data-stage=final]')
    page.get_by_role("button", name="cells", exact=True).click()
    visit.order([f"two@{row},{column}" for row in range(4) for column in range(4)])
    page.reload()
    page.wait_for_selector('ul[aria-label="Pinned"] [data-query="two:5"][data-stage=final]')
    page.get_by_role("button", name="Pin two:5", exact=True).click()
    page.wait_for_selector('ul[aria-label="Pinned"]', state="detached")
    assert "two:5" not in page.url
    visit.close()


def test_pictures_are_dropped_and_chosen_and_anything_else_is_refused(browser, bench: Running, tmp_path: Path) -> None:
    visit = Visit(browser, bench)
    visit.expected = ("400",)  # the browser's word for the refusal
    page = visit.go("#q=two:3").page
    page.keyboard.press("o")
    data = page.evaluate_handle(DROPPED, list(picture(11, 64)))
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})
    visit.shows(".where span", "dropped.png")
    visit.settle("two:3")
    (tmp_path / "mine.png").write_bytes(picture(12, 64))
    page.keyboard.press("o")
    page.set_input_files("input[type=file]", str(tmp_path / "mine.png"))
    visit.shows(".where span", "mine.png")
    path = visit.settle("two:3")
    assert f"/{list(bench.site.workspace.inputs)[-1]}/" in path
    page.keyboard.press("o")
    page.set_input_files("input[type=file]", str(Path(__file__)))
    assert "picture" in page.locator(".trouble").inner_text()
    page.goto(bench.link + "#m=0123456789abcdef&x=00&q=a:1")
    page.reload()
    page.get_by_text("not open here").wait_for()
    page.get_by_text("not on this computer").wait_for()
    visit.close()
