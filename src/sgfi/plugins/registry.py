"""Entries by name: sgfi's own, and those of installed packages.

A package names what it adds in its metadata, under one of the groups ``sgfi.recipes``, ``sgfi.models``, ``sgfi.axes``,
``sgfi.derivatives`` and ``sgfi.measures``. Names are read from the metadata; a package is imported when one of its
entries is needed. Laws: sgfi's own entry is never replaced, of two plug-ins with one name neither is used, and a
plug-in that fails is named in a warning (an error where it was asked for) and leaves everything else as it is.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Generic, TypeVar

from sgfi.errors import PluginError, first_line

T = TypeVar("T")


class PluginWarning(UserWarning):
    """A plug-in is not used, and why."""


@dataclass(frozen=True)
class Plugin:
    """An entry that an installed package names in its metadata."""

    name: str
    module: str
    """Module and attribute, ``package.module:attribute``."""
    package: str
    """Name and version of what was installed."""
    problem: str = ""
    """Why it is not used; empty while nothing is wrong with it."""

    def __str__(self) -> str:
        return f"{self.name!r} of {self.package} ({self.module})"


class Registry(MutableMapping[str, T], Generic[T]):
    """Entries of one kind. sgfi's own come first, in the order of their registration.

    ``accept(name, given)`` turns what a plug-in's entry point leads to into an entry, or raises a ``TypeError`` that
    says what it must be. ``reserved`` gives further names that no plug-in may take.
    """

    def __init__(
        self, kind: str, group: str, accept: Callable[[str, Any], T], reserved: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.kind, self.group = kind, group
        self._accept, self._reserved = accept, reserved
        self._own: dict[str, T] = {}
        self._searched: list[str] | None = None
        """``sys.path`` when plug-ins were looked for."""
        self._entries: dict[str, metadata.EntryPoint] = {}
        self._refused: list[Plugin] = []
        self._loaded: dict[str, T] = {}
        self._broken: dict[str, PluginError] = {}
        self._warned: set[str] = set()

    def register(self, name: str, entry: T) -> None:
        """Add one of sgfi's own."""
        if name in self._own:
            raise ValueError(f"a second {self.kind} named {name!r}")
        self._own[name] = entry

    @property
    def own(self) -> tuple[str, ...]:
        """Names of sgfi's own."""
        return tuple(self._own)

    def __getitem__(self, name: str) -> T:
        """The entry; a plug-in is loaded, and one that cannot be is an error."""
        self._discover()
        if name in self._own:
            return self._own[name]
        if name in self._entries:
            return self._load(name)
        clash = next((plugin for plugin in self._refused if plugin.name == name), None)
        if clash is not None:
            raise PluginError(f"one {self.kind} named {name!r}", clash.problem, "Uninstall one of them.")
        raise KeyError(name)

    def usable(self, name: str) -> T | None:
        """The entry; ``None``, after a warning, for a plug-in that cannot be loaded or whose name is taken."""
        try:
            return self[name]
        except KeyError:
            return None
        except PluginError as error:
            self.warn(error)
            return None

    def warn(self, error: PluginError) -> None:
        """Say, once, that a plug-in is left out."""
        if str(error) not in self._warned:
            self._warned.add(str(error))
            warnings.warn(f"{error} It is left out.", PluginWarning, stacklevel=3)

    def plugin(self, name: str) -> Plugin | None:
        """Where an entry comes from; ``None`` for sgfi's own."""
        self._discover()
        return _described(self._entries[name]) if name in self._entries else None

    def plugins(self) -> list[Plugin]:
        """Every plug-in of this kind, loaded to see whether it can be."""
        self._discover()
        described = []
        for name, entry in self._entries.items():
            try:
                self._load(name)
                problem = ""
            except PluginError as error:
                problem = error.got
            described.append(_described(entry, problem))
        return sorted([*described, *self._refused], key=lambda plugin: (plugin.name, plugin.package))

    def versions(self) -> list[str]:
        """The plug-ins with their packages' versions, from the metadata alone."""
        self._discover()
        return sorted(str(_described(entry)) for entry in self._entries.values())

    def _load(self, name: str) -> T:
        if name in self._broken:
            raise self._broken[name]
        if name not in self._loaded:
            entry = self._entries[name]
            try:
                self._loaded[name] = self._accept(name, entry.load())
            except Exception as error:  # whatever the package does when it is imported
                self._broken[name] = PluginError(
                    f"the {self.kind} {_described(entry)} to load",
                    f"{type(error).__name__}: {first_line(error)}",
                    "Correct or uninstall that package.",
                )
                raise self._broken[name] from error
        return self._loaded[name]

    def _discover(self) -> None:
        """Read the metadata of installed packages: once, and again where ``sys.path`` has changed."""
        if self._searched == sys.path:
            return
        self._searched = list(sys.path)
        self._entries, self._refused, self._loaded, self._broken, self._warned = {}, [], {}, {}, set()
        by_name: dict[str, list[metadata.EntryPoint]] = {}
        for entry in metadata.entry_points(group=self.group):
            by_name.setdefault(entry.name, []).append(entry)
        for name, entries in by_name.items():
            problem = self._clash(name, entries)
            if problem:
                self._refused += [_described(entry, problem) for entry in entries]
                todo = "Rename it in the entry points of the package, or uninstall that."
                self.warn(PluginError(f"a free name for a plug-in's {self.kind}", problem, todo))
            else:
                self._entries[name] = entries[0]

    def _clash(self, name: str, entries: list[metadata.EntryPoint]) -> str:
        """Both holders of a name; empty where there is one."""
        holders = [str(_described(entry)) for entry in entries]
        if name in self._own or name in set(self._reserved()):
            return f"{' and '.join(holders)}, while sgfi has a {self.kind} {name!r} of its own"
        return " and ".join(holders) if len(entries) > 1 else ""

    def __setitem__(self, name: str, entry: T) -> None:
        self._own[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __contains__(self, name: object) -> bool:
        self._discover()
        return name in self._own or name in self._entries

    def __iter__(self) -> Iterator[str]:
        self._discover()
        return iter([*self._own, *self._entries])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _described(entry: metadata.EntryPoint, problem: str = "") -> Plugin:
    package = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without a name"
    return Plugin(entry.name, entry.value, package, problem)
