"""A cut of the table of models by name (``python -m benchmarks.models``), and how it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.common import RESULTS
from benchmarks.models import CUT, MARKS, MODELS, PAGE, Entry, bounded, key, measured, rendered

ENTRIES = {key(entry): entry for entry in MODELS}


def test_there_are_sixty_models_each_named_once() -> None:
    assert len(ENTRIES) == len(MODELS) >= 60 and set(CUT) <= set(ENTRIES)


@pytest.mark.parametrize("name", CUT)
@pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves
def test_a_model_by_name_is_captured_planned_checked_and_inverted(name: str) -> None:
    if name.startswith(("smp", "diffusers")):
        pytest.importorskip({"smp": "segmentation_models_pytorch"}.get(name.partition(":")[0], "diffusers"))
    row = measured(ENTRIES[name])
    assert row["adjoint"] < 1e-3 and 0 < row["size_of_inverse"] < float("inf") and row["residual"] < 1
    assert row["boundaries"] >= 2 and row["nodes"] > row["boundaries"]


def test_a_model_over_its_bound_is_a_failure_with_a_reason() -> None:
    assert bounded(Entry("hf:bert", 8), seconds=0) == {"failed": "more than 0 s"}
    assert bounded(Entry("hf:bert", 8), megabytes=0) == {"failed": "more than 0 MB"}


def test_the_page_has_the_table_of_the_results() -> None:
    rows = json.loads((RESULTS / "models.json").read_text())["models"]
    assert f"{MARKS[0]}\n{rendered(rows)}\n{MARKS[1]}" in PAGE.read_text()
    assert len(rows) >= 60 and set(rows) <= set(ENTRIES)


def test_failures_stand_below_the_table_with_their_reason() -> None:
    row: dict[str, Any] = {"nodes": 5, "recipe": "vit", "boundaries": 3, "idle": [], "target": "norm", "shape": [4, 8]}
    row |= {"adjoint": 1e-6, "capture": 1.25, "invert": 0.5, "memory": 80.0}
    text = rendered({"a:good": row, "a:bad": {"failed": "CaptureError: no batch"}})
    assert text.startswith("1 of 2 models")
    assert "| `a:good` | 5 | vit | 3 |  | `norm` 4x8 | 1e-06 | 1.2 | 0.5 | 80 |" in text
    assert text.endswith("- `a:bad`: CaptureError: no batch") and "None failed" in rendered({"a:good": row})
