"""Settings read from JSON: an unknown key is an error that suggests the most similar known one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from sgfi.errors import DataError, did_you_mean

Self = TypeVar("Self", bound="JsonSettings")


def check_keys(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Every key of ``given`` must be among ``known``."""
    names = list(known)
    for key in given:
        if key not in names:
            raise DataError(f"{where} among {names}", repr(key), did_you_mean(key, names) or "Remove it.")


def read_settings(path: str | Path) -> dict[str, Any]:
    """The JSON object a file holds."""
    try:
        settings = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError("a JSON file of settings", f"{path}: {error}", "Check the file.") from error
    if not isinstance(settings, dict):
        raise DataError("a JSON object of settings", type(settings).__name__, "Write {...}.")
    return settings


class JsonSettings:
    """Base of the frozen dataclasses of settings."""

    @classmethod
    def from_dict(cls: type[Self], given: Mapping[str, Any]) -> Self:
        """From JSON, whose lists become tuples."""
        check_keys(given, [field.name for field in fields(cls)], "settings")  # type: ignore[arg-type]
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
