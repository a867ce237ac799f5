"""The notebooks run from top to bottom, offline, without an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def test_every_subject_has_a_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {"cnn", "decisions", "language", "vit"}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_ships_with_its_outputs(path: Path) -> None:
    """As ``python notebooks/run.py`` keeps them: no error, no folder of a machine, not too large for a page."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert all(cell.execution_count for cell in cells)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|Users)/", text) and len(text) < 3 << 20


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the kernel machinery has warnings of its own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # parallel workers share the cores
    monkeypatch.setenv("PYTHONPATH", str(path.resolve().parents[1] / "src"))
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum(bool({"image/png", "image/svg+xml"} & output.get("data", {}).keys()) for output in outputs) >= 4
    assert not [output for output in outputs if output["output_type"] == "error"]
