"""One call from a model and an input to an answer that draws itself."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from sgfi.errors import QueryError
from sgfi.evaluation.trust import Trust, trust
from sgfi.graph import TensorGraph, capture
from sgfi.inputs.data import read_image
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Inverse, Query
from sgfi.natural import NaturalInverse, Prior, natural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_graphs: WeakKeyDictionary[nn.Module, dict[Any, TensorGraph]] = WeakKeyDictionary()
"""Captured models by input and parameters: a second look at the same model starts at once."""


@dataclass(frozen=True, eq=False)
class Look:
    """Answers to one or more queries on one input, each with its controls."""

    lens: NaturalInverse
    x: Tensor
    """(1, *input)"""
    answers: tuple[Trust, ...]
    preprocessing: Preprocessing

    @property
    def inverse(self) -> Inverse:
        """The first answer."""
        return self.answers[0].inverse

    @property
    def value(self) -> Tensor:
        """(1, *input) the first answer: a deviation from the prior's mean."""
        return self.inverse.value

    @property
    def share(self) -> Tensor | None:
        """(1, *coordinates) how much of each place's variance the first query determines."""
        return self.inverse.share

    def figure(self) -> Figure:
        """Input, answer and controls, a row for each query; for inputs that are pictures."""
        from sgfi.figures.answers import Painter, answers_figure

        if self.x.dim() != 4 or self.x.shape[1] not in (1, 3):
            raise QueryError("a picture as input", str(tuple(self.x.shape)), "Read .value and .share instead.")
        nodes = [self.lens.node(answer.inverse.query.target) for answer in self.answers]
        painter = Painter(self.lens.prior.mean_like(self.x).cpu(), self.preprocessing)
        return answers_figure(self.answers, self.x, nodes, painter)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """The figure as .png, .svg or .pdf."""
        from sgfi.figures import save_figure

        return save_figure(self.figure(), path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        from sgfi.figures import png

        picture = base64.b64encode(png(self.figure())).decode()
        words = "".join(f"<p><code>{escape(line)}</code></p>" for line in str(self).splitlines())
        return f'<img alt="{escape(str(self))}" src="data:image/png;base64,{picture}">{words}'

    def __str__(self) -> str:
        return "\n".join(f"{answer.inverse.query}: {answer.sentence()}" for answer in self.answers)

    def __repr__(self) -> str:
        return f"<Look at {', '.join(str(answer.inverse.query) for answer in self.answers)}>"


def look(
    model: nn.Module | TensorGraph | LoadedModel | str,
    x: Tensor | str | Path,
    query: str | Query | Sequence[str | Query],
    prior: Prior | None = None,
    other: Tensor | str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    **settings: Any,
) -> Look:
    """What features of one input identify, by the natural inverse: no calibration, no data set.

    ``model`` is a module, a captured graph, or a name such as ``"torchvision:resnet50"``; ``x`` one prepared input
    (with or without a batch axis) or, where the preparation is known, the path of a picture. ``query`` is text such as
    ``"layer3.1.add:17@2,3"``, a :class:`~sgfi.Query`, or several of them. ``other`` is a second input, whose target
    serves as a control. ``settings`` go to :func:`sgfi.natural`.
    """
    loaded = load_model(model) if isinstance(model, str) else model if isinstance(model, LoadedModel) else None
    prepared = preprocessing or (loaded.preprocessing if loaded is not None else None)
    batch = _prepared(x, prepared)
    graph = _captured(loaded.model if loaded is not None else model, batch)  # type: ignore[arg-type]
    lens = natural(graph, prior if prior is not None else prepared, **settings)
    listed = [query] if isinstance(query, (str, Query)) else list(query)
    if not listed:
        raise QueryError("at least one query", "none", 'Ask as in "layer3.1.add:17".')
    queries = [Query.parse(entry) if isinstance(entry, str) else entry for entry in listed]
    others = None if other is None else _prepared(other, prepared)
    answers = tuple(trust(lens, batch, entry, others=others) for entry in queries)
    height, width = batch.shape[-2:]
    return Look(lens, batch, answers, prepared or Preprocessing(size=(height, width)))


def _prepared(x: Tensor | str | Path, preprocessing: Preprocessing | None) -> Tensor:
    """(1, *input)"""
    if isinstance(x, Tensor):
        batch = x.unsqueeze(0) if x.dim() in (1, 3) else x
        if len(batch) != 1:
            raise QueryError("one input", f"a batch of {len(batch)}", "Look at one at a time: x[i : i + 1].")
        return batch.detach()
    if preprocessing is None:
        raise QueryError(
            "a prepared tensor, or a model whose preparation is known",
            f"the path {str(x)!r} and a bare module",
            "Pass preprocessing=sgfi.inputs.Preprocessing(...), or a model by name.",
        )
    return read_image(x, preprocessing)


def _captured(model: nn.Module | TensorGraph, x: Tensor) -> TensorGraph:
    if isinstance(model, TensorGraph):
        return model
    if not isinstance(model, nn.Module):
        raise QueryError("a module, a captured graph or a model's name", type(model).__name__, "Pass one of these.")
    graphs = _graphs.setdefault(model, {})
    key = x.shape[1:], x.dtype, x.device, tuple(map(id, model.parameters()))
    if key not in graphs:
        graphs.clear()  # of another size, or of parameters that were replaced
        graphs[key] = capture(model, torch.cat([x, x]))
    return graphs[key]
