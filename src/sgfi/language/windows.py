"""Windows of tokens from a text: drawn by seed, never overlapping each other or windows drawn before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import DataError, whole

NEXT = 1
"""A window's interval takes in the token after it, so that no window's next token is in another."""
WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
"""What ids of tokens may be."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Equally long pieces of one tokenised text."""

    ids: Tensor
    """(N, L) token ids."""
    starts: Tensor
    """(N,) where each piece begins in the text."""

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def __len__(self) -> int:
        return len(self.ids)

    def overlaps(self, other: Windows) -> bool:
        """Whether any interval of ours, next token included, meets one of the other's."""
        ours, theirs = (set(_covered(windows).tolist()) for windows in (self, other))
        return bool(ours & theirs)


def tokenise(tokenizer: Any, text: str) -> Tensor:
    """(T,) ids of a long text, without special tokens."""
    if not isinstance(text, str) or not text:
        raise DataError("a text", repr(text)[:80], "Read the file first.")
    if not callable(tokenizer):
        raise DataError("a tokenizer", type(tokenizer).__name__, "Pass transformers' AutoTokenizer of the model.")
    return torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=torch.int64)


def draw(ids: Tensor, count: int, length: int, seed: int, taken: Iterable[Windows] = ()) -> Windows:
    """``count`` windows in random order, disjoint by interval from each other and from all ``taken``.

    The same text, numbers and taken windows give the same draw.
    """
    if not isinstance(ids, Tensor) or ids.dim() != 1 or ids.dtype not in WHOLE:
        got = f"{ids.dtype} {tuple(ids.shape)}" if isinstance(ids, Tensor) else type(ids).__name__
        raise DataError("one row of token ids", got, "Pass what sgfi.language.tokenise returned.")
    if not whole(count, 1) or not whole(length, 1) or not whole(seed):
        got = f"{count!r} of {length!r}, seed {seed!r}"
        raise DataError("at least one window of one token, and a seed", got, "Give whole numbers.")
    span, free = length + NEXT, torch.ones(len(ids), dtype=torch.bool)
    if not isinstance(taken, Iterable) or isinstance(taken, Windows):
        raise DataError("a list of drawn windows", type(taken).__name__, "As in taken=[windows].")
    for windows in taken:
        covered = _covered(windows) if isinstance(windows, Windows) else torch.empty(0)
        if not len(covered) or int(covered.max()) >= len(ids):
            got = "windows of a longer text" if len(covered) else type(windows).__name__
            raise DataError("windows drawn from this text", got, "Draw both from the same ids.")
        free[covered] = False
    order = torch.randperm(max(0, len(ids) - span + 1), generator=torch.Generator().manual_seed(seed)).tolist()
    starts: list[int] = []
    for start in order:
        if len(starts) == count:
            break
        if bool(free[start : start + span].all()):
            free[start : start + span] = False
            starts.append(start)
    if len(starts) < count:
        raise DataError(
            f"text for {count} disjoint windows of {length} tokens",
            f"{len(ids)} tokens, room for {len(starts)}",
            "Give more text or ask for fewer.",
        )
    first = torch.tensor(starts)
    return Windows(ids[first.unsqueeze(1) + torch.arange(length)], first)


def _covered(windows: Windows) -> Tensor:
    """Every token index inside some interval."""
    return (windows.starts.unsqueeze(1) + torch.arange(windows.length + NEXT)).flatten()
