"""Directions in files: plain, SAELens' format, text, hostile files."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sgfi.errors import QueryError
from sgfi.graph import Node
from sgfi.inversion import Query
from sgfi.inversion.directions import Directions, Margin


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of directions in the working folder."""
    torch.manual_seed(0)
    plain, encoder, decoder = torch.randn(4, 5), torch.randn(5, 7), torch.randn(7, 5)
    save_file({"w": plain}, tmp_path / "probe.safetensors")
    save_file({"w": plain, "other": 2 * plain, "bias": torch.ones(4)}, tmp_path / "two.safetensors")
    save_file({"directions": plain.half(), "other": plain}, tmp_path / "named.safetensors")
    save_file({"steer": plain[1]}, tmp_path / "vector.safetensors")
    (tmp_path / "sae").mkdir()
    biases = {"b_enc": torch.zeros(7), "b_dec": torch.zeros(5)}
    save_file({"W_enc": encoder, "W_dec": decoder, **biases}, tmp_path / "sae" / "sae_weights.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(text: str) -> torch.Tensor:
    """What a query asks for, up to the scale of each row."""
    directions = Query.parse(text).directions
    assert isinstance(directions, Directions)
    return directions.rows


def same(text: str, expected: torch.Tensor) -> None:
    expected = expected.double()
    torch.testing.assert_close(rows(text), expected / expected.abs().amax(1, keepdim=True))


def test_rows_of_plain_files(folder: Path) -> None:
    torch.manual_seed(0)
    plain = torch.randn(4, 5)
    same("a%probe.safetensors", plain)
    same("a%probe.safetensors:3", plain[3:])
    same("a%probe.safetensors:2,0-1@2,3", plain[[2, 0, 1]])
    same("a%two.safetensors:w:1", plain[1:2])
    same("a%two.safetensors:other", plain)
    same("a%named.safetensors", plain.half())
    same("a%vector.safetensors", plain[1:2])
    same(f"a%{folder}/probe.safetensors:0", plain[:1])


def test_sparse_autoencoders_are_read_by_their_encoder(folder: Path) -> None:
    torch.manual_seed(0)
    _, encoder, decoder = torch.randn(4, 5), torch.randn(5, 7), torch.randn(7, 5)
    for path in ("sae", "sae/", "sae/sae_weights.safetensors"):
        same(f"a%{path}:6,2", encoder.mT[[6, 2]])
        same(f"a%{path}:W_dec:6", decoder[6:])
    same("a%sae:W_enc:0@5", encoder.mT[:1])


@pytest.mark.parametrize(
    "text",
    ["a%probe.safetensors:3", "a%probe.safetensors@2,3", "%two.safetensors:w:0-2@5", "a%sae:1", "a%margin:3,4@1,2"],
)
def test_text_and_query_say_the_same(folder: Path, text: str) -> None:
    query = Query.parse(text)
    assert str(query) == text and Query.parse(str(query)) == query


def test_margins_and_outputs() -> None:
    assert Query.parse("margin:207,208") == Query("logits", directions=Margin(207, 208))
    assert str(Query.parse("margin:207,208@11")) == "margin:207,208@11"
    assert Query.parse("logits:207") == Query("logits", 207)
    for text in ("margin:1", "margin:1,2,3", "a%margin:1", "a%margin"):
        with pytest.raises(QueryError, match="<node>"):
            Query.parse(text)
    with pytest.raises(QueryError, match="twice"):
        Query.parse("margin:2,2")


@pytest.mark.parametrize(
    "text", ["a%", "a%probe.safetensors:", "a%probe.safetensors:w:x:1", "a%probe.safetensorsx", "a b%p"]
)
def test_malformed_text_shows_the_syntax(folder: Path, text: str) -> None:
    with pytest.raises(QueryError):
        Query.parse(text)


def test_rows_and_tensors_outside_the_file_are_named(folder: Path) -> None:
    for text, words in [
        ("a%probe.safetensors:4", "row 4"),
        ("a%probe.safetensors:0,0", "independent"),
        ("a%two.safetensors", "bias, other, w"),
        ("a%two.safetensors:v:0", "bias, other, w"),
        ("a%missing.safetensors:0", "missing"),
        ("a%.", "SAELens"),
    ]:
        with pytest.raises(QueryError, match=words):
            Query.parse(text).selection(Node("a", (None, 5), "linear", "", 1, ()))


class Bomb:
    """Runs when it is unpickled."""

    def __reduce__(self):  # type: ignore[no-untyped-def]
        return (pytest.fail, ("a stranger's file was executed",))


def test_hostile_files_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bomb.pt", "bomb.safetensors"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    (folder / "huge.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    head = b'{"w":{"dtype":"F32","shape":[9,5],"data_offsets":[0,180]}}'
    (folder / "short.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b"\0" * 8)
    save_file({"w": torch.full((2, 5), torch.nan)}, folder / "nan.safetensors")
    save_file({"w": torch.zeros(0, 5)}, folder / "empty.safetensors")
    save_file({"w": torch.ones(2, 2, 2, 2)}, folder / "deep.safetensors")
    save_file({"w": torch.ones(2, 5, dtype=torch.bool)}, folder / "bool.safetensors")
    for name in ("bomb.pt", "bomb", "huge", "short", "nan", "empty", "deep", "bool"):
        with pytest.raises(QueryError):
            Query.parse(f"a%{name if '.' in name else name + '.safetensors'}")
    monkeypatch.setattr("sgfi.inversion.direction_files.MOST_ROWS", 3)
    with pytest.raises(QueryError, match="at most 3 rows"):
        Query.parse("a%probe.safetensors")
