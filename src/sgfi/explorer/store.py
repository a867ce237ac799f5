"""What the explorer keeps on disk: answers by the digest of their question, inputs by the digest of their bytes.

A link is a question, so it answers again after a restart: at once from here, or by working it out again.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from sgfi.errors import StoreError

MEMORY, DISK, UPLOADS = 256 * 2**20, 2 * 2**30, 512 * 2**20
"""Bytes: answers in memory, answers on disk, inputs on disk."""


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/sgfi/explorer``, by default below ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sgfi" / "explorer"


def digest(record: Any) -> str:
    """SHA-256 of a JSON-able record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Artefact:
    """One answer: tensors, and JSON-able facts about them."""

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """In memory, about."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values()) + 1024

    def packed(self) -> bytes:
        """As a safetensors file with the facts in its header."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        return save(tensors, {"facts": json.dumps(dict(self.facts))})


class Store:
    """A folder, and the most recently used answers in memory."""

    def __init__(self, folder: Path, memory: int = MEMORY, disk: int = DISK, uploads: int = UPLOADS) -> None:
        self.folder, self.memory, self.disk, self.uploads = folder, memory, disk, uploads
        for name in ("answers", "inputs", "lenses"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        self._recent: OrderedDict[str, Artefact] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self._on_disk = sum(file.stat().st_size for file in (folder / "answers").iterdir())

    @property
    def held(self) -> int:
        """Bytes of answers in memory."""
        return self._held

    def token(self) -> str:
        """The secret of this folder's links: the same after a restart."""
        file = self.folder / "token"
        if not file.is_file():
            self._write(file, secrets.token_urlsafe(24).encode())
        return file.read_text().strip()

    # ---------------------------------------------------------------- answers

    def get(self, key: str) -> Artefact | None:
        with self._lock:
            known = self._recent.get(key)
            if known is not None:
                self._recent.move_to_end(key)
                return known
        known = self._read(self.folder / "answers" / key)
        if known is not None:
            self._hold(key, known)
        return known

    def put(self, key: str, answer: Artefact) -> None:
        self._hold(key, answer)
        data = answer.packed()
        self._write(self.folder / "answers" / key, data)
        self._on_disk += len(data)
        if self._on_disk > self.disk:
            self._forget_oldest()

    def _hold(self, key: str, answer: Artefact) -> None:
        with self._lock:
            if key in self._recent:
                return
            self._recent[key] = answer
            self._held += answer.size
            while self._held > self.memory and len(self._recent) > 1:
                _, gone = self._recent.popitem(last=False)
                self._held -= gone.size

    def _forget_oldest(self) -> None:
        """Down to three quarters of what may be kept."""
        entries = []
        for file in (self.folder / "answers").iterdir():
            status = file.stat()
            entries.append((status.st_mtime, status.st_size, file))
        self._on_disk = sum(size for _, size, _ in entries)
        for _, size, file in sorted(entries, key=lambda entry: entry[0]):
            if self._on_disk <= 0.75 * self.disk:
                break
            file.unlink(missing_ok=True)
            self._on_disk -= size

    @staticmethod
    def _read(file: Path) -> Artefact | None:
        """A damaged file is as good as none: the answer is worked out again."""
        if not file.is_file():
            return None
        try:
            with safe_open(file, "pt") as opened:
                tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
                return Artefact(tensors, json.loads((opened.metadata() or {})["facts"]))
        except (SafetensorError, KeyError, ValueError, OSError):
            file.unlink(missing_ok=True)
            return None

    # ---------------------------------------------------------------- inputs and lenses

    def keep_input(self, data: bytes, record: Mapping[str, Any]) -> str:
        """Write an input under the digest of its bytes and return it."""
        sha, folder = hashlib.sha256(data).hexdigest(), self.folder / "inputs"
        file = folder / f"{sha}{record.get('suffix', '')}"
        if not file.is_file():
            used = sum(file.stat().st_size for file in folder.iterdir())
            if used + len(data) > self.uploads:
                raise StoreError(
                    f"at most {self.uploads >> 20} MiB of inputs", f"{(used + len(data)) >> 20} MiB", f"Empty {folder}."
                )
            self._write(file, data)
        if not (folder / f"{sha}.json").is_file():
            self._write(folder / f"{sha}.json", json.dumps(dict(record)).encode())
        return sha

    def input_file(self, sha: str, record: Mapping[str, Any]) -> Path:
        return self.folder / "inputs" / f"{sha}{record.get('suffix', '')}"

    def input_records(self) -> dict[str, dict[str, Any]]:
        """Digest -> record, oldest first."""
        files = sorted((self.folder / "inputs").glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        return {file.stem: json.loads(file.read_text()) for file in files}

    def keep_lens(self, name: str, record: Mapping[str, Any]) -> None:
        """How a lens was opened on this computer, for ``sgfi export``."""
        self._write(self.folder / "lenses" / f"{name}.json", json.dumps(dict(record)).encode())

    def lens_record(self, name: str) -> dict[str, Any] | None:
        file = self.folder / "lenses" / f"{name}.json"
        return json.loads(file.read_text()) if name.isalnum() and file.is_file() else None

    @staticmethod
    def _write(file: Path, data: bytes) -> None:
        """All or nothing, readable by this user only."""
        handle, temporary = tempfile.mkstemp(dir=file.parent.parent if file.parent.name == "answers" else file.parent)
        with os.fdopen(handle, "wb") as opened:
            opened.write(data)
        os.replace(temporary, file)
