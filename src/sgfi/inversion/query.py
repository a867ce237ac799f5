"""What is asked of an input, as an object and as text.

The text form is ``<node>[:<channels>][@<coords>]``, the one syntax of command line, figures and docs; directions in
place of channels are named as ``%<file>[:<tensor>][:<rows>]`` (:mod:`sgfi.inversion.direction_files`).

====================================  ==========================================================
``layer3.1.add``                      the whole tensor
``layer3.1.add:17``                   channel 17
``layer3.1.add:0-7,12``               channels 0 to 7 (both ends) and 12
``layer3.1.add:17@2,3``               channel 17 at the cell in row 2, column 3
``layer3.1.add@2,3;4,5``              every channel at two cells
``encoder.layers.encoder_layer_8@12`` token 12
``blocks.3.attn.softmax:1@0,*``       attention head 1, from token 0 to every token
``:17``                               channel 17 of the estimator's own target
``layer3.1.add%probe.safetensors:3``  the direction in row 3 of a file
``encoder.ln%sae/:12@5``              latent 12 of a sparse autoencoder, at token 5
``logits:207``                        output 207 of the model
``margin:207,208``                    output 207 against output 208
``blocks.2:5 + blocks.8@12``          two tensors at once
====================================  ==========================================================

Laws: ``Query.parse(str(q)) == q`` for every query whose directions, if any, come from a file, and text that parses is
brought to one normal form.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt, prod
from typing import Any

import torch
from torch import Tensor

from sgfi.errors import QueryError
from sgfi.graph import Node, TensorGraph
from sgfi.inversion.direction_files import SUFFIX, read_directions
from sgfi.inversion.directions import Directions, Margin, format_channels, one_hot
from sgfi.inversion.selection import Selection, along_channels

SYNTAX = (
    "<node>[:<channels>][@<coords>], such as layer3.1.add:0-7,12@2,3;4,5, "
    "or <node>%<file>[:<tensor>][:<rows>][@<coords>]"
)
PLUS = " + "
LOGITS, MARGIN = "logits", "margin"
"""The model's output, and the word for one channel of it against another."""
LONGEST = 1 << 17
"""Channels that one text may name: a range is written out before the tensor's own width is known."""
Coord = int | tuple[int | None, ...]
"""``None`` stands for every place along its axis."""


