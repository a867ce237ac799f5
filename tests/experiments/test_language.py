"""The language experiments on a tiny GPT-2 in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sgfi.errors import DataError
from sgfi.experiments import Result, available, declare, run
from sgfi.experiments.answer_tables import answer_tables
from sgfi.experiments.measures.across import average
from sgfi.experiments.measures.tokens import vocabulary
from sgfi.experiments.results import verdicts
from tests.language.conftest import WORDS, folder, lm

__all__ = ["folder", "lm"]  # fixtures
OURS = "causal, first token apart"


@pytest.fixture(scope="module")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory, _captured_once: None) -> Callable[..., Result]:
    """A shipped language experiment made small; families are shared through one working folder."""
    text, work = folder / "long.txt", tmp_path_factory.mktemp("work")
    words = [WORDS[(i * i + 3 * i) % len(WORDS)] for i in range(16 * 80)]  # no window twice
    text.write_text(" ".join(words + [word for pair in zip(WORDS, WORDS[::-1], strict=True) for word in pair] * 8))

    def go(name: str, *changes: dict[str, Any]) -> Result:
        small = {
            "model": {"spec": f"hf:{folder}"},
            "data": {"calibration": str(text), "calibration_count": 12, "evaluation_count": 4, "batch": 4},
            "resamples": 100,
        }
        return run(declare(name, small, *changes), work)

    return go


def variants(name: str, *labels: str) -> dict[str, Any]:
    """Some of an experiment's variants, on the toy's number of windows."""
    kept = {label: dict(change) for label, change in declare(name).variants.items() if not labels or label in labels}
    for change in kept.values():
        change.get("data", {}).pop("calibration_count", None)
    return {"variants": kept}


def test_the_language_experiment(ran) -> None:
    measures = {"token_quality": {}, "token_routing": {}, "future_energy": {"images": 4}}
    result = ran(
        "language", variants("language", "paper", "causal", OURS, "causal, two later positions"), {"measures": measures}
    )
    assert all(verdict.holds for verdict in verdicts(result))
    assert result.at("future_energy/causal, two later positions/final/share")["mean"] == 0
    for score, count in (("cue_minus_random", 12), ("agreement_minus_attractor", 20)):  # words and templates
        assert len(result.at(f"token_routing/causal/final/{score}")["values"]) == count
    assert 0 <= result.at("token_quality/paper/final/exact_token")["mean"] <= 1
    final, base = (result.at(f"token_quality/{label}/final/embedding_cosine") for label in (OURS, "paper"))
    paired = result.at(f"differences/all variants/{OURS} minus paper/embedding_cosine")
    assert paired["mean"] == pytest.approx(final["mean"] - base["mean"], abs=1e-5) and len(paired["values"]) == 4
    raw = result.at("token_routing/paper/raw/function_words")["mean"]
    assert 0 <= raw <= 1 - result.at("token_routing/paper/raw/target")["mean"]
    assert result.at("token_routing/paper/raw/ratio_grammatical")["mean"] > 0


def test_controls_references_and_decisions(ran) -> None:
    measures = {
        "token_controls": {},
        "token_references": {"layer": 4, "integrated": False},
        "token_base_terms": {"images": 4},
        "token_decisions": {"images": 3, "sizes": [2, 4], "repeats": 2, "group": 4, "joint": 4, "joint_repeats": 3},
    }
    result = ran("language-controls", variants("language-controls", OURS), {"measures": measures})
    assert all(verdict.holds for verdict in verdicts(result))
    assert set(result.tables["token_references"][OURS]) == {"direct global linear", "attention", "gradient x input"}
    assert len(result.at(f"token_controls/{OURS}/swap/to_target")["values"]) == 24  # two senses of twelve words
    nodes = result.tables["token_base_terms"][OURS]
    assert all(0 <= scores["first_position_of_states"]["mean"] <= 1 for scores in nodes.values()) and "input" in nodes
    edited = {
        end: result.at(f"token_decisions/{OURS}/random, ranked over all positions/edited_{end}")["values"]
        for end in ("all", "terminal")
    }
    gain = result.at(f"token_decisions/{OURS}/random, ranked over all positions/all_minus_terminal")["values"]
    assert gain == pytest.approx([a - b for a, b in zip(edited["all"], edited["terminal"], strict=True)], abs=1e-5)
    assert len(gain) == 4 and len(result.at(f"token_decisions/{OURS}/positive, k=2/margin_drop")["values"]) == 3
    assert result.at(f"token_decisions/{OURS}/queries/terminal_mass_terminal")["mean"] > 0


def test_two_calibrations(ran) -> None:
    chosen = variants("language-seeds", "paper, seed 123", "paper, seed 321")
    result = ran("language-seeds", chosen, {"measures": {"token_routing": {"stages": ["final"]}}})
    parts = [result.at(f"token_routing/{label}/final/target")["values"] for label in result.variants]
    averaged = result.at("average/all variants/final/target")
    assert averaged["values"] == pytest.approx([(a + b) / 2 for a, b in zip(*parts, strict=True)], abs=1e-5)
    assert len(averaged["values"]) == 12 and averaged["low"] <= averaged["mean"] <= averaged["high"]  # words
    with pytest.raises(DataError, match="Declare them"):
        average({"token_routing": {}}, of=["a", "b"], measure="token_routing")
    same, other = (f"token_agreement/paper, seed 123 -> paper, seed {seed}/final/cosine" for seed in (123, 321))
    assert result.at(same)["mean"] == pytest.approx(1) and result.at(other)["mean"] < 0.9999
    assert len(result.at(other)["values"]) == 72 + 80  # all controlled contexts


def test_layers_name_target_and_boundaries(ran) -> None:
    measures = {"token_routing": {"stages": ["final"], "estimators": ["maps", "natural, point"]}}
    result = ran("language-layers", variants("language-layers", "layer 2", "layer 4"), {"measures": measures})
    assert set(result.tables["token_routing"]["layer 2"]) == {"final", "final, natural, point"}
    targets = {label: about["target"] for label, about in result.variants.items()}
    assert targets == {"layer 2": "lm.transformer.h.1.attn.c_proj", "layer 4": "lm.transformer.h.3.attn.c_proj"}
    assert {label: about["fitted_nodes"] for label, about in result.variants.items()} == {"layer 2": 1, "layer 4": 2}
    with pytest.raises(DataError, match="layer alone"):
        ran("language-layers", {"variants": {"both": {"plan": {"layer": 2, "target": "lm.transformer.h.1"}}}})


def test_a_whole_mlp_output(ran) -> None:
    both = {"estimators": ["maps", "natural, point"]}
    measures = {
        "token_quality": {"stages": ["final"], **both},
        "token_reencoding": {"fit": 8, "stages": ["final"], **both},
        "future_energy": {"images": 2, "stages": ["final"], **both},
        "token_lengths": {"lengths": [8, 16], "images": 3},
        "token_display": {"fit": 8},
        "token_base_terms": {"images": 4},
    }
    result = ran("language-mlp", variants("language-mlp", OURS), {"plan": {"layer": 4}, "measures": measures})
    assert result.variants[OURS]["target"].startswith("lm.transformer.h.3.mlp")
    assert list(result.tables["token_lengths"][OURS]) == ["8", "16"]
    for row in ("final", "final, natural, point"):
        assert 0 <= result.at(f"token_reencoding/{OURS}/{row}/auc")["mean"] <= 1
        assert -1 <= result.at(f"token_quality/{OURS}/{row}/embedding_cosine")["mean"] <= 1
        assert result.at(f"future_energy/{OURS}/{row}/share")["mean"] == 0  # a causal family, and the natural inverse
    shown = [result.at(f"token_display/{OURS}/final/{name}")["mean"] for name in ("top1", "top64")]
    assert 0 <= shown[0] <= shown[1] == 1  # the vocabulary has fewer than 64 words


def test_pictures_of_tokens(ran) -> None:
    methods = ["natural, path", "maps", "trained decoder", "gradient"]
    measures = {
        "answers": {
            "methods": methods,
            "queries": {"channels": 3, "cells": 3, "strongest": "deviation"},
            "images": 2,
            "controls": 1,
        },
        "answer_routing": {"methods": ["natural, path", "gradient"]},
    }
    result = ran("language-answers", {"plan": {"layer": 4}, "measures": measures})
    (rows,) = result.tables["answers"].values()
    target = result.variants["as declared"]["target"]
    assert rows[f"natural, path, {target}, cells"]["future_energy"]["mean"] == 0  # exactly
    assert rows[f"gradient, {target}, cells"]["future_energy"]["mean"] == 0
    assert 0 <= rows[f"natural, path, {target}, cells"]["exact_token"]["mean"] <= 1
    assert "exact_token" not in rows[f"gradient, {target}, cells"]
    routed = result.at(f"answer_routing/as declared/natural, path, {target}/cue_minus_random")
    assert len(routed["values"]) == 12
    text = answer_tables(result)
    assert "after the queried position" in text and "Routing" in text


@pytest.mark.parametrize("name", [name for name in available() if name.startswith("language")])
def test_the_papers_numbers_have_addresses(name: str) -> None:
    experiment = declare(name)
    for entry in (*experiment.paper, *({"row": claim["left"]} for claim in experiment.claims)):
        measure, variant, *_ = entry["row"].split("/")
        assert measure in {*experiment.measures, *experiment.pairs, *experiment.across}
        assert variant == "*" or set(variant.split(" -> ")) <= set(experiment.variants)


def test_a_picture_model_has_no_tokens(tmp_path: Path) -> None:
    class Case:
        class loaded:
            vocabulary, spec = None, "torchvision:resnet18"

    with pytest.raises(DataError, match="language model"):
        vocabulary(Case())  # type: ignore[arg-type]
