"""What is asked of an input, as an object, as text and as a mask.

The text form is ``<node>[:<channels>][@<coords>]``, the one syntax of command line, figures and docs.

====================================  ==========================================================
``layer3.1.add``                      the whole tensor
``layer3.1.add:17``                   channel 17
``layer3.1.add:0-7,12``               channels 0 to 7 (both ends) and 12
``layer3.1.add:17@2,3``               channel 17 at the cell in row 2, column 3
``layer3.1.add@2,3;4,5``              every channel at two cells
``encoder.layers.encoder_layer_8@12`` token 12
``:17``                               channel 17 of the estimator's own target
====================================  ==========================================================

Laws: ``Query.parse(str(q)) == q`` for every query, and text that parses is brought to one normal form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node

SYNTAX = "<node>[:<channels>][@<coords>], such as layer3.1.add:0-7,12@2,3;4,5"
LONGEST = 1 << 20
"""Channels that one text may name: a range is written out before the tensor's own width is known."""
Coord = int | tuple[int, ...]


@dataclass(frozen=True, init=False)
class Query:
    """A target tensor, a channel set S and a coordinate set Q. ``None`` means all, or the estimator's own target.

    Lists, arrays and single integers are brought to tuples; whether the target has them is checked when it is known
    (:meth:`mask`).
    """

    target: str | None
    channels: tuple[int, ...] | None
    coords: tuple[tuple[int, ...], ...] | None

    def __init__(
        self,
        target: str | None = None,
        channels: Sequence[int] | int | None = None,
        coords: Sequence[Coord] | None = None,
    ) -> None:
        channels, coords = _plain(channels), _plain(coords)
        if isinstance(coords, tuple):
            coords = tuple(coord if isinstance(coord, tuple) else (coord,) for coord in coords)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "channels", (channels,) if isinstance(channels, int) else channels)
        object.__setattr__(self, "coords", coords)

    @classmethod
    def parse(cls, text: str) -> Query:
        """Text -> query. Only the form is checked here."""
        rest, at, coords = text.strip().partition("@")
        node, colon, channels = rest.partition(":")
        if "@" in coords or ":" in coords or ":" in channels or not (node or colon or at) or " " in node.strip():
            raise _malformed(text)
        try:
            return cls(
                node.strip() or None,
                _parse_channels(channels) if colon else None,
                _parse_coords(coords) if at else None,
            )
        except ValueError as error:
            raise _malformed(text, str(error)) from error

    def __str__(self) -> str:
        channels = "" if self.channels is None else ":" + format_channels(self.channels)
        coords = "" if self.coords is None else "@" + format_coords(self.coords)
        return f"{self.target or ''}{channels}{coords}"

    def toward(self, target: str) -> Query:
        """The same question with its target named."""
        return Query(target, self.channels, self.coords)

    def mask(self, node: Node, device: torch.device | str = "cpu") -> Tensor:
        """The shape-preserving projector P_{S,Q} as a boolean tensor of the node's shape (no batch)."""
        shape = [int(size) for size in node.shape[1:]]  # type: ignore[arg-type]
        selected = torch.ones(shape, dtype=torch.bool, device=device)
        channels, coords = self.checked_channels(node), self.checked_coords(node)
        if channels is not None:
            keep = torch.zeros(node.channels, dtype=torch.bool, device=device)
            keep[channels] = True
            selected &= keep.reshape([-1 if axis == node.channel_axis else 1 for axis in range(1, len(node.shape))])
        if coords is not None:
            keep = torch.zeros(node.coord_shape, dtype=torch.bool, device=device)
            for coord in coords:
                keep[coord] = True
            selected &= keep.unsqueeze((node.channel_axis or 1) - 1)
        return selected

    def size(self, node: Node) -> int:
        """|S|, the number of selected channels."""
        return node.channels if self.channels is None else len(self.checked_channels(node) or ())

    def checked_channels(self, node: Node) -> list[int] | None:
        """The selected channels, all of which the node has."""
        if self.channels is None:
            return None
        expected = f"distinct channels of {node.name!r} between 0 and {node.channels - 1}"
        if not _integers(self.channels):
            raise QueryError(expected, repr(self.channels), "Give a list of integers.")
        channels: list[int] = _distinct(self.channels, expected)
        wrong = [channel for channel in channels if not 0 <= channel < node.channels]
        if wrong:
            todo = f"Channels run from 0 to {node.channels - 1}; leave them out for all."
            raise QueryError(expected, str(wrong[:5]), todo)
        return channels

    def checked_coords(self, node: Node) -> list[tuple[int, ...]] | None:
        """The selected coordinates, all of which lie inside the node."""
        if self.coords is None:
            return None
        sizes = node.coord_shape
        expected = f"distinct coordinates of {node.name!r} within {sizes}"
        if not isinstance(self.coords, tuple) or not all(map(_integers, self.coords)):
            todo = "Give a list of tuples of integers (or of integers where there is one axis)."
            raise QueryError(expected, repr(self.coords), todo)
        coords = _distinct(self.coords, expected)
        wrong = [
            coord
            for coord in coords
            if len(coord) != len(sizes) or not all(0 <= at < size for at, size in zip(coord, sizes, strict=True))
        ]
        if wrong:
            zeros = ", ".join(["0"] * len(sizes))
            form = f"[{zeros}]" if len(sizes) == 1 else f"[({zeros})]"
            todo = f"Each takes {len(sizes)} number(s), as in coords={form}; leave them out for all."
            raise QueryError(expected, str(wrong[:5]), todo)
        return coords


