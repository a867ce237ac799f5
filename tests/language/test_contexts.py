"""The authored benchmarks are whole, and a malformed item is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from sgfi.errors import DataError
from sgfi.language.contexts import LEAD_IN, ROLES, SENSES, TEMPLATES, agreement, matched_subsets, polysemy
from tests.language.conftest import word_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    sentences = [text for senses in SENSES.values() for texts in senses.values() for text in texts]
    words = " ".join([LEAD_IN, *sentences]).replace("*", "").split()
    for template in TEMPLATES:
        words += [*template.frame.split(), *template.head, *template.attractor, *template.auxiliary]
    return word_tokenizer(words)


def test_twelve_words_two_senses_three_contexts(tokenizer: Any) -> None:
    contexts = polysemy(tokenizer)
    assert len(contexts) == 72 and len(SENSES) == 12
    assert set(Counter(context.cluster for context in contexts).values()) == {6}
    for context in contexts:
        assert len(context.ids) == 16 and context.tokens[-1].strip() == context.cluster
        assert 3 <= len(context.cues) <= 5 and context.terminal not in context.cues
        assert all(context.tokens[cue].strip() in context.text.split() for cue in context.cues)


def test_twenty_templates_four_variants(tokenizer: Any) -> None:
    contexts = agreement(tokenizer)
    assert len(contexts) == 80 and set(Counter(context.cluster for context in contexts).values()) == {4}
    for context in contexts:
        template = next(form for form in TEMPLATES if context.cluster == f"{form.head[0]}/{form.attractor[0]}")
        head, attractor, auxiliary = (context.tokens[context.roles[role]].strip() for role in ROLES)
        number = template.head.index(head)
        assert template.attractor.index(attractor) == 1 - number  # the attractor has the other number
        agrees = template.auxiliary.index(auxiliary) == number
        assert agrees == context.variant.endswith(" grammatical")


def test_random_subsets_match_in_number_and_avoid_cues_and_target(tokenizer: Any) -> None:
    contexts = polysemy(tokenizer)
    for context, drawn in zip(contexts, matched_subsets(contexts, 8), strict=True):
        assert len(drawn) == 8
        for subset in drawn:
            assert len(set(subset)) == len(context.cues) and not set(subset) & {*context.cues, context.terminal}
    assert matched_subsets(contexts, 8) == matched_subsets(contexts, 8) != matched_subsets(contexts, 8, seed=1)


GOOD = SENSES["bank"]["money"]


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("The *loan* and the *cash* went with a *cheque* to the shop", "ends in 'bank'"),
        ("The *loan* and the *cash* went to the bank", "3 to 5 cues"),
        ("The *loan* and *cash* and *cheque* in the *bank* went to the bank", "other than the word itself"),
        ("The *loan* *cash* *cheque* went to the *bank*", "ends in 'bank'"),
        ("*loan* *cash* *cheque* " + "went to the " * 6 + "bank", "cropped away"),
    ],
)
def test_a_malformed_context_is_refused(tokenizer: Any, sentence: str, message: str) -> None:
    broken = {"bank": {**SENSES["bank"], "money": (sentence, *GOOD[1:])}}
    with pytest.raises(DataError, match=message):
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
    """One token per letter: words of unequal length put the roles at unequal positions."""

    def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text.strip()]}

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def test_a_tokenizer_that_splits_roles_unequally_is_refused() -> None:
    with pytest.raises(DataError, match="same positions in all four"):
        agreement(Letters(), length=40)
