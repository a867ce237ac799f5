"""The language experiment on a tiny GPT-2 in a folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgfi.experiments import declare, run
from sgfi.experiments.results import verdicts
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures


def test_the_language_experiment(folder: Path, tmp_path: Path) -> None:
    text = folder / "long.txt"
    words = [WORDS[(i * i + 3 * i) % len(WORDS)] for i in range(16 * 80)]  # no window twice
    text.write_text(" ".join(words + [word for pair in zip(WORDS, WORDS[::-1], strict=True) for word in pair] * 8))
    small = {
        "model": {"spec": f"hf:{folder}"},
        "data": {"calibration": str(text), "calibration_count": 12, "evaluation_count": 4, "batch": 4},
        "measures": {"token_quality": {}, "token_routing": {}, "future_energy": {"images": 4}},
    }
    result = run(declare("language", small), tmp_path / "work")
    assert set(result.variants) == set(declare("language").variants)
    assert all(verdict.holds for verdict in verdicts(result))
    assert result.at("future_energy/causal, two later positions/final/share")["mean"] == 0
    for score, count in (("cue_minus_random", 12), ("agreement_minus_attractor", 20)):  # words and templates
        assert len(result.at(f"token_routing/causal/final/{score}")["values"]) == count
    assert 0 <= result.at("token_quality/paper/final/exact_token")["mean"] <= 1


def test_a_picture_model_has_no_tokens(tmp_path: Path) -> None:
    from sgfi.errors import DataError
    from sgfi.experiments.measures.tokens import _vocabulary

    class Case:
        class loaded:
            embed, spec = None, "torchvision:resnet18"

    with pytest.raises(DataError, match="language model"):
        _vocabulary(Case())  # type: ignore[arg-type]
