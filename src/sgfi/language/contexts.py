"""Controlled contexts as tokens of the model at hand: made, checked, and refused when malformed.

The sentences are words; how many tokens they are depends on the tokenizer. Every context is brought to one length by
the same rule (a neutral lead-in on the left, cropped on the left) and then checked for this tokenizer: cues and roles
must still be there, where they were declared. A benchmark that fails this check is refused, not repaired.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import accumulate, pairwise, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgfi.errors import DataError

LENGTH = 16
LEAD_IN = "This is a plain account of what there was to be seen here , no more and no less ."
"""Fills a context up on the left; it holds no cue for any word."""
FEWEST_CUES, MOST_CUES = 3, 5
ROLES = ("head", "attractor", "auxiliary")


@dataclass(frozen=True)
class Template:
    """``frame`` with slots for head, attractor and auxiliary; the words, singular first."""

    frame: str
    head: Sequence[str]
    attractor: Sequence[str]
    auxiliary: Sequence[str]


def _packaged(name: str) -> Any:
    return json.loads(files("sgfi.language").joinpath(name).read_text(encoding="utf-8"))


SENSES: dict[str, dict[str, list[str]]] = _packaged("polysemy.json")
"""Seventy-two contexts: word -> meaning -> sentences, twelve words with two meanings each.

The last word is queried. Words between asterisks are its cues: they were chosen with the sentences, before anything
was measured, and are what a reader would point at to say which meaning is meant.
"""
TEMPLATES = tuple(Template(**row) for row in _packaged("agreement.json"))
"""Twenty templates of number agreement: a head, a nearer noun of the other number, an auxiliary, a predicate.

