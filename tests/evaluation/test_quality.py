"""The quality report: shares read from what calibration noted, and advice that follows from them."""

from __future__ import annotations

from pathlib import Path

import sgfi
from sgfi.evaluation.quality import NodeQuality, advice, as_text, quality
from sgfi.storage.folder import read_manifest
from tests.analytic import Chain, seeded


def manifest(folder: Path, **options: object) -> dict:
    model = seeded(Chain())
    batches = list(model.inputs(24).split(8))
    plan = sgfi.plan(sgfi.capture(model, batches[0]), target=model.target, boundaries=list(model.boundaries))
    sgfi.save(sgfi.calibrate(plan, batches, progress=False, **options), folder)  # type: ignore[arg-type]
    return read_manifest(folder)


def test_every_node_from_the_target_to_the_input(tmp_path: Path) -> None:
    saved = manifest(tmp_path / "maps", children="online", ridge="auto", stages="auto")
    nodes = quality(saved)
    assert nodes[-1].name == "input" and len(nodes) == len(saved["files"])
    for node in nodes:
        assert 0 <= node.seen <= node.unseen[-1] * 1.01
        assert list(node.unseen) == sorted(node.unseen, reverse=True)  # stages that do harm were not kept
    assert nodes[0].lost == nodes[0].unseen[-1]  # its child is the target, which misses nothing
    text = as_text(nodes, 24)
    assert all(node.name in text for node in nodes)


def test_the_default_calibration_is_told_as_far_as_it_is_known(tmp_path: Path) -> None:
    saved = manifest(tmp_path / "maps")
    nodes = quality(saved)
    fit = saved["calibration"]["diagnostics"]
    for node in nodes:
        assert node.seen == fit[node.name][1]["target_energy"] / fit[node.name][0]["target_energy"] and not node.unseen
        assert 0 < node.seen < 1
    text = as_text(nodes, 24)
    assert "after the first map" in text and "--preset aligned" in text


def test_advice_names_the_node_and_the_remedy() -> None:
    good = NodeQuality("good", 8, (0.2, 0.1), 0.09, 0.0)
    assert advice([good], 100) == []
    overfitted = NodeQuality("deep", 8, (0.5, 0.4), 0.1, 0.05)
    assert "More images" in advice([overfitted], 100)[0] and "deep" in advice([overfitted], 100)[0]
    lossy = NodeQuality("jump", 8, (0.5, 0.4), 0.39, 0.3)
    (line,) = advice([lossy], 100)
    assert line.startswith("A finer boundary between jump and its children (boundaries=['stage', NAME]): 0.300 of its")
    wide = NodeQuality("wide", 512, (0.2,), 0.19, 0.0)
    assert "512" in advice([wide], 100)[0]
    harmed = NodeQuality("harmed", 8, (0.2, 0.21), 0.19, 0.0)
    assert "harmed" in advice([harmed], 100)[0]


def test_what_the_input_loses_comes_first_and_weighs_more() -> None:
    deep = [NodeQuality(name, 8, (0.5,), 0.49, lost) for name, lost in (("a", 0.3), ("b", 0.2), ("c", 0.4))]
    last = NodeQuality("input", 3, (0.12,), 0.118, 0.09)
    lines = advice([*deep, last], 100)
    assert [line.split()[4] for line in lines] == ["input", "c", "a"]
    assert "['stage', 'stem']" in lines[0] and "['stage', NAME]" in lines[1]
    assert advice([NodeQuality("inside", 3, (0.12,), 0.118, 0.09)], 100) == []
