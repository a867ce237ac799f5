"""``sgfi report``: pictures by a model and by maps, texts, arrays, its time limit, and requests it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from sgfi.report.questions import coordinate_target
from sgfi.report.steps import CALIBRATED, DECISION, NATURAL, TRUSTED
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures

CLASSIFIER = """
import torch

INPUT_SHAPE = (3, 8, 8)


def build():
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(6, 6, 3))
    return torch.nn.Sequential(*body, torch.nn.Flatten(), torch.nn.Linear(216, 5))
"""


def headings(page: str) -> list[str]:
    return [title.replace("&#x27;", "'") for title in re.findall(r"<h2>(.*?)</h2>", page)]


def test_a_classifier_has_its_decision_on_the_page(sgfi_command, root: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(CLASSIFIER)
    out = tmp_path / "r.html"
    outcome = sgfi_command(
        "report", f"{tmp_path / 'net.py'}:build", root / "photos", "--query", "0:2", "--query", "0@1,2", "--out", out
    )
    assert outcome.code == 0, outcome.all
    page, record = out.read_text(), json.loads(out.with_suffix(".json").read_text())
    assert headings(page)[:4] == ["What was asked", NATURAL, TRUSTED, DECISION] and record["left_out"] == {}
    assert [control["query"] for control in record["controls"]] == ["0:2", "0@1,2"]
    images = record["decision"]["study"]["images"]
    assert len(images) == 3 and all(image["top"] != image["second"] for image in images)
    assert outcome.out.strip() == str(out) and out.resolve().as_uri() in outcome.err
    assert not re.search(r'(src|href|srcset)="(?!data:|#)', page) and "--query &quot;0:2&quot;" in page


def test_maps_show_their_quality_and_refuse_other_sizes(
    sgfi_command, on_maps, maps: Path, root: Path, tmp_path
) -> None:
    out = tmp_path / "r.html"
    outcome = on_maps("report", maps, root / "one.png", "--query", "two:1", "--out", out, "--quiet")
    assert outcome.code == 0 and outcome.err == "", outcome.all
    page, record = out.read_text(), json.loads(out.with_suffix(".json").read_text())
    assert CALIBRATED in headings(page) and f"sgfi maps info {maps}" in page
    assert {entry["estimator"] for entry in record["removal"]} == {"natural", "maps"}
    assert [entry["estimator"] for entry in record["controls"]] == ["natural"]  # "two" is no boundary of the plan
    assert "boundary of the maps" in page and "missed, seen" in page
    assert on_maps("report", maps, root / "one.png", "--out", tmp_path / "s.html", "--size", "16").code == 3


def test_a_text_is_shown_as_tokens_with_the_next_word(sgfi_command, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    texts = " ".join(WORDS[:6]), " ".join(WORDS[:5])
    outcome = sgfi_command("report", f"hf:{folder}", *texts, "--out", out)
    assert outcome.code == 0, outcome.all
    record = json.loads(out.with_suffix(".json").read_text())
    assert record["left_out"] == {} and record["inputs"][0].startswith("…")
    assert len(record["decision"]["drop"]) == 5 and set(record["decision"]["outcomes"]) <= {*WORDS, "<unk>"}
    page = out.read_text()
    assert headings(page)[:3] == [NATURAL, TRUSTED, DECISION] and "Token strips" in page


def test_no_step_begins_after_the_time_is_up(sgfi_command, model: str, root: Path, tmp_path: Path, monkeypatch) -> None:
    from sgfi.report import page

    class Clock:
        """Every look at it is a second later."""

        now = 0.0

        def monotonic(self) -> float:
            self.now += 1.0
            return self.now

    monkeypatch.setattr(page, "time", Clock())
    out = tmp_path / "r.html"
    outcome = sgfi_command("report", model, root / "one.png", "--seconds", "1", "--out", out)
    assert outcome.code == 0
    left = json.loads(out.with_suffix(".json").read_text())["left_out"]
    assert "decision" in left and "the 1 s of this report were used up" in outcome.err and "left out" in out.read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["nothing-there.png"], 3),
        (["{one}", "--query", "nonsense:1"], 4),
        (["{one}", "--query", "three:99"], 5),
        (["{one}", "--out", "report.txt"], 3),
        (["{array}"], 3),
        ([], 2),
    ],
)
def test_wrong_requests_write_nothing(
    sgfi_command, model: str, root: Path, tmp_path: Path, words: list[str], code: int
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 5), dtype=np.float32))
    given = [word.format(one=root / "one.png", array=tmp_path / "x.npy") for word in words]
    out = [] if "--out" in given else ["--out", tmp_path / "r.html"]
    assert sgfi_command("report", model, *given, *out).code == code
    assert not list(tmp_path.glob("r.*")) and not Path("report.txt").exists()


def test_inputs_that_cannot_be_drawn_are_refused(sgfi_command, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nINPUT_SHAPE = (7,)\n\n\ndef build():\n    return torch.nn.Sequential(torch.nn.Linear(7, 4))\n"
    )
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(9, 7)).astype(np.float32))
    words = ["report", f"{tmp_path / 'net.py'}:build", tmp_path / "x.npy", "--out", tmp_path / "r.html"]
    without = sgfi_command(*words)
    assert without.code == 5 and "prior" in without.err
    outcome = sgfi_command(*words, "--prior", tmp_path / "x.npy")
    assert outcome.code == 5 and "(7,)" in outcome.err and not (tmp_path / "r.html").exists()


def test_the_deepest_map_with_enough_cells_is_asked_for_coordinates() -> None:
    class Node:
        def __init__(self, *shape: int) -> None:
            self.coord_shape = shape

    nodes = {"a": Node(16, 16), "b": Node(8, 8), "c": Node(4, 4)}

    class Family:
        def node(self, name: str) -> Node:
            return nodes[name]

    assert coordinate_target(Family(), list(nodes)) == "b"
    assert coordinate_target(Family(), list(nodes), picture=False) == "b"
