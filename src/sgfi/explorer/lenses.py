"""Estimators as the explorer holds them: with an id, the model they answer for, and how they were opened."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

import sgfi
from sgfi.errors import QueryError
from sgfi.explorer.store import digest
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.natural import Prior, Recent
from sgfi.report.look import input_prior, is_picture

LENGTHS = 4
"""Token counts for which a language model is kept captured."""


@dataclass(frozen=True, eq=False)
class Lens:
    """An estimator under a stable id: the same weights and settings have the same id on any computer."""

    estimator: sgfi.Estimator
    loaded: LoadedModel
    title: str
    kind: str
    """``"natural"`` or ``"maps"``."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """How it was opened: what ``sgfi explore`` was given."""
    manifest: Mapping[str, Any] = field(default_factory=dict)
    """Of a map folder."""
    _lengths: dict[int, sgfi.Estimator] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        prepared = self.loaded.preprocessing
        record = {
            "weights": self.estimator.graph.fingerprint,
            "estimator": self.estimator.describe(),
            "input": self.loaded.input_shape[1:] if self.text else self.loaded.input_shape,  # a text has any length
            "preparation": None if prepared is None else prepared.as_dict(),
            "maps": self.source.get("manifest"),
        }
        return digest(record)[:16]

    @property
    def text(self) -> bool:
        """Whether inputs are texts."""
        return self.loaded.tokenizer is not None and self.loaded.embed is not None

    @property
    def picture(self) -> bool:
        """Whether inputs can be drawn."""
        return not self.text and is_picture(tuple(self.loaded.input_shape))

    @property
    def preprocessing(self) -> Preprocessing:
        """Of pictures; without the model's own word, ImageNet's."""
        known = self.loaded.preprocessing
        if known is not None:
            return known
        channels, height, width = self.loaded.input_shape
        usual = Preprocessing(size=(height, width))
        return usual if channels == 3 else replace(usual, mean=(0.5,), std=(0.5,))

    def at(self, x: Tensor) -> sgfi.Estimator:
        """The estimator for inputs of this shape: a text model is captured at every length it is asked at."""
        length = x.shape[1]
        if not self.text or self.estimator.graph.input.shape[1] == length:
            return self.estimator
        if self.kind != "natural":
            raise QueryError(
                f"a text of {self.estimator.graph.input.shape[1]} tokens",
                str(length),
                "Maps have the length they were fitted for; the natural inverse takes any.",
            )
        if length not in self._lengths:
            graph = sgfi.capture(self.loaded.model, torch.cat([x, x]))
            while len(self._lengths) >= LENGTHS:
                self._lengths.pop(next(iter(self._lengths)))
            self._lengths[length] = sgfi.natural(graph, input_prior(self.loaded, graph))
        return self._lengths[length]


def natural_lens(loaded: LoadedModel, title: str | None = None, **source: Any) -> Lens:
    """The natural inverse of a model."""
    graph = sgfi.capture(loaded.model, loaded.example)
    record = {"source": loaded.spec, "weights": loaded.weights, **source}
    return Lens(sgfi.natural(graph, input_prior(loaded, graph)), loaded, title or loaded.spec, "natural", record)


def map_lens(estimator: sgfi.Estimator, loaded: LoadedModel, folder: str, manifest: Mapping[str, Any]) -> Lens:
    """A calibrated family."""
    record = {"source": folder, "manifest": digest(manifest)}
    return Lens(estimator, loaded, f"{loaded.spec} · maps", "maps", record, manifest)


class Watched:
    """Natural inverses that call ``tick`` at every step of a solve, which may raise to stop it, and that keep the
    derivatives of the tensors last asked about. For one worker: it answers one question after another."""

    def __init__(self) -> None:
        self.tick: Callable[[], None] = lambda: None
        self.recent = Recent()
        self._twins: WeakKeyDictionary[sgfi.NaturalInverse, sgfi.NaturalInverse] = WeakKeyDictionary()

    def __call__(self, estimator: sgfi.Estimator, tick: Callable[[], None]) -> sgfi.Estimator:
        """The same estimator, watched by the present question; maps as they are."""
        self.tick = tick
        if not isinstance(estimator, sgfi.NaturalInverse):
            return estimator
        if estimator not in self._twins:
            self._twins[estimator] = replace(estimator, prior=self._ticking(estimator.prior), recent=self.recent)
        return self._twins[estimator]

    def _ticking(self, prior: Prior) -> Prior:
        blank = torch.zeros(1, *prior.shape, dtype=prior.mean.dtype)
        prior.apply(blank), prior.root(blank)  # tables that are made once and shared by every copy
        watch = self

        class Ticking(type(prior)):  # type: ignore[misc]
            def apply(self, tensor: Tensor) -> Tensor:
                watch.tick()
                return super().apply(tensor)

            def root(self, tensor: Tensor) -> Tensor:
                watch.tick()
                return super().root(tensor)

        twin: Prior = copy.copy(prior)
        object.__setattr__(twin, "__class__", Ticking)
        return twin