def format_channels(channels: Iterable[int]) -> str:
    """``0-7,12``: runs of three and more are written as ranges."""
    runs: list[list[int]] = []
    for channel in channels:
        if runs and channel == runs[-1][-1] + 1:
            runs[-1].append(channel)
        else:
            runs.append([channel])
    return ",".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ",".join(map(str, r)) for r in runs)


def format_coords(coords: Iterable[Sequence[int]]) -> str:
    """``2,3;4,5``"""
    return ";".join(",".join(map(str, coord)) for coord in coords)


def _plain(given: Any) -> Any:
    """Lists, arrays and tensors as tuples of Python numbers, all the way down; anything else as it is."""
    given = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(given, Collection) and not isinstance(given, (str, bytes, Mapping)):
        return tuple(map(_plain, given))
    return given


def _integers(entries: Any) -> bool:
    return isinstance(entries, tuple) and all(isinstance(at, int) and not isinstance(at, bool) for at in entries)


def _distinct(entries: tuple, expected: str) -> list:
    """At least one entry, none twice."""
    if not entries or len(set(entries)) < len(entries):
        got = f"repeated entries in {list(entries)[:20]}" if entries else "an empty list"
        raise QueryError(expected, got, "Name each once; leave them out for all.")
    return list(entries)


def _parse_channels(text: str) -> tuple[int, ...]:
    channels: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = _decimal(first)
        high = _decimal(last) if dash else low
        if high < low:
            raise ValueError(f"range {part.strip()!r} runs backwards")
        if len(channels) + high - low >= LONGEST:
            raise ValueError(f"more than {LONGEST} channels")
        channels.extend(range(low, high + 1))
    return tuple(channels)


def _parse_coords(text: str) -> tuple[tuple[int, ...], ...]:
    coords = tuple(tuple(_decimal(axis) for axis in cell.split(",")) for cell in text.split(";"))
    if len({len(coord) for coord in coords}) != 1:
        raise ValueError("the coordinates have different numbers of axes")
    return coords


def _decimal(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"{text.strip()!r} is not a number from 0 up")
    if len(text.strip()) > 18:
        raise ValueError("a number of more than 18 digits")
    return int(text)


def _malformed(text: str, why: str = "") -> QueryError:
    return QueryError(f"a query {SYNTAX}", f"{text[:200]!r}{f' ({why})' if why else ''}", "Write it in this form.")
