"""The picture of a boundary DAG: valid SVG with a box for every boundary and an arrow for every edge."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

import sgfi
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
    found = plan(name)
    root = ElementTree.fromstring(found.draw())
    edges = [(node, child) for node in found.fitted for child in found.edges(node)]
    kept = [(node, child) for node, child in edges if child in found.children(node)]
    arrows = [path for path in root.iter(f"{SVG}path") if "marker-end" in path.attrib]
    labels = [text.text for text in root.iter(f"{SVG}text") if text.get("class") is None]
    boxes = list(root.iter(f"{SVG}rect"))
    assert labels == list(found.boundaries) and len(boxes) == len(labels)
    assert len(arrows) == len(edges)
    assert len([a for a in arrows if a.get("class") == "p"]) == len(edges) - len(kept)
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
