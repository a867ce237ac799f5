"""Controlled contexts as tokens of the model at hand: made, checked, and refused when malformed.

The sentences are words; how many tokens they are is a matter of the tokenizer. Every context is brought to one length
by the same rule (a neutral lead-in on the left, cropped on the left) and then checked for this very tokenizer: cues
and roles must still be there, where they were declared. A benchmark that does not survive this is refused, not mended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sgfi.errors import DataError
from sgfi.language.agreement import TEMPLATES, Template
from sgfi.language.polysemy import SENSES

LENGTH = 16
LEAD_IN = "This is a plain account of what there was to be seen here , no more and no less ."
"""Fills a context up on the left; it holds no cue for any word."""
FEWEST_CUES, MOST_CUES = 3, 5


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

    @property
    def tensor(self) -> Tensor:
        """(L,)"""
        return torch.tensor(self.ids)


def stacked(contexts: Sequence[Context]) -> Tensor:
    """(N, L) ids."""
    return torch.stack([context.tensor for context in contexts])


def polysemy(
    tokenizer: Any, length: int = LENGTH, senses: Mapping[str, Mapping[str, Sequence[str]]] = SENSES
) -> list[Context]:
    """All contexts of all words; refused where one is malformed for this tokenizer."""
    found = []
    for word, meanings in senses.items():
        if len(meanings) != 2:
            raise _malformed(word, "two senses", str(len(meanings)))
        for sense, sentences in meanings.items():
            if len(sentences) != 3:
                raise _malformed(f"{word} ({sense})", "three contexts", str(len(sentences)))
            for place, sentence in enumerate(sentences, start=1):
                found.append(_polysemous(tokenizer, word, f"{sense} {place}", sentence, length))
    return found


def agreement(tokenizer: Any, length: int = LENGTH, templates: Sequence[Template] = TEMPLATES) -> list[Context]:
    """Four contexts a template; refused where their roles do not stand at the same positions."""
    return [context for template in templates for context in _agreeing(tokenizer, template, length)]


def matched_subsets(contexts: Sequence[Context], count: int = 64, seed: int = 0) -> list[list[list[int]]]:
    """For every context random positions, as many as it has cues, at positions where cues tend to stand.

    Drawn without replacement with the benchmark's own cue-position frequencies as weights; a context's cues and its
    target are never drawn.
    """
    length = len(contexts[0].ids)
    often = np.bincount([cue for context in contexts for cue in context.cues], minlength=length).astype(float)
    rng = np.random.default_rng(seed)
    drawn = []
    for context in contexts:
        free = [place for place in range(length) if place not in context.cues and place != context.terminal]
        weight = often[free] + 1e-3  # a place where no cue ever stood can still be drawn when nothing else is left
        size = min(len(context.cues), len(free))
        chance = weight / weight.sum()
        drawn.append([sorted(map(int, rng.choice(free, size, replace=False, p=chance))) for _ in range(count)])
    return drawn


def _polysemous(tokenizer: Any, word: str, variant: str, sentence: str, length: int) -> Context:
    words = sentence.split()
    marked = [place for place, each in enumerate(words) if re.fullmatch(r"\*\w+\*", each)]
    plain = [each.strip("*") for each in words]
    name = f"{word} ({variant})"
    if any("*" in each for each in plain) or plain[-1] != word or len(words) - 1 in marked:
        raise _malformed(name, f"a sentence that ends in {word!r}, cues between asterisks", repr(sentence))
    if not FEWEST_CUES <= len(marked) <= MOST_CUES:
        raise _malformed(name, f"{FEWEST_CUES} to {MOST_CUES} cues", f"{len(marked)} in {sentence!r}")
    if word in (plain[place] for place in marked):
        raise _malformed(name, "cues other than the word itself", repr(sentence))
    ids, spans = _fitted(tokenizer, plain, length)
    lost = [plain[place] for place in marked if spans[place][0] < 0]
    if lost:
        raise _malformed(name, f"all cues within {length} tokens", f"{lost} cropped away by this tokenizer")
    cues = [token for place in marked for token in range(*spans[place])]
    return Context(" ".join(plain), ids, _spelled(tokenizer, ids), word, variant, tuple(cues))


def _agreeing(tokenizer: Any, template: Template, length: int) -> list[Context]:
    places = {role: template.frame.split().index(f"{{{role}}}") for role in ("head", "attractor", "auxiliary")}
    cluster = f"{template.head[0]}/{template.attractor[0]}"
    if not places["head"] < places["attractor"] < places["auxiliary"] < len(template.frame.split()) - 1:
        raise _malformed(cluster, "head, attractor, auxiliary and predicate in this order", template.frame)
    for pair in (template.head, template.attractor, template.auxiliary):
        if len(set(pair)) != 2:
            raise _malformed(cluster, "a singular and a plural that differ", str(pair))
    found = []
    for number, right in product((0, 1), (True, False)):
        auxiliary = template.auxiliary[number if right else 1 - number]
        words = template.frame.format(
            head=template.head[number], attractor=template.attractor[1 - number], auxiliary=auxiliary
        ).split()
        ids, spans = _fitted(tokenizer, words, length)
        roles = {role: spans[place][1] - 1 for role, place in places.items()}
        variant = f"{('singular', 'plural')[number]} {'grammatical' if right else 'ungrammatical'}"
        found.append(Context(" ".join(words), ids, _spelled(tokenizer, ids), cluster, variant, roles=roles))
    if any(context.roles != found[0].roles for context in found) or min(found[0].roles.values()) < 0:
        told = "; ".join(f"{context.variant}: {dict(context.roles)}" for context in found)
        raise _malformed(cluster, "the same roles at the same positions in all four contexts", told)
    return found


def _fitted(tokenizer: Any, words: Sequence[str], length: int) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
    """Exactly ``length`` ids and each word's span in them; a word cropped away begins below zero.

    Words are tokenised one by one with a space in front, as they stand inside a text, so that spans are exact.
    """
    pieces = [_word(tokenizer, word) for word in words]
    filler = [token for word in LEAD_IN.split() for token in _word(tokenizer, word)]
    size = sum(map(len, pieces))
    short = max(0, length - size)
    if short > len(filler):
        raise DataError(f"{length} tokens", f"{size} and a lead-in of {len(filler)}", "Ask for a shorter length.")
    ids = [*filler[len(filler) - short :], *(token for piece in pieces for token in piece)]
    at = short - max(0, size - length)
    spans = []
    for piece in pieces:
        spans.append((at, at + len(piece)))
        at += len(piece)
    return tuple(ids[-length:]), spans


def _word(tokenizer: Any, word: str) -> list[int]:
    return tokenizer(f" {word}", add_special_tokens=False)["input_ids"]


def _spelled(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    return tuple(tokenizer.decode([token]) for token in ids)


def _malformed(name: str, expected: str, got: str) -> DataError:
    return DataError(f"{expected} in the context {name}", got, "Mend the item or leave it out.")
