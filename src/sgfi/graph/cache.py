"""A bounded cache that threads may share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import TypeVar

Value = TypeVar("Value")


class Cache:
    """The ``most`` entries used last, each made once also where two threads ask for it at the same time."""

    def __init__(self, most: int = 2048) -> None:
        self.most = most
        self._entries: OrderedDict[Hashable, tuple[object, object]] = OrderedDict()
        self._lock = RLock()  # making one entry may ask for another

    def get(self, key: Hashable, make: Callable[[], Value], version: object = None) -> Value:
        """The entry, made where it is missing or was made for another version (of the weights, say)."""
        with self._lock:
            if key not in self._entries or self._entries[key][0] != version:
                self._entries[key] = version, make()
            self._entries.move_to_end(key)
            while len(self._entries) > self.most:
                self._entries.popitem(last=False)
            return self._entries[key][1]  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._entries)
