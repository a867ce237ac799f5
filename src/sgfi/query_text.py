"""Queries as text: ``<node>[:<channels>][@<coords>]``, the one syntax of command line, figures and
docs.

====================================  ==========================================================
``layer3.1.add``                      the whole tensor
``layer3.1.add:17``                   channel 17
``layer3.1.add:0-7,12``               channels 0 to 7 (both ends) and 12
``layer3.1.add:17@2,3``               channel 17 at the cell in row 2, column 3
``layer3.1.add@2,3;4,5``              every channel at two cells
``encoder.layers.encoder_layer_8@12`` token 12
``:17``                               channel 17 of the family's own target
====================================  ==========================================================

Laws: ``parse_query(str(q)) == q`` for every query, and text that parses is brought to one normal
form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sgfi.errors import QueryError

SYNTAX = "<node>[:<channels>][@<coords>], such as layer3.1.add:0-7,12@2,3;4,5"

Coordinate = tuple[int, ...]


@dataclass(frozen=True)
class TextQuery:
    """A query that can be written down. ``None`` means all channels, all coordinates, the family's
    own target."""

    target: str | None = None
    channels: tuple[int, ...] | None = None
    coords: tuple[Coordinate, ...] | None = None

    def __str__(self) -> str:
        channels = "" if self.channels is None else ":" + format_channels(self.channels)
        coords = "" if self.coords is None else "@" + format_coords(self.coords)
        return f"{self.target or ''}{channels}{coords}"


def parse_query(text: str) -> TextQuery:
    """Text -> query. Only the form is checked here; the family knows which channels exist."""
    rest, at, coords = text.strip().partition("@")
    node, colon, channels = rest.partition(":")
    if "@" in coords or ":" in coords or ":" in channels or not (node or colon or at) or " " in node.strip():
        raise _malformed(text)
    try:
        return TextQuery(
            node.strip() or None,
            _parse_channels(channels) if colon else None,
            _parse_coords(coords) if at else None,
        )
    except ValueError as error:
        raise _malformed(text, str(error)) from error


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


def _parse_channels(text: str) -> tuple[int, ...]:
    channels: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low = _number(first)
        high = _number(last) if dash else low
        if high < low:
            raise ValueError(f"range {part.strip()!r} runs backwards")
        channels.extend(range(low, high + 1))
    return tuple(channels)


def _parse_coords(text: str) -> tuple[Coordinate, ...]:
    coords = tuple(tuple(_number(axis) for axis in cell.split(",")) for cell in text.split(";"))
    if len({len(coord) for coord in coords}) != 1:
        raise ValueError("the coordinates have different numbers of axes")
    return coords


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"{text.strip()!r} is not a number from 0 up")
    return int(text)


def _malformed(text: str, why: str = "") -> QueryError:
    return QueryError(f"a query {SYNTAX}", f"{text!r}{f' ({why})' if why else ''}", "Mend the text.")
