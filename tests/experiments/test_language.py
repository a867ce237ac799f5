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
from sgfi.experiments.measures.registry import quotient
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
    alone = {"measures": measures, "across": {}}
    result = ran("language-controls", variants("language-controls", OURS), alone)
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


def test_controls_and_references_of_two_calibrations(ran) -> None:
    chosen = variants("language-controls", "paper, seed 123", "paper, seed 321")
    measures = {"token_controls": {}, "token_references": {"layer": 4, "integrated": False}}
    result = ran("language-controls", chosen, {"measures": measures})
    rows = result.tables["average"]["all variants"]
    assert set(rows) == {
        "paper, swap", "paper, cue query", "paper, direct global linear", "paper, attention", "paper, gradient x input"
    }  # fmt: skip
    for row, score in (("swap", "to_target"), ("direct global linear", "target")):
        measure = "token_controls" if row == "swap" else "token_references"
        parts = [result.at(f"{measure}/{label}/{row}/{score}")["values"] for label in result.variants]
        assert parts[0] != parts[1]
        means = [(a + b) / 2 for a, b in zip(*parts, strict=True)]
        assert rows[f"paper, {row}"][score]["values"] == pytest.approx(means, abs=1e-5)


def test_two_calibrations(ran) -> None:
    chosen = variants("language-seeds", "paper, seed 123", "paper, seed 321")
    result = ran("language-seeds", chosen, {"measures": {"token_routing": {"stages": ["raw", "first", "final"]}}})
    parts = [result.at(f"token_routing/{label}/final/target")["values"] for label in result.variants]
    averaged = result.at("average/all variants/paper, final/target")
    assert averaged["values"] == pytest.approx([(a + b) / 2 for a, b in zip(*parts, strict=True)], abs=1e-5)
    assert len(averaged["values"]) == 12 and averaged["low"] <= averaged["mean"] <= averaged["high"]  # words
    rows = result.tables["average"]["all variants"]
    stages = ["raw", "first", "final", "final minus raw", "final minus first"]
    assert list(rows) == [f"paper, {row}" for row in stages]  # not those of the family that was not run
    gain = rows["paper, final minus raw"]["target"]
    raw = rows["paper, raw"]["target"]["values"]
    assert gain["values"] == pytest.approx([a - b for a, b in zip(averaged["values"], raw, strict=True)], abs=1e-5)
    assert gain["low"] <= gain["mean"] <= gain["high"]
    assert [verdict.holds is None for verdict in verdicts(result)] == [False] * 5
    for kind in ("grammatical", "ungrammatical"):  # masses are averaged, then divided
        each = [result.at(f"token_routing/{label}/final/ratio_{kind}") for label in result.variants]
        sides = [[sum(score[side]) for score in each] for side in ("numerator", "denominator")]
        ratio = rows["paper, final"][f"ratio_{kind}"]
        assert ratio["mean"] == pytest.approx(sum(sides[0]) / sum(sides[1]), rel=1e-4)
        assert ratio["low"] < ratio["mean"] < ratio["high"] and len(ratio["numerator"]) == 20  # templates
    same, other = (f"token_agreement/paper, seed 123 -> paper, seed {seed}/final/cosine" for seed in (123, 321))
    assert result.at(same)["mean"] == pytest.approx(1) and result.at(other)["mean"] < 0.9999
    assert len(result.at(other)["values"]) == 72 + 80  # all controlled contexts


def test_masses_are_averaged_before_a_ratio_is_formed() -> None:
    rows = [
        {"row": {"ratio": quotient(above, [1.0, 3.0]), "mass": above, "all": 1.0}} for above in ([2.0, 2.0], [6.0, 0.0])
    ]
    tables = {"m": {"a": rows[0], "b": rows[1]}}
    ((name, scores),) = average(tables, of={"both": ["a", "b"]}, measures=["m"]).items()
    assert name == "both, row" and set(scores) == {"ratio", "mass"}
    assert scores["ratio"] == quotient([4.0, 1.0], [1.0, 3.0]) and scores["mass"] == [4.0, 1.0]
    assert list(average(tables, of=["a", "b"], measures=["m"])) == ["row"]
    partly = average(
        tables, of={"both": ["a", "b"], "not run": ["a", "c"]}, measures=["m"], differences=[["row", "row"]]
    )
    assert list(partly) == ["both, row", "both, row minus row"]
    assert partly["both, row minus row"] == {"mass": [0.0, 0.0]}
    for of in (["a", "c"], ["a"], {"none": ["c", "d"]}):
        with pytest.raises(DataError, match="Declare them"):
            average(tables, of=of, measures=["m"])


