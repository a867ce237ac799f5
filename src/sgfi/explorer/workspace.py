"""What is open: lenses and inputs, and how a question about them is worded."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

import sgfi
from sgfi.errors import QueryError
from sgfi.explorer.inputs import Input, keep_bytes, stored_inputs
from sgfi.explorer.lenses import Lens, Watched
from sgfi.explorer.store import Store, digest

VERSION = 1
"""Of what answers hold: a change makes all stored answers obsolete."""
PLUS = " + "
"""Between the parts of a group."""
PREPARED = 32
"""Prepared inputs kept in memory."""


@dataclass(frozen=True)
class Question:
    """Everything an answer depends on. Equal questions have equal answers, so the digest names the answer."""

    lens: str
    input: str
    query: str
    """In its normal form."""
    stage: str
    other: str = ""
    """A second input, for what compares two."""
    files: str = ""
    """Digest of the files that the answer depends on: directions that the query names, a Jacobian lens."""

    @property
    def key(self) -> str:
        return digest([VERSION, self.lens, self.input, self.query, self.stage, self.other, self.files])


class Workspace:
    """The open lenses and inputs of one store."""

    def __init__(
        self,
        store: Store,
        lenses: Iterable[Lens],
        directions: Mapping[str, Path] | None = None,
        jacobian_lens: Path | None = None,
    ) -> None:
        self.store = store
        self.directions = dict(directions or {})
        """Files of directions by the names that queries may use for them: a client never names a path."""
        self.jacobian_lens = jacobian_lens
        """A file of one matrix for each layer of a language model, see :mod:`sgfi.explorer.tokens`."""
        self.lenses = {lens.id: lens for lens in lenses}
        self.inputs: dict[str, Input] = stored_inputs(store)
        self.watched = Watched()
        self._prepared: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
        self._lock = threading.Lock()
        for name, lens in self.lenses.items():
            store.keep_lens(name, {**lens.source, "title": lens.title, "kind": lens.kind})

    def add(self, data: bytes, name: str, kind: str) -> Input:
        """An input from outside."""
        return self.hold(keep_bytes(self.store, data, name, kind))

    def hold(self, entry: Input) -> Input:
        """What is known already keeps its first name."""
        return self.inputs.setdefault(entry.sha, entry)

    def lens(self, name: str) -> Lens:
        if name not in self.lenses:
            known = ", ".join(f"{lens.title} ({key})" for key, lens in self.lenses.items())
            raise QueryError(f"an open model: {known}", repr(name[:40]), "Open it with sgfi explore MODEL, or choose.")
        return self.lenses[name]

    def input(self, sha: str) -> Input:
        if sha not in self.inputs:
            raise QueryError("the SHA-256 of a known input", repr(sha[:70]), "Add the input again, or choose another.")
        return self.inputs[sha]

    def prepared(self, lens: str, sha: str) -> Tensor:
        """(1, *input)"""
        with self._lock:
            if (lens, sha) not in self._prepared:
                self._prepared[lens, sha] = self.input(sha).prepared(self.lens(lens))
                while len(self._prepared) > PREPARED:
                    self._prepared.popitem(last=False)
            self._prepared.move_to_end((lens, sha))
            return self._prepared[lens, sha]

    def question(self, lens: str, sha: str, query: str, stage: str, other: str = "") -> Question:
        """Checked as far as is possible without any work, and brought to normal form."""
        opened = self.lens(lens)
        estimator = opened.at(self.prepared(lens, sha)) if opened.text else opened.estimator
        parts = [self._checked(estimator, part) for part in self.parse(query).parts]
        text = self._shown(str(sum(parts[1:], parts[0])))
        self.input(sha)
        if stage == "trust":
            other = other or self.neighbour(lens, sha)
        return Question(lens, sha, text, stage, other and self.input(other).sha, self._digest(text, stage))

    def parse(self, text: str) -> sgfi.Query:
        """A client's query: directions by the names under which their files were opened, and by no path."""
        return sgfi.Query.parse(self.located(text))

    def located(self, text: str) -> str:
        """A query with paths in place of names."""
        return PLUS.join(map(self._located, text.split(PLUS)))

    def _located(self, part: str) -> str:
        node, percent, named = part.partition("%")
        name = next((name for name in self.directions if re.match(rf"{re.escape(name)}(?=$|[:@])", named)), None)
        if not percent or re.match(r"margin\s*:", named):
            return part
        if name is None:
            known = ", ".join(self.directions) or "none"
            raise QueryError(
                f"directions that are open here ({known})", repr(named[:80]), "Open them: --directions FILE."
            )
        return f"{node}%{self.directions[name]}{named[len(name) :]}"

    def _shown(self, text: str) -> str:
        """Names in place of paths again."""
        for name, path in self.directions.items():
            text = text.replace(f"%{path}", f"%{name}")
        return text

    def _digest(self, text: str, stage: str) -> str:
        used = [path for name, path in self.directions.items() if f"%{name}" in text]
        used += [self.jacobian_lens] if stage == "tokens" and self.jacobian_lens is not None else []
        return digest([hashlib.sha256(path.read_bytes()).hexdigest() for path in used]) if used else ""

    @staticmethod
    def _checked(estimator: sgfi.Estimator, part: sgfi.Query) -> sgfi.Query:
        node = estimator.node(part.target)
        named = part.toward(node.name)
        named.selection(node)
        return named

    def neighbour(self, lens: str, sha: str) -> str:
        """Another input of the same kind, the next in line: its target is the swapped control."""
        fitting = [key for key, entry in self.inputs.items() if entry.kind == self.inputs[sha].kind]
        fitting = [key for key in fitting if self.inputs[key].fits(self.lens(lens))]
        if sha not in fitting or len(fitting) < 2:
            return ""
        return fitting[(fitting.index(sha) + 1) % len(fitting)]
