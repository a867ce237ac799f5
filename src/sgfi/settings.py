"""Settings that are declared in files: unknown keys are errors that name the nearest known one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sgfi.errors import DataError, closest

Kind = TypeVar("Kind", bound="Declared")


def check_keys(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Every key of ``given`` must be among ``known``."""
    names = list(known)
    for key in given:
        if key not in names:
            raise DataError(f"{where} among {names}", repr(key), closest(key, names) or "Remove it.")


def read_declared(path: str | Path) -> dict[str, Any]:
    """The JSON object a file holds."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError("a JSON file of settings", f"{path}: {error}", "Check the file.") from error
    if not isinstance(found, dict):
        raise DataError("a JSON object of settings", type(found).__name__, "Write {...}.")
    return found


class Declared:
    """A frozen dataclass of settings."""

    @classmethod
    def from_dict(cls: type[Kind], given: Mapping[str, Any]) -> Kind:
        """From JSON, whose lists become tuples."""
        check_keys(given, [one.name for one in fields(cls)], "settings")  # type: ignore[arg-type]
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
