"""Settings that can be read from a declarative file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from sgfi.errors import DataError, closest

Kind = TypeVar("Kind", bound="Declared")


class Declared:
    """A frozen dataclass of settings."""

    @classmethod
    def from_dict(cls: type[Kind], given: Mapping[str, Any]) -> Kind:
        """From JSON; an unknown key is an error that names the nearest known one."""
        known = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        for key in given:
            if key not in known:
                raise DataError(f"settings among {known}", repr(key), closest(key, known) or "Remove it.")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
