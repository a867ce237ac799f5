"""Metrics on pictures whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sgfi.errors import DataError
from sgfi.evaluation.metrics import (
    alignment_metrics,
    chroma_cosine,
    high_cosine,
    low_cosine,
    low_pass,
    lpips,
    luminance,
    nmse,
    pixel_cosine,
    ssim,
)
from sgfi.evaluation.representation import roc_auc
from sgfi.inputs import Preprocessing

PREPARED = Preprocessing(size=(32, 32), mean=(0.5,) * 3, std=(0.25,) * 3)


def pictures(count: int = 3, size: int = 32) -> torch.Tensor:
    return torch.rand(count, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_low_and_high_split_luminance_orthogonally() -> None:
    y = luminance(pictures())
    low = low_pass(y)
    assert torch.allclose(low_pass(low), low, atol=1e-12)
    assert pixel_cosine(low, y - low).abs().max() < 1e-12
    wave = torch.cos(2 * torch.pi * torch.arange(32) / 16).expand(1, 1, 32, 32)  # 1/16 cycles per pixel: still low
    faster = torch.cos(2 * torch.pi * torch.arange(32) * 3 / 32).expand(1, 1, 32, 32)
    assert torch.allclose(low_pass(wave), wave.double(), atol=1e-6) and low_pass(faster).abs().max() < 1e-6


def test_each_part_sees_its_own_change_only() -> None:
    x = pictures()
    grey = luminance(x).expand_as(x)
    assert chroma_cosine(x, x).min() > 1 - 1e-9 and low_cosine(grey, x).min() > 1 - 1e-6
    assert high_cosine(grey, x).min() > 1 - 1e-6 and chroma_cosine(grey, x).abs().max() < 0.05
    coloured = x + torch.tensor([0.587, -0.299, 0.0]).view(1, 3, 1, 1) * torch.rand(3, 1, 32, 32)  # luminance stays
    assert low_cosine(coloured, x).min() > 1 - 1e-6 and chroma_cosine(coloured, x).max() < 0.99


def test_every_metric_of_an_image_with_itself() -> None:
    x = PREPARED.normalise((pictures() * 255).to(torch.uint8))
    scores = {name: metric(x, x) for name, metric in alignment_metrics(PREPARED).items()}
    assert all(value.shape == (3,) for value in scores.values())
    assert scores.pop("relative_error").abs().max() == 0
    assert set(scores) == {"pixel_cosine", "low_cosine", "high_cosine", "chroma_cosine", "ssim"}
    assert all(value.min() > 1 - 1e-5 for value in scores.values())
    worse = {name: metric(-x, x) for name, metric in alignment_metrics(PREPARED).items()}
    assert worse["pixel_cosine"].max() < -1 + 1e-6 and worse["ssim"].max() < 0.5


def test_metrics_follow_the_kind_of_input() -> None:
    assert set(alignment_metrics(None)) == {"pixel_cosine", "relative_error"}
    assert "chroma_cosine" not in alignment_metrics(Preprocessing(size=(8, 8), mean=(0.0,), std=(1.0,)))


def test_ssim_is_per_image() -> None:
    x = pictures()
    noisy = x.clone()
    noisy[1] = 1 - noisy[1]
    similarity = ssim(noisy, x)
    assert similarity[0] > 0.999 and similarity[1] < 0.2 and similarity[2] > 0.999


@pytest.fixture
def trunk(tmp_path: Path) -> Path:
    from torchvision.models import squeezenet1_1

    torch.manual_seed(0)
    save_file(squeezenet1_1(weights=None).state_dict(), tmp_path / "trunk.safetensors")
    return tmp_path / "trunk.safetensors"


def test_lpips_reads_its_trunk_from_a_file(trunk: Path) -> None:
    x = pictures(2, 48)
    measure = lpips(trunk)
    assert measure(x, x).abs().max() < 1e-6
    assert measure(1 - x, x).min() > measure(x + 0.01, x).max()


def test_lpips_refuses_other_weights(tmp_path: Path) -> None:
    save_file({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.safetensors")
    with pytest.raises(DataError, match="squeezenet1_1"):
        lpips(tmp_path / "other.safetensors")


def test_nmse() -> None:
    truth = torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
    assert nmse(torch.tensor([[3.0, 4.0], [0.0, 0.0], [0.0, 0.0]]), truth).tolist() == [0, 0, 1]


def test_auc_counts_ties_half() -> None:
    assert roc_auc([3, 4], [1, 2]) == 1 and roc_auc([1, 2], [3, 4]) == 0
    assert roc_auc([1, 2], [1, 2]) == 0.5 and roc_auc([1, 3], [2]) == 0.5
