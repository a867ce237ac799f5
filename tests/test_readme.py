"""The README's Python example runs as it stands and leaves the picture and the maps it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from PIL import Image

import sgfi

README = Path(__file__).resolve().parents[1] / "README.md"


def example() -> str:
    """The first Python block of the README."""
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block.group(1)


def test_the_example_is_short() -> None:
    lines = [line for line in example().splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 11


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(compile(example(), str(README), "exec"), space)
    assert space["inverse"].value.shape == space["x"].shape
    assert torch.isfinite(space["inverse"].value).all()
    assert set(space["inverse"].states) == set(space["plan"].boundaries)
    with Image.open(tmp_path / "inverses.png") as picture:
        assert min(picture.size) > 300
    again = sgfi.load(tmp_path / "maps" / "lite0", space["loaded"].model)
    inverse = sgfi.invert(again, space["x"], channels=[3, 17], coords=[(2, 3)])
    assert torch.allclose(inverse.value, space["inverse"].value, atol=1e-5)
