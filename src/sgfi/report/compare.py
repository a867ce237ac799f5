"""Inputs, features and methods side by side in one figure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sgfi.errors import QueryError, did_you_mean
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.pictures import METHODS, NATURAL, Scene, pictures
from sgfi.figures.style import counted
from sgfi.graph import Node, TensorGraph
from sgfi.inputs.loaded import LoadedModel
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Estimator, Query, sweep
from sgfi.natural import NaturalInverse, Prior, natural
from sgfi.report.look import (
    Source,
    captured_at,
    check_picture,
    drawn_as_html,
    input_prior,
    is_picture,
    opened,
    parsed,
    prepared_input,
    usual_preparation,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Input = Tensor | str | Path
DEFAULT_METHODS = ("natural, path", "raw VJP")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The same queries at the same inputs by several methods."""

    x: Tensor
    """(B, *input)"""
    names: tuple[str, ...]
    """Of the inputs."""
    queries: tuple[Query, ...]
    nodes: tuple[Node, ...]
    """The queries' targets."""
    values: Mapping[str, tuple[Tensor, ...]]
    """Method -> for each query (B, *input)."""
    mean: Tensor
    """(*input) what pictures are drawn around."""
    preprocessing: Preprocessing | None = None

    def cosine(self, first: str, second: str) -> Tensor:
        """(Q, B) how alike two methods' pictures are."""
        return torch.stack([pixel_cosine(a, b) for a, b in zip(self.values[first], self.values[second], strict=True)])

    def figure(self) -> Figure:
        """A row for each input; for each query a column a method, with its cosine with the first method's picture."""
        from sgfi.figures.methods import comparison_figure

        check_picture(tuple(self.x.shape[1:]))
        return comparison_figure(self, self.preprocessing or usual_preparation(self.x))

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """The figure as .png, .svg or .pdf."""
        from sgfi.figures import save_figure

        return save_figure(self.figure(), path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        return drawn_as_html(self.figure if is_picture(tuple(self.x.shape[1:])) else None, str(self))

    def __str__(self) -> str:
        first, *others = self.values
        lines = [f"{self.asked}, methods {', '.join(self.values)}"]
        for other in others:
            for query, cosines in zip(self.queries, self.cosine(first, other), strict=True):
                lines.append(
                    f"{query}: {other} against {first}, cosine {', '.join(f'{c:.2f}' for c in cosines.tolist())}"
                )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Comparison of {self.asked}, {counted(len(self.values), 'method')}>"

    @property
    def asked(self) -> str:
        """How many inputs and queries."""
        return f"{counted(len(self.x), 'input')}, {counted(len(self.queries), 'query')}"


def compare(
    model: nn.Module | TensorGraph | LoadedModel | str,
    inputs: Input | Sequence[Input],
    queries: str | Query | Sequence[str | Query],
    methods: Sequence[str] | Mapping[str, str | Estimator] = DEFAULT_METHODS,
    prior: Prior | None = None,
    preprocessing: Preprocessing | None = None,
) -> Comparison:
    """Several inputs, features and methods in one figure: ``sgfi.compare(model, [a, b], [q1, q2]).save("all.png")``.

    ``inputs`` and ``queries`` are as for :func:`sgfi.look`, one or several (a batch of tensors is several). ``methods``
    are names: ``"natural, path"``, ``"natural, point"``, ``"raw VJP"``, and the others of
    :mod:`sgfi.evaluation.pictures` (``"gradient"``, ``"integrated gradients"`` ...; extra ``comparisons``);
    or labels with a name or an estimator each, such as a calibrated family:
    ``{"maps": family, "gradient": "gradient"}``.
    """
    asked = parsed(queries)
    if not asked:
        raise QueryError("at least one query", "none", 'Ask as in "layer3.1.add:17".')
    labelled = _labelled(methods)
    source, loaded, prepared = opened(model, preprocessing)
    names, x = _stacked(inputs, source, prepared, prior)
    graph = captured_at(source, x[:1], asked)
    known = prior if prior is not None else input_prior(loaded, graph, prepared)
    wanted = [name for name in labelled.values() if isinstance(name, str) and name in NATURAL]
    lenses = {name: natural(graph, known, **NATURAL[name]) for name in wanted}
    reference = next(iter(lenses.values()), None) or natural(graph, known)
    module = source if isinstance(source, nn.Module) else loaded.model if loaded is not None else None
    asked = [query if query.target else query.toward(reference.target) for query in asked]
    values = {
        label: _values(lenses.get(method, method) if isinstance(method, str) else method, asked, x, reference, module)
        for label, method in labelled.items()
    }
    nodes = tuple(graph.nodes[query.target] for query in asked)  # type: ignore[index]
    return Comparison(x, names, tuple(asked), nodes, values, reference.prior.mean_like(x), prepared)


def _labelled(methods: Sequence[str] | Mapping[str, str | Estimator]) -> dict[str, str | Estimator]:
    if isinstance(methods, str):
        methods = [methods]
    if not isinstance(methods, Iterable):
        raise QueryError("names of methods", type(methods).__name__, 'As in ["natural, path", "gradient"].')
    labelled: dict[str, str | Estimator] = {}
    labelled |= methods if isinstance(methods, Mapping) else {str(name): name for name in methods}
    known = [*NATURAL, *METHODS]
    for method in labelled.values():
        if isinstance(method, str) and method not in known:
            todo = did_you_mean(method, known) or "Choose some of them, or give an estimator: {label: estimator}."
            raise QueryError(f"methods among {known}", repr(method), todo)
        if not isinstance(method, str) and not hasattr(method, "answer"):
            raise QueryError("a method's name or an estimator", f"a {type(method).__name__}", "Pass one of these.")
    if not labelled:
        raise QueryError("at least one method", "none", f"Choose among {known}.")
    return labelled


def _stacked(
    inputs: Input | Sequence[Input], source: Source | Any, prepared: Preprocessing | None, prior: Prior | None
) -> tuple[tuple[str, ...], Tensor]:
    """Names and (B, *input)."""
    if isinstance(inputs, Tensor) and inputs.dim() == _rank(source, prior):
        listed: list[Any] = list(inputs.split(1))
    elif isinstance(inputs, (Tensor, str, Path)):
        listed = [inputs]
    else:
        listed = list(inputs) if isinstance(inputs, Iterable) else []
    if not listed:
        raise QueryError("at least one input", "none", "Pass tensors, or paths of pictures.")
    rows = [prepared_input(entry, source, prepared, prior) for entry in listed]
    if len({row.shape for row in rows}) > 1:
        got = ", ".join(str(tuple(row.shape[1:])) for row in rows)
        raise QueryError("inputs of one shape", got, "Texts must have as many tokens each, pictures as many pixels.")
    names = [
        f"input {index}" if isinstance(entry, Tensor) else Path(entry).stem[:24] for index, entry in enumerate(listed)
    ]
    return tuple(names), torch.cat(rows)


def _rank(source: Source | Any, prior: Prior | None) -> int:
    """Axes of a batch, as far as the prior or the model tells; pictures otherwise."""
    if isinstance(prior, Prior):
        return len(prior.shape) + 1
    if isinstance(source, TensorGraph):
        return len(source.input.shape)
    return len(source.input_shape) + 1 if isinstance(source, LoadedModel) else 4


def _values(
    method: str | Estimator, queries: list[Query], x: Tensor, reference: NaturalInverse, module: nn.Module | None
) -> tuple[Tensor, ...]:
    """For each query (B, *input), one method's pictures."""
    if not isinstance(method, str):
        if _weights(method.graph) != _weights(reference.graph):
            got = f"one of another model ({type(method).__name__})"
            raise QueryError("an estimator of the model that is compared", got, "Compare each model by itself.")
        return tuple(inverse.value for inverse in sweep(method, x, queries))
    groups = [query for query in queries if query.also]
    if groups:
        todo = "Compare its parts, or estimators that answer groups."
        raise QueryError(f"queries about one tensor each for {method!r}", str(groups[0]), todo)
    scenes = [Scene.of(reference.graph, x, reference.prior, [query], module) for query in queries]
    return tuple(pictures(method, scene)[0] for scene in scenes)


def _weights(graph: TensorGraph) -> list[tuple[tuple[int, ...], float]]:
    """Shapes and sums, whatever the weights are called: a model captured with named arguments has other names."""
    return sorted((tuple(weight.shape), float(weight.double().sum())) for weight in graph.constants.values())