@dataclass(frozen=True, init=False)
class Query:
    """A target tensor, a channel set S and a coordinate set Q. ``None`` means all, or the estimator's own target.

    Instead of channels, ``directions`` in channel space: rows ``(K, C)``, or ``(n, K, C)`` with one set for each of the
    n coordinates in their order; the query asks about their span. Lists, arrays and single integers are brought to
    tuples; whether the target has them is checked when it is known (:meth:`selection`).
    """

    target: str | None
    channels: tuple[int, ...] | None
    coords: tuple[tuple[int | None, ...], ...] | None
    directions: Directions | Margin | None
    also: tuple[Query, ...]
    """Further tensors that are asked about together with this one: a group, made with ``query + query``."""

    def __init__(
        self,
        target: str | None = None,
        channels: Sequence[int] | int | None = None,
        coords: Sequence[Coord] | None = None,
        directions: Any = None,
    ) -> None:
        if directions is not None and channels is not None:
            raise QueryError("channels or directions", "both", "A channel is the direction of a one-hot row.")
        if directions is not None and not isinstance(directions, (Directions, Margin)):
            directions = Directions(directions)
        channels, coords = _plain(channels), _plain(coords)
        if isinstance(coords, tuple):
            coords = tuple(coord if isinstance(coord, tuple) else (coord,) for coord in coords)
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "channels", (channels,) if isinstance(channels, int) else channels)
        object.__setattr__(self, "coords", coords)
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "also", ())

    def __add__(self, other: Query) -> Query:
        """One question about several tensors, for estimators that answer it jointly."""
        return self._grouped((*self.also, *other.parts)) if isinstance(other, Query) else NotImplemented

    def _grouped(self, also: tuple[Query, ...]) -> Query:
        group = Query(self.target, self.channels, self.coords, self.directions)
        object.__setattr__(group, "also", also)
        return group

    @property
    def parts(self) -> tuple[Query, ...]:
        """The questions of a group, each about one tensor; of any other query, itself."""
        return (self._grouped(()), *self.also) if self.also else (self,)

    @classmethod
    def parse(cls, text: str) -> Query:
        """Text -> query. Only the form is checked here; a file of directions is read."""
        if not isinstance(text, str):
            raise QueryError(f"a query {SYNTAX}", type(text).__name__, "Write it as text, or use sgfi.Query(...).")
        if PLUS in text:
            first, *others = (cls.parse(part) for part in text.split(PLUS))
            return sum(others, first)
        node, percent, named = text.strip().partition("%")
        if percent:
            return cls._with_directions(text, node.strip(), named)
        rest, at, coords = text.strip().partition("@")
        node, colon, channels = rest.partition(":")
        if "@" in coords or ":" in coords or ":" in channels or not (node or colon or at) or " " in node.strip():
            raise _malformed(text)
        try:
            places = _parse_coords(coords) if at else None
            if node.strip() == MARGIN and colon:
                return cls(LOGITS, None, places, _parse_margin(channels))
            return cls(node.strip() or None, _parse_channels(channels) if colon else None, places)
        except ValueError as error:
            raise _malformed(text, str(error)) from error

    @classmethod
    def _with_directions(cls, text: str, node: str, named: str) -> Query:
        """What follows the percent sign: ``<file>[:<tensor>][:<rows>][@<coords>]`` or ``margin:<a>,<b>[@<coords>]``."""
        end = named.rfind(SUFFIX) + len(SUFFIX) if SUFFIX in named else len(re.split("[:@]", named)[0])
        file, (rest, at, coords) = named[:end].strip(), named[end:].partition("@")
        _, *fields = rest.split(":")
        if not file or " " in node or not (rest == "" or rest.startswith(":")) or len(fields) > 2:
            raise _malformed(text)
        try:
            places = _parse_coords(coords) if at else None
            if file == MARGIN:
                return cls(node or None, None, places, _parse_margin(":".join(fields)))
            rows = _parse_channels(fields.pop()) if fields and re.fullmatch(r"[\d,\- ]+", fields[-1]) else None
        except ValueError as error:
            raise _malformed(text, str(error)) from error
        if len(fields) > 1 or (fields and not fields[0].strip()):
            raise _malformed(text)
        return cls(node or None, None, places, read_directions(file, fields[0] if fields else None, rows))

    def __str__(self) -> str:
        if self.also:
            return PLUS.join(map(str, self.parts))
        channels = "" if self.channels is None else ":" + format_channels(self.channels)
        channels = channels if self.directions is None else f"%{self.directions}"
        coords = "" if self.coords is None else "@" + format_coords(self.coords)
        if self.target == LOGITS and isinstance(self.directions, Margin):
            return f"{self.directions}{coords}"
        return f"{self.target or ''}{channels}{coords}"

    def toward(self, target: str) -> Query:
        """The same question with its target named."""
        return self.at(target, self.coords)._grouped(self.also)

    def at(self, target: str | None, coords: Sequence[Coord] | None) -> Query:
        """The same channels or directions at other coordinates, or of another target."""
        return Query(target, self.channels, coords, self.directions)

    def selection(self, node: Node, device: torch.device | str = "cpu") -> Selection:
        """The shape-preserving projector P at a target."""
        self._check_single()
        axis = node.channel_axis or 1
        if self.directions is None:
            return Selection(self.mask(node, device), axis)
        coords = self.checked_coords(node)
        places = torch.arange(max(1, prod(node.coord_shape))).reshape(node.coord_shape)
        positions = places.flatten() if coords is None else torch.stack([places[coord] for coord in coords])
        basis = self.directions.basis(node, len(positions))
        channels = one_hot(basis)
        if channels is not None:  # the fast special case, and exactly the same
            return Selection(Query(self.target, channels, self.coords).mask(node, device), axis)
        return Selection(self.mask(node, device), axis, basis.to(device), positions.to(device))

    def mask(self, node: Node, device: torch.device | str = "cpu") -> Tensor:
        """The numbers that are read, as a boolean tensor of the node's shape (no batch): P_{S,Q} without directions."""
        self._check_single()
        shape = [int(size) for size in node.shape[1:]]  # type: ignore[arg-type]
        selected = torch.ones(shape, dtype=torch.bool, device=device)
        channels, coords = self.checked_channels(node), self.checked_coords(node)
        if channels is not None:
            keep = torch.zeros(node.channels, dtype=torch.bool, device=device)
            keep[channels] = True
            selected &= along_channels(keep, node.channel_axis, len(node.shape))[0]
        if coords is not None:
            keep = torch.zeros(node.coord_shape, dtype=torch.bool, device=device)
            for coord in coords:
                keep[coord] = True
            selected &= keep.unsqueeze((node.channel_axis or 1) - 1)
        return selected

    def _check_single(self) -> None:
        if self.also:
            raise QueryError(
                "a query about one tensor",
                f"{self}, a group of {len(self.parts)}",
                "Ask about each of its parts alone; a natural inverse, sgfi.natural(graph), answers groups.",
            )

    def size(self, node: Node) -> int:
        """|S|, the number of selected channels or directions."""
        if self.directions is not None:
            return len(self.directions)
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
        if not isinstance(self.coords, tuple) or not all(map(_places, self.coords)):
            todo = "Give a list of tuples of integers (or of integers where there is one axis)."
            raise QueryError(expected, repr(self.coords), todo)
        coords = _distinct(tuple(at for coord in self.coords for at in _written_out(coord, sizes)), expected)
        wrong = [
            coord
            for coord in coords
            if len(coord) != len(sizes) or not all(0 <= at < size for at, size in zip(coord, sizes, strict=True))
        ]
        if wrong:
            zeros = ", ".join(["0"] * len(sizes))
            form = f"[{zeros}]" if len(sizes) == 1 else f"[({zeros})]"
            todo = f"Each takes {len(sizes)} number(s), as in coords={form}; leave them out for all."
            side = patch_side(sizes)
            if side and len(wrong[0]) == 2:
                todo += f" In a grid of {side}x{side} patches after a class token, token 1 + {side} * row + column."
            raise QueryError(expected, str(wrong[:5]), todo)
        return coords