def test_layers_name_target_and_boundaries(ran) -> None:
    measures = {"token_routing": {"stages": ["raw", "first", "final"], "estimators": ["maps", "natural, point"]}}
    labels = [f"layer {layer}, seed {seed}" for layer in (2, 4) for seed in (123, 321)]
    pairs = {"token_agreement": {"of": [labels[:2], labels[2:]]}}
    result = ran("language-layers", variants("language-layers", *labels), {"measures": measures, "pairs": pairs})
    assert set(result.tables["token_routing"][labels[0]]) > {"final", "final, natural, point"}
    targets = {label: about["target"] for label, about in result.variants.items()}
    assert targets[labels[0]] == targets[labels[1]] == "lm.transformer.h.1.attn.c_proj"
    assert targets[labels[2]] == targets[labels[3]] == "lm.transformer.h.3.attn.c_proj"
    assert [about["fitted_nodes"] for about in result.variants.values()] == [1, 1, 2, 2]
    windows = [set(about["calibration"]["indices"]) for about in result.variants.values()]
    assert windows[0] == windows[2] != windows[1] == windows[3]
    assert set(result.tables["token_agreement"]) == {" -> ".join(labels[:2]), " -> ".join(labels[2:])}
    averaged = result.tables["average"]["all variants"]
    assert {"layer 2, final", "layer 4, final minus raw"} <= set(averaged) and "layer 6, final" not in averaged
    with pytest.raises(DataError, match="layer alone"):
        ran(
            "language-layers",
            {"pairs": {}, "variants": {"both": {"plan": {"layer": 2, "target": "lm.transformer.h.1"}}}},
        )
    with pytest.raises(DataError, match="variants of a pair"):
        declare("language-layers", {"variants": {"layer 2": {"plan": {"layer": 2}}}})


def test_the_paper_s_two_seeds_are_averaged_wherever_its_numbers_stand() -> None:
    """Numbers of one calibration stand only where the paper's are of one: future energy, a seed named, no maps."""
    for name in ("language", "language-seeds", "language-layers", "language-controls"):
        experiment = declare(name)
        groups = experiment.across["average"]["of"].values() if "average" in experiment.across else []
        for group in groups:
            settings = [experiment.settings(label) for label in group]
            assert [own.data.calibration_seed for own in settings] == [123, 321]
            assert settings[0].plan == settings[1].plan and settings[0].calibration == settings[1].calibration
        of_a_calibration = [
            entry["row"]
            for entry in experiment.paper
            if entry["row"].split("/")[0] in ("token_routing", "token_controls")
        ]
        assert all("zero terminal" in row or "layer 12, seed 123" in row for row in of_a_calibration)
    layers = [
        own.plan["layer"] for own in map(declare("language-layers").settings, declare("language-layers").variants)
    ]
    assert layers == [layer for layer in (2, 4, 6, 8, 10, 12) for _ in range(2)]


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


def test_both_estimators_on_the_same_tokens(ran) -> None:
    base, parts = declare("language-estimators"), ("attention", "mlp")
    plans = {label: {"plan": {"layer": 4, "part": part}} for label, part in zip(base.variants, parts, strict=True)}
    assert [base.variants[label]["plan"]["part"] for label in plans] == list(parts)
    fewer: dict[str, dict] = {"token_quality": {"images": 4}, "future_energy": {"images": 3}}
    measures = {name: options | fewer.get(name, {}) for name, options in base.measures.items()}
    result = ran("language-estimators", {"variants": plans, "measures": measures})
    for label in plans:
        assert result.at(f"future_energy/{label}/final, natural, path/share")["mean"] == 0
        assert result.at(f"token_controls/{label}/zero terminal, natural, point/largest")["mean"] == 0
        assert len(result.at(f"token_quality/{label}/final, natural, point/exact_token")["values"]) == 4
        rows = ("final", "final, natural, point")
        profiles = [result.at(f"token_routing/{label}/{row}/cue")["values"] for row in rows]
        assert profiles[0] != profiles[1]  # another estimator, another answer


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
