"""Settings read from JSON: an unknown key is an error that suggests the most similar known one."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sgfi.errors import DataError, SgfiError, did_you_mean

Self = TypeVar("Self", bound="JsonSettings")


def check_keys(given: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Every key of ``given`` must be among ``known``."""
    names = list(known)
    if not isinstance(given, Mapping):
        raise DataError(f"{where} as a mapping with {names}", repr(given), "Write {...}.")
    for key in given:
        if key not in names:
            raise DataError(f"{where} among {names}", repr(key), did_you_mean(key, names) or "Remove it.")


UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def as_bytes(size: int | str, error: type[SgfiError] = SgfiError) -> int:
    """``"4GiB"`` or a number of bytes, as a number of bytes; anything else is an ``error``."""
    if isinstance(size, int) and not isinstance(size, bool) and size > 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if not match or match[2].upper() not in UNITS or float(match[1]) <= 0:
        todo = "Write it in this form."
        raise error('a positive size such as "4GiB" or a number of bytes', repr(size), todo)
    return int(float(match[1]) * UNITS[match[2].upper()])


def readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


LONGEST = 16 << 20
"""Bytes of a file of settings."""


def read_bounded(path: str | Path, most: int) -> bytes:
    """A regular file of at most ``most`` bytes; ``OSError`` for more, and for a pipe or device, which may never end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most} bytes", str(path))
    return data


def read_settings(path: str | Path) -> dict[str, Any]:
    """The JSON object a file holds."""
    try:
        settings = json.loads(read_bounded(path, LONGEST))
    except (OSError, ValueError, RecursionError, TypeError) as error:
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
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
        hints = get_type_hints(cls)
        for key, value in values.items():
            if not _has_type(value, hints[key]):
                raise DataError(f"{key} of type {hints[key]}", repr(given[key]), "Correct the settings.")
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)  # type: ignore[call-overload]


FOLDERS = ("SGFI_ASSETS",)
"""Environment variables that name folders; files inside are recorded as ``$NAME/...``."""


def portable(text: str) -> str:
    """A path, or ``option=path``, without the folders of a machine; any other text as it is.

    A path inside the folder that one of ``FOLDERS`` names becomes ``$NAME/...``, any other absolute path its last part.
    """
    option, equals, value = text.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={portable(value)}"
    if not text.startswith("/"):
        return text
    for name in FOLDERS:
        folder = os.environ.get(name, "").rstrip("/")
        if folder and (text == folder or text.startswith(f"{folder}/")):
            return f"${name}{text.removeprefix(folder)}"
    return Path(text).name


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is what a field is declared as."""
    parts = get_args(hint)
    if hint is Any:
        return True
    if get_origin(hint) in (Union, UnionType):
        return any(_has_type(value, part) for part in parts)
    if get_origin(hint) is tuple:
        own = parts[:1] * len(value) if isinstance(value, tuple) and parts[-1] is ... else parts
        return (
            isinstance(value, tuple)
            and len(value) == len(own)
            and all(_has_type(item, part) for item, part in zip(value, own, strict=True))
        )
    if hint in (int, float):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    return isinstance(value, get_origin(hint) or hint)
