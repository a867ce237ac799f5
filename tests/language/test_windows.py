from __future__ import annotations

import pytest
import torch

from sgfi.errors import DataError
from sgfi.language import Windows, draw, tokenise

TEXT = torch.arange(400)


def test_windows_are_seeded_and_disjoint() -> None:
    first = draw(TEXT, 20, 8, seed=1)
    again, other = draw(TEXT, 20, 8, seed=1), draw(TEXT, 20, 8, seed=2)
    assert torch.equal(first.ids, again.ids) and not torch.equal(first.ids, other.ids)
    assert torch.equal(first.ids[:, 0], first.starts) and first.ids.shape == (20, 8)
    gaps = first.starts.sort().values.diff()
    assert gaps.min() >= 9  # eight tokens and the next one


def test_evaluation_keeps_clear_of_what_was_taken() -> None:
    taken = draw(TEXT, 20, 8, seed=1)
    held = draw(TEXT, 8, 8, seed=2, taken=[taken])
    assert not held.overlaps(taken)
    assert draw(TEXT, 8, 8, seed=2).overlaps(taken)
    assert Windows(taken.ids[:1], taken.starts[:1] + 8).overlaps(taken)  # touches the next token only


def test_too_little_text_is_told() -> None:
    with pytest.raises(DataError, match="room for"):
        draw(TEXT, 50, 8, seed=1)


@pytest.mark.parametrize("wrong", [TEXT.view(2, -1), TEXT.float(), TEXT.tolist()])
def test_ids_are_one_row_of_integers(wrong: object) -> None:
    with pytest.raises(DataError, match="one row of token ids"):
        draw(wrong, 2, 8, seed=1)  # type: ignore[arg-type]


def test_a_text_is_needed() -> None:
    with pytest.raises(DataError, match="a text"):
        tokenise(None, "")


def test_numbers_and_windows_of_other_kinds_are_refused() -> None:
    ids = torch.arange(200)
    taken = draw(ids, 3, 4, 0)
    for count, length, seed in (("3", 4, 0), (3, 4.0, 0), (3, 4, None), (True, 4, 0)):
        with pytest.raises(DataError, match="whole numbers"):
            draw(ids, count, length, seed)  # type: ignore[arg-type]
    for others in (taken, None, [3], [draw(torch.arange(1000), 50, 9, 1)]):
        with pytest.raises(DataError, match="windows"):
            draw(ids, 3, 4, 0, others)  # type: ignore[arg-type]
    for wrong in (ids.bool(), ids.to(torch.complex64), ids.float()):
        with pytest.raises(DataError, match="token ids"):
            draw(wrong, 3, 4, 0)
    with pytest.raises(DataError, match="a tokenizer"):
        tokenise(None, "a text")
