"""The README's Python example runs as it stands and leaves the picture it promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from PIL import Image

from sgfi.evaluation.trust import OPERATING_POINT

README = Path(__file__).resolve().parents[1] / "README.md"


def example() -> str:
    """The first Python block of the README."""
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block.group(1)


def test_the_example_is_short() -> None:
    lines = [line for line in example().splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 5


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(compile(example(), str(README), "exec"), space)
    look = space["look"]
    assert look.value.shape == look.x.shape == (1, 3, 64, 64) and torch.isfinite(look.value).all()
    with Image.open(tmp_path / "answer.png") as picture:
        assert min(picture.size) > 300
    (answer,) = look.answers
    assert answer.random.abs().max() < OPERATING_POINT and "follows its target" in str(look)  # the README says so


def test_links_and_pictures_exist() -> None:
    text = README.read_text(encoding="utf-8")
    links = {link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("http")}
    assert [link for link in sorted(links) if not (README.parent / link).exists()] == []
