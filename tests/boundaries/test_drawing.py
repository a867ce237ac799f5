"""The picture of a boundary DAG: valid SVG with a box for every boundary and an arrow for every edge."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

import sgfi
from sgfi.boundaries import BoundaryDag
from sgfi.boundaries.drawing import svg
from sgfi.errors import PlanError
from tests.analytic import tiny

SVG = "{http://www.w3.org/2000/svg}"


@cache
def plan(name: str) -> sgfi.Plan:
    model = tiny(name)
    return sgfi.plan(
        sgfi.capture(model, model.inputs(2)),
        target=model.target,
        boundaries=list(model.boundaries),
        axes=model.channel_axis,
    )


@pytest.mark.parametrize("name", ["chain", "nested", "fork", "tokens"])
def test_boxes_and_arrows(name: str) -> None:
    planned = plan(name)
    root = ElementTree.fromstring(planned.draw())
    edges = [(node, child) for node in planned.fitted for child in planned.edges(node)]
    kept = [(node, child) for node, child in edges if child in planned.children(node)]
    arrows = [path for path in root.iter(f"{SVG}path") if "marker-end" in path.attrib]
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") is None]
    boxes = list(root.iter(f"{SVG}rect"))
    assert labels == list(planned.boundaries) and len(boxes) == len(labels)
    assert len(arrows) == len(edges)
    assert len([a for a in arrows if a.get("class") == "pruned"]) == len(edges) - len(kept)
    corners = {(box.get("x"), box.get("y")) for box in boxes}
    assert len(corners) == len(boxes), "no box hides another"
    width, height = float(root.get("width")), float(root.get("height"))
    for box in boxes:
        assert float(box.get("x")) >= 0 and float(box.get("x")) + float(box.get("width")) <= width
        assert float(box.get("y")) >= 0 and float(box.get("y")) + float(box.get("height")) <= height


def test_a_path_gets_the_same_picture(tmp_path: Path) -> None:
    file = tmp_path / "dag.svg"
    text = plan("nested").draw(file)
    assert file.read_text() == text and text.startswith("<svg")


@pytest.mark.parametrize("file", ["dag.png", "dag.pdf", "dag"])
def test_only_svg_is_written(tmp_path: Path, file: str) -> None:
    with pytest.raises(PlanError, match=r"expected a path that ends in \.svg; got .*dag.*\. Draw into an \.svg file"):
        plan("nested").draw(tmp_path / file)
    assert not list(tmp_path.iterdir())


def chain(names: list[str], shortcut: dict[str, str] | None = None) -> ElementTree.Element:
    children = {name: (following,) for name, following in itertools.pairwise(names)}
    edges = {
        name: (*after, *([shortcut[name]] if name in (shortcut or {}) else [])) for name, after in children.items()
    }
    return ElementTree.fromstring(
        svg(BoundaryDag(names[-1], tuple(names[:-1]), edges, children), dict.fromkeys(names, "8x4x4"))
    )


def test_a_long_chain_is_wrapped_to_the_width_of_a_page_and_stays_one_path() -> None:
    root = chain(["input", *(f"encoder.layers.encoder_layer_{i}.mlp.activation" for i in range(40))])
    assert float(root.get("width")) < 560 < float(root.get("height"))
    paths = [path.get("d") for path in root.iter(f"{SVG}path") if "marker-end" in path.attrib]
    assert len(paths) == 40 and all(d.count("H") + d.count("V") == 1 for d in paths), "neighbours are joined straight"
    lines = [text.text for text in root.iter(f"{SVG}text") if text.get("class") is None]
    assert max(map(len, lines)) <= 23
    assert {title.text for title in root.iter(f"{SVG}title")} >= {"encoder.layers.encoder_layer_7.mlp.activation"}


def test_an_edge_around_boxes_keeps_clear_of_them() -> None:
    names = [f"n{i}" for i in range(11)]
    root = chain(names, {"n0": "n2", "n1": "n8", "n5": "n10", "n9": "n10"} | {"n3": "n5"})
    boxes = [tuple(float(box.get(key)) for key in ("x", "y", "width", "height")) for box in root.iter(f"{SVG}rect")]
    pruned = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("class") == "pruned"]
    assert pruned
    for corners in map(points, pruned):
        for (x0, y0), (x1, y1) in itertools.pairwise(corners):
            for x, y, width, height in boxes:
                inside_x = max(x0, x1) > x and min(x0, x1) < x + width
                inside_y = max(y0, y1) > y and min(y0, y1) < y + height
                assert not (inside_x and inside_y), "an edge runs through a box"
        assert all(0 < x < float(root.get("width")) and 0 < y < float(root.get("height")) for x, y in corners)


def points(way: str) -> list[tuple[float, float]]:
    """The corners of a path of M, H and V."""
    corners: list[tuple[float, float]] = []
    for command, numbers in re.findall(r"([MHV])([-\d. ]+)", way):
        values = [float(number) for number in numbers.split()]
        x, y = corners[-1] if corners else (0.0, 0.0)
        corners.append(
            (values[0], values[1]) if command == "M" else (values[0], y) if command == "H" else (x, values[0])
        )
    return corners


def test_the_style_reaches_no_further_than_the_picture() -> None:
    style = ElementTree.fromstring(plan("chain").draw()).find(f"{SVG}style").text
    selectors = re.sub(r"\{[^{}]*\}|@media[^{]*\{|\}", "|", style).replace(",", "|").split("|")
    assert all(selector.strip().startswith(".dag ") for selector in selectors if selector.strip())
