"""The notebooks run from top to bottom, offline, without an error."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "notebooks").glob("*.ipynb"))


def test_every_subject_has_a_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} >= {"cnn", "decisions", "language", "vit"}


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
