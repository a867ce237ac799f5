"""The authored benchmarks are whole, and a malformed item is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sgfi.errors import DataError
from sgfi.language.agreement import TEMPLATES
from sgfi.language.contexts import LEAD_IN, agreement, matched_subsets, polysemy
from sgfi.language.polysemy import SENSES
from tests.language.conftest import word_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    sentences = [text for senses in SENSES.values() for texts in senses.values() for text in texts]
    words = " ".join([LEAD_IN, *sentences]).replace("*", "").split()
    for one in TEMPLATES:
        words += [*one.frame.split(), *one.head, *one.attractor, *one.auxiliary]
    return word_tokenizer(words)


def test_twelve_words_two_senses_three_contexts(tokenizer: Any) -> None:
    found = polysemy(tokenizer)
    assert len(found) == 72 and set(Counter(one.cluster for one in found).values()) == {6} and len(SENSES) == 12
    for one in found:
        assert len(one.ids) == 16 and one.tokens[-1].strip() == one.cluster
        assert 3 <= len(one.cues) <= 5 and one.terminal not in one.cues
        assert all(one.tokens[cue].strip() in one.text.split() for cue in one.cues)


def test_twenty_templates_four_variants(tokenizer: Any) -> None:
    found = agreement(tokenizer)
    assert len(found) == 80 and set(Counter(one.cluster for one in found).values()) == {4}
    forms = {one.head: one for one in TEMPLATES}
    for one in found:
        template = next(form for form in forms.values() if one.cluster == f"{form.head[0]}/{form.attractor[0]}")
        head, attractor, auxiliary = (one.tokens[one.roles[r]].strip() for r in ("head", "attractor", "auxiliary"))
        number = template.head.index(head)
        assert template.attractor.index(attractor) == 1 - number  # the attractor has the other number
        agrees = template.auxiliary.index(auxiliary) == number
        assert agrees == one.variant.endswith(" grammatical")


def test_random_subsets_match_in_number_and_avoid_cues_and_target(tokenizer: Any) -> None:
    found = polysemy(tokenizer)
    for one, drawn in zip(found, matched_subsets(found, 8), strict=True):
        assert len(drawn) == 8
        for subset in drawn:
            assert len(set(subset)) == len(one.cues) and not set(subset) & {*one.cues, one.terminal}
    assert matched_subsets(found, 8) == matched_subsets(found, 8) != matched_subsets(found, 8, seed=1)


GOOD = SENSES["bank"]["money"]


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("The *loan* and the *cash* went with a *cheque* to the shop", "ends in 'bank'"),
        ("The *loan* and the *cash* went to the bank", "3 to 5 cues"),
        ("The *loan* and *cash* and *cheque* in the *bank* went to the bank", "other than the word itself"),
        ("The *loan* *cash* *cheque* went to the *bank*", "ends in 'bank'"),
        ("*loan* *cash* *cheque* " + "went to the " * 6 + "bank", "cropped away"),
    ],
)
def test_a_malformed_context_is_refused(tokenizer: Any, sentence: str, told: str) -> None:
    broken = {"bank": {**SENSES["bank"], "money": (sentence, *GOOD[1:])}}
    with pytest.raises(DataError, match=told):
        polysemy(tokenizer, senses=broken)


def test_a_malformed_benchmark_is_refused(tokenizer: Any) -> None:
    with pytest.raises(DataError, match="three contexts"):
        polysemy(tokenizer, senses={"bank": {**SENSES["bank"], "money": GOOD[:2]}})
    with pytest.raises(DataError, match="two senses"):
        polysemy(tokenizer, senses={"bank": {"money": GOOD}})
    with pytest.raises(DataError, match="in this order"):
        agreement(tokenizer, templates=[replace(TEMPLATES[0], frame="The {attractor} near the {head} {auxiliary} red")])
    with pytest.raises(DataError, match="that differ"):
        agreement(tokenizer, templates=[replace(TEMPLATES[0], head=("sheep", "sheep"))])


class Letters:
    """One token a letter: words of unequal length put the roles at unequal places."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text.strip()]}

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def test_a_tokenizer_that_splits_roles_unequally_is_told() -> None:
    with pytest.raises(DataError, match="same positions in all four"):
        agreement(Letters(), length=40)
