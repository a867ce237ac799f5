"""Run the notebooks and keep their outputs.   python notebooks/run.py [NAME...]

Pictures are kept with 256 colours, so that the files stay small; messages on the error stream are left out.
"""

from __future__ import annotations

import base64
import io
import os
import sys
import tempfile
from pathlib import Path

import nbclient
import nbformat
from PIL import Image

HERE = Path(__file__).resolve().parent
WIDEST = 1100


def small(picture: str) -> str:
    """A base64 PNG with fewer pixels and colours."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    kept = io.BytesIO()
    image.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(kept, "PNG", optimize=True)
    return base64.b64encode(kept.getvalue()).decode()


def run(path: Path) -> None:
    """From top to bottom in an empty folder, then written back."""
    os.environ["PYTHONPATH"] = str(HERE.parent / "src")
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = nbclient.NotebookClient(
            notebook, timeout=1800, kernel_name="python3", resources={"metadata": {"path": folder}}
        )
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of this run
        cell["outputs"] = [output for output in cell.get("outputs", []) if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                output["data"]["image/png"] = small(output["data"]["image/png"])
        if cell.cell_type != "code":
            del cell["outputs"]
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or [file.stem for file in sorted(HERE.glob("*.ipynb"))]:
        run(HERE / f"{chosen}.ipynb")
        print(chosen, flush=True)
