"""Directions from files: plain safetensors, and sparse autoencoders as SAELens writes them.

``probe.safetensors`` names every row of the file's one matrix (K, C), ``probe.safetensors:3`` its row 3, and
``probe.safetensors:weight:0-2`` rows of the tensor ``weight``. A file (or a SAELens folder) with ``W_enc`` (C, K) and
``W_dec`` (K, C) is a sparse autoencoder: row 3 is then latent 3 by its *encoder* direction, since a query asks what the
model registered, and a latent's activation is read off along the encoder. The decoder direction is what the latent
writes; read along it, every latent that is not orthogonal to it counts too. ``sae/:W_dec:3`` asks for it all the same.

Only safetensors are read: they hold numbers and nothing that could run. Sizes are bounded; rows are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.inversion.directions import Directions

SUFFIX = ".safetensors"
SAE_FILE, ENCODER, DECODER = "sae_weights.safetensors", "W_enc", "W_dec"
MOST_ROWS, WIDEST = 1 << 14, 1 << 20
"""Rows of one query, and numbers in a row."""


def read_directions(path: str, tensor: str | None = None, rows: tuple[int, ...] | None = None) -> Directions:
    """Some rows of a file, or all; ``tensor`` is only needed where the file holds several."""
    source = f"{path}:{tensor}" if tensor else path
    try:
        with safe_open(_file(path), framework="pt") as file:
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118 (not a mapping)
            name = tensor or _matrix(shapes, path)
            if name not in shapes:
                raise QueryError(f"a tensor of {path}", repr(name), f"It holds {_listed(shapes)}.")
            return Directions(_read(file.get_slice(name), name == ENCODER, rows, source), source, rows)
    except (OSError, SafetensorError, ValueError, RuntimeError, IndexError) as error:
        if isinstance(error, QueryError):
            raise
        raise QueryError(
            f"directions in a readable {SUFFIX} file",
            f"{path}: {type(error).__name__}: {str(error)[:200]}",
            "Write one with safetensors.torch.save_file({'directions': W}, path).",
        ) from error


def _file(path: str) -> Path:
    file = Path(path)
    if file.is_dir():
        file = file / SAE_FILE
    if file.suffix != SUFFIX or not file.is_file():
        raise QueryError(
            f"the path of a {SUFFIX} file, or of a SAELens folder with a {SAE_FILE}",
            repr(path),
            "Pickled files are not read: save the matrix with safetensors.torch.save_file.",
        )
    return file


def _matrix(shapes: Mapping[str, Sequence[int]], path: str) -> str:
    """The tensor that is meant where none is named."""
    if ENCODER in shapes and DECODER in shapes:
        return ENCODER
    flat = [name for name, shape in shapes.items() if len(shape) == 2] or list(shapes)
    if "directions" in shapes or len(flat) == 1:
        return "directions" if "directions" in shapes else flat[0]
    raise QueryError(
        "a file with one matrix (K, C)", f"{path} with {_listed(shapes)}", f"Name one of them: {path}:TENSOR:ROWS."
    )


def _read(part, transposed: bool, rows: tuple[int, ...] | None, source: str) -> Tensor:  # type: ignore[no-untyped-def]
    """(K, C) rows of a tensor in a file, without reading the others."""
    shape = part.get_shape()
    if len(shape) == 1:
        shape, part = [1, *shape], _Single(part)
    if len(shape) != 2:
        raise QueryError("a matrix (K, C)", f"{source} of shape {tuple(shape)}", "One row per direction.")
    count, width = reversed(shape) if transposed else shape
    chosen = range(count) if rows is None else rows
    wrong = [row for row in chosen if not 0 <= row < count]
    if wrong or not len(chosen) or len(chosen) > MOST_ROWS or width > WIDEST:
        raise QueryError(
            f"at most {MOST_ROWS} rows between 0 and {count - 1}, each of at most {WIDEST} numbers",
            f"{source}: {f'row {wrong[0]}' if wrong else f'{len(chosen)} rows of {width}'}",
            "Name rows after the colon, as in probe.safetensors:3.",
        )
    if rows is None:
        whole = part[:, :]
        return whole.mT if transposed else whole
    return torch.stack([part[:, row] if transposed else part[row, :] for row in rows])


class _Single:
    """A vector of a file, read as a matrix of one row."""

    def __init__(self, part) -> None:  # type: ignore[no-untyped-def]
        self._part = part

    def __getitem__(self, key: tuple) -> Tensor:
        whole = self._part[:]
        return whole if isinstance(key[0], int) else whole.unsqueeze(0)


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:10]) + (" ..." if len(ordered) > 10 else "")
