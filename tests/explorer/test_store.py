"""Answers survive a restart, memory and disk are bounded, damage is harmless."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sgfi.errors import StoreError
from sgfi.explorer.store import Artefact, Store, digest


def artefact(number: int) -> Artefact:
    return Artefact({"value": torch.full((1, 1000), float(number))}, {"number": number})


def test_answers_and_token_survive_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("a" * 64, artefact(3))
    again = Store(tmp_path)
    known = again.get("a" * 64)
    assert known is not None and known.facts == {"number": 3}
    assert torch.equal(known.tensors["value"], artefact(3).tensors["value"])
    assert again.token() == store.token() and len(store.token()) > 20
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0


def test_memory_and_disk_are_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path, memory=20_000, disk=20_000)
    for number in range(40):
        store.put(digest(number), artefact(number))
    assert store.held <= 20_000
    assert sum(file.stat().st_size for file in (tmp_path / "answers").iterdir()) <= 20_000 + 5000
    assert store.get(digest(39)) is not None
    assert store.get(digest(0)) is None


def test_a_damaged_answer_is_as_good_as_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put("b" * 64, artefact(1))
    (tmp_path / "answers" / ("b" * 64)).write_bytes(b"not a tensor file")
    assert Store(tmp_path).get("b" * 64) is None


def test_inputs_are_named_by_their_bytes_and_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path, uploads=100)
    sha = store.keep_input(b"one", {"name": "a"})
    assert store.keep_input(b"one", {"name": "b"}) == sha  # the same bytes keep their first name
    assert store.input_records()[sha] == {"name": "a"}
    with pytest.raises(StoreError):
        store.keep_input(b"x" * 200, {"name": "c"})