def patch_side(sizes: Sequence[int]) -> int:
    """Of tokens (1 + n * n,), which may be a class token and a grid of patches: n. Else, or of fewer than 4, zero."""
    side = isqrt(max(0, sizes[0] - 1)) if len(sizes) == 1 else 0
    return side if side >= 2 and side * side + 1 == sizes[0] else 0


def format_coords(coords: Iterable[Sequence[int | None]]) -> str:
    """``2,3;4,5``, with ``*`` for every place along an axis."""
    return ";".join(",".join("*" if at is None else str(at) for at in coord) for coord in coords)


def _plain(given: Any) -> Any:
    """Lists, arrays and tensors as tuples of Python numbers, all the way down; anything else as it is."""
    if isinstance(given, Tensor) and (given.layout != torch.strided or given.is_meta):
        return given  # has no numbers to read; refused where the target is known
    given = given.tolist() if callable(getattr(given, "tolist", None)) and not isinstance(given, type) else given
    if isinstance(given, Collection) and not isinstance(given, (str, bytes, Mapping)):
        return tuple(map(_plain, given))
    return given


def _integers(entries: Any) -> bool:
    return isinstance(entries, tuple) and all(isinstance(at, int) and not isinstance(at, bool) for at in entries)


def _places(coord: Any) -> bool:
    return isinstance(coord, tuple) and _integers(tuple(at for at in coord if at is not None))


def _written_out(coord: tuple[int | None, ...], sizes: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """A coordinate, or all that a ``*`` in it stands for."""
    if None not in coord or len(coord) != len(sizes):
        return [tuple(-1 if at is None else at for at in coord)]
    return product(*(range(size) if at is None else (at,) for at, size in zip(coord, sizes, strict=True)))


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


def _parse_margin(text: str) -> Margin:
    channels = _parse_channels(text)
    if len(channels) != 2:
        raise ValueError("a margin is between two channels")
    return Margin(*channels)


def _parse_coords(text: str) -> tuple[tuple[int | None, ...], ...]:
    cells = [[axis.strip() for axis in cell.split(",")] for cell in text.split(";")]
    coords = tuple(tuple(None if axis == "*" else _decimal(axis) for axis in cell) for cell in cells)
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


def checked_query(query: Any, graph: TensorGraph | None = None) -> Query:
    """A query, parsed where it is text, or an error that says how to write one. A tensor's name is no text to parse."""
    if isinstance(query, str):
        if not query.strip():
            todo = 'Name a tensor, or write a query as in "layer3.1.add:17".'
            raise QueryError("a query", "an empty text", todo)
        named = (graph is not None and query in graph.nodes) or not is_query_text(query)
        return Query(query) if named else Query.parse(query)
    if not isinstance(query, Query):
        todo = 'Write it as in "layer3.1.add:17", or build it with sgfi.Query(...).'
        raise QueryError("a query, as text or sgfi.Query", f"a {type(query).__name__}", todo)
    return query


def is_query_text(text: str) -> bool:
    """Whether a text says more than the name of a tensor."""
    return any(mark in text for mark in (":", "@", "%", PLUS))


def common_target(graph: TensorGraph, queries: Sequence[Query]) -> str:
    """The canonical name of the one target that all queries ask about; a group asks about several."""
    for query in queries:
        query._check_single()
    targets = {graph.nodes.canonical(query.target) for query in queries if query.target}
    if len(targets) != 1 or not all(query.target for query in queries):
        raise QueryError("queries that name one target", f"{len(targets)} targets", "Group them by target.")
    return targets.pop()