Every template makes four contexts: singular or plural head, and the auxiliary that agrees with it or the other one.
The attractor always has the number that the head has not.
"""


@dataclass(frozen=True)
class Context:
    """One sentence as tokens, the queried token last."""

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    """As the tokenizer spells them, for people."""
    cluster: str
    """What is resampled together: the word, or the template."""
    variant: str
    """The sense and number, or the number and grammaticality."""
    cues: tuple[int, ...] = ()
    """Positions of the declared cues, all their tokens."""
    roles: Mapping[str, int] = field(default_factory=dict)
    """Positions of head, attractor and auxiliary (the last token of each)."""

    @property
    def terminal(self) -> int:
        return len(self.ids) - 1


def stacked(contexts: Sequence[Context]) -> Tensor:
    """(N, L) ids."""
    return torch.tensor([context.ids for context in contexts])


def polysemy(
    tokenizer: Any, length: int = LENGTH, senses: Mapping[str, Mapping[str, Sequence[str]]] = SENSES
) -> list[Context]:
    """All contexts of all words; refused where one is malformed for this tokenizer."""
    contexts = []
    for word, meanings in senses.items():
        if len(meanings) != 2:
            raise _malformed(word, "two senses", str(len(meanings)))
        for sense, sentences in meanings.items():
            if len(sentences) != 3:
                raise _malformed(f"{word} ({sense})", "three contexts", str(len(sentences)))
            for number, sentence in enumerate(sentences, start=1):
                contexts.append(_polysemous(tokenizer, word, f"{sense} {number}", sentence, length))
    return contexts


def agreement(tokenizer: Any, length: int = LENGTH, templates: Sequence[Template] = TEMPLATES) -> list[Context]:
    """Four contexts per template; refused where their roles are not at the same positions."""
    return [context for template in templates for context in _agreeing(tokenizer, template, length)]


def matched_subsets(contexts: Sequence[Context], count: int = 64, seed: int = 0) -> list[list[list[int]]]:
    """For every context random positions, as many as it has cues, at positions where cues tend to be.

    Drawn without replacement with the benchmark's own cue-position frequencies as weights; a context's cues and its
    target are never drawn.
    """
    length = len(contexts[0].ids)
    often = np.bincount([cue for context in contexts for cue in context.cues], minlength=length).astype(float)
    rng = np.random.default_rng(seed)
    drawn = []
    for context in contexts:
        free = [position for position in range(context.terminal) if position not in context.cues]
        weight = often[free] + 1e-3  # a position that never held a cue can still be drawn when nothing else is left
        size = min(len(context.cues), len(free))
        chance = weight / weight.sum()
        drawn.append([sorted(map(int, rng.choice(free, size, replace=False, p=chance))) for _ in range(count)])
    return drawn


def _polysemous(tokenizer: Any, word: str, variant: str, sentence: str, length: int) -> Context:
    words = sentence.split()
    marked = [index for index, each in enumerate(words) if re.fullmatch(r"\*\w+\*", each)]
    plain = [each.strip("*") for each in words]
    name = f"{word} ({variant})"
    if any("*" in each for each in plain) or plain[-1] != word or len(words) - 1 in marked:
        raise _malformed(name, f"a sentence that ends in {word!r}, cues between asterisks", repr(sentence))
    if not FEWEST_CUES <= len(marked) <= MOST_CUES:
        raise _malformed(name, f"{FEWEST_CUES} to {MOST_CUES} cues", f"{len(marked)} in {sentence!r}")
    if word in (plain[index] for index in marked):
        raise _malformed(name, "cues other than the word itself", repr(sentence))
    ids, spans = _of_length(tokenizer, plain, length)
    lost = [plain[index] for index in marked if spans[index][0] < 0]
    if lost:
        raise _malformed(name, f"all cues within {length} tokens", f"{lost} cropped away by this tokenizer")
    cues = [token for index in marked for token in range(*spans[index])]
    return Context(" ".join(plain), ids, _spelled(tokenizer, ids), word, variant, tuple(cues))


def _agreeing(tokenizer: Any, template: Template, length: int) -> list[Context]:
    words_at = {role: template.frame.split().index(f"{{{role}}}") for role in ROLES}
    cluster = f"{template.head[0]}/{template.attractor[0]}"
    if not words_at["head"] < words_at["attractor"] < words_at["auxiliary"] < len(template.frame.split()) - 1:
        raise _malformed(cluster, "head, attractor, auxiliary and predicate in this order", template.frame)
    for pair in (template.head, template.attractor, template.auxiliary):
        if len(set(pair)) != 2:
            raise _malformed(cluster, "a singular and a plural that differ", str(pair))
    contexts: list[Context] = []
    for number, right in product((0, 1), (True, False)):
        auxiliary = template.auxiliary[number if right else 1 - number]
        words = template.frame.format(
            head=template.head[number], attractor=template.attractor[1 - number], auxiliary=auxiliary
        ).split()
        ids, spans = _of_length(tokenizer, words, length)
        roles = {role: spans[index][1] - 1 for role, index in words_at.items()}
        variant = f"{('singular', 'plural')[number]} {'grammatical' if right else 'ungrammatical'}"
        contexts.append(Context(" ".join(words), ids, _spelled(tokenizer, ids), cluster, variant, roles=roles))
    if any(context.roles != contexts[0].roles for context in contexts) or min(contexts[0].roles.values()) < 0:
        got = "; ".join(f"{context.variant}: {dict(context.roles)}" for context in contexts)
        raise _malformed(cluster, "the same roles at the same positions in all four contexts", got)
    return contexts


def _of_length(tokenizer: Any, words: Sequence[str], length: int) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Exactly ``length`` ids and each word's span in them; a word cropped away begins below zero.

    Words are tokenised one by one with a space in front, as inside a text, so that spans are exact.
    """
    pieces = [_word(tokenizer, word) for word in words]
    filler = [token for word in LEAD_IN.split() for token in _word(tokenizer, word)]
    size = sum(map(len, pieces))
    short = max(0, length - size)
    if short > len(filler):
        raise DataError(f"{length} tokens", f"{size} and a lead-in of {len(filler)}", "Ask for a shorter length.")
    ids = [*filler[len(filler) - short :], *(token for piece in pieces for token in piece)]
    edges = accumulate(map(len, pieces), initial=short - max(0, size - length))
    return tuple(ids[-length:]), list(pairwise(edges))


def _word(tokenizer: Any, word: str) -> list[int]:
    return tokenizer(f" {word}", add_special_tokens=False)["input_ids"]


def _spelled(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(tokenizer.decode([token]) for token in ids)


def _malformed(name: str, expected: str, got: str) -> DataError:
    return DataError(f"{expected} in the context {name}", got, "Correct the item or leave it out.")
