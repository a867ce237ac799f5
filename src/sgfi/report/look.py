"""One call from a model and an input to an answer that draws itself."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sgfi.errors import DataError, QueryError, StoreError, did_you_mean
from sgfi.evaluation.trust import ALIKE, Trust, trust
from sgfi.graph import TensorGraph
from sgfi.graph.wrappers import unwrapped
from sgfi.inputs.data import read_image
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Inverse, Query, depth_targets
from sgfi.language import nearest, tokenise
from sgfi.natural import NaturalAnswer, NaturalInverse, Prior, Solver, embedding_prior, natural
from sgfi.report.captured import captured
from sgfi.storage.files import write_tensors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Source = nn.Module | TensorGraph | LoadedModel
PICTURES, NUMBERS = (".png", ".svg", ".pdf"), (".safetensors",)


@dataclass(frozen=True, eq=False)
class Look:
    """Answers to one or more queries on one input, each with its controls."""

    lens: NaturalInverse
    x: Tensor
    """(1, *input)"""
    answers: tuple[Trust, ...]
    preprocessing: Preprocessing | None = None
    """How a picture was prepared; without it ImageNet's usual preparation is undone for display."""
    names: tuple[str, ...] = ()
    """Of the positions of an input that is a text: its tokens."""

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

    def figure(self, share: bool = True) -> Figure:
        """Input, answer and controls, a row for each query: pictures, signals as lines, vectors and sequences as bars.

        Without ``share`` nothing fades: a share of more than a few hundred numbers takes seconds to work out.
        """
        from sgfi.figures.answers import Painter, answers_figure
        from sgfi.figures.series import Series, series_figure

        shape, mean = tuple(self.x.shape[1:]), self.lens.prior.mean_like(self.x).cpu()
        check_drawable(shape)
        nodes = [self.lens.node(answer.inverse.query.target) for answer in self.answers]
        if is_picture(shape):
            painter = Painter(mean, self.preprocessing or usual_preparation(self.x))
            return answers_figure(self.answers, self.x, nodes, painter, share=share)
        prior = self.lens.prior
        series = Series(mean, prior.channel_axis - 1, prior.variance.sqrt().cpu(), self.names)
        return series_figure(self.answers, self.x, nodes, series, share=share)

    def tensors(self, share: bool = True) -> dict[str, Tensor]:
        """By query: ``inverse`` (Q, *input), ``ridge`` and ``residual`` (Q,), ``share`` (Q, *coordinates)."""
        inverses = [answer.inverse for answer in self.answers]
        tensors = {"inverse": torch.cat([inverse.value for inverse in inverses])}
        for name in ("ridge", "residual"):
            numbers = [getattr(inverse, name, None) for inverse in inverses]
            known = [number for number in numbers if number is not None]
            tensors |= {name: torch.cat(known)} if known else {}
        if share:
            tensors["share"] = torch.cat([inverse.share for inverse in inverses if inverse.share is not None])
        return tensors

    def save(self, path: str | Path, *, overwrite: bool = False, share: bool = True) -> Path:
        """The figure as .png, .svg or .pdf, or :meth:`tensors` as .safetensors with the queries as metadata."""
        from sgfi.figures import save_figure

        path = Path(path)
        forms = (*PICTURES, *NUMBERS)
        if path.suffix not in forms:
            raise DataError(f"a file that ends in {', '.join(forms)}", path.name, "Choose one of these.")
        if path.suffix in NUMBERS:
            if path.exists() and not overwrite:
                raise StoreError("a path that is free", f"{path}, which exists", "Choose another, or overwrite=True.")
            path.parent.mkdir(parents=True, exist_ok=True)
            write_tensors(path, self.tensors(share), {"queries": json.dumps(self.queries)})
            return path
        return save_figure(self.figure(share), path, overwrite=overwrite)

    def _repr_html_(self) -> str:
        return drawn_as_html(self.figure if is_drawable(tuple(self.x.shape[1:])) else None, str(self))

    @property
    def queries(self) -> list[str]:
        return [str(answer.inverse.query) for answer in self.answers]

    def __str__(self) -> str:
        lines = (
            f"{answer.inverse.query}: {answer.sentence()}{_advice(self.lens, answer)}{_solved(answer)}"
            for answer in self.answers
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        first = "; value and share are the first one's, tensors() has all" if len(self.answers) > 1 else ""
        return f"<Look at {', '.join(self.queries)}{first}>"


def _advice(lens: NaturalInverse, answer: Trust) -> str:
    """What to ask instead, where two inputs' targets are alike because both differ from the mean input."""
    differs = lens.target_value == "difference" and not lens.prior.of_tokens
    if not differs or answer.verdict() != "swapped" or answer.targets is None or float(answer.targets[0]) <= ALIKE:
        return ""
    return ' To see what is special to this input, ask with target_value="centred".'


def _solved(answer: Trust) -> str:
    words = answer.inverse.solved() if isinstance(answer.inverse, NaturalAnswer) else ""
    return f" ({words})" if words else ""


def look(
    model: nn.Module | TensorGraph | LoadedModel | str,
    x: Tensor | Mapping[str, Any] | str | Path,
    query: str | Query | Sequence[str | Query] | None = None,
    prior: Prior | None = None,
    other: Tensor | str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    **settings: Any,
) -> Look:
    """What features of one input identify, by the natural inverse: no calibration, no data set.

    ``model`` is a module, a captured graph, or a name such as ``"torchvision:resnet50"``; ``x`` one prepared input
    (with or without a batch axis) or, where the preparation is known, the path of a picture; for a language model by
    name, the text itself; for a graph with side inputs a mapping, as :func:`sgfi.invert` takes it. ``query`` is text
    such as ``"layer3.1.add:17@2,3"``, a :class:`~sgfi.Query`, or several of them; without one, whole tensors from
    shallow to deep, by the settings of :func:`whole_tensors`. ``other`` is a second input, whose target serves as a
    control. ``settings`` go to :func:`sgfi.natural`.
    """
    queries = parsed(query)
    settings = whole_tensors(checked_settings(settings)) if queries is None else checked_settings(settings)
    if isinstance(model, TensorGraph) and not isinstance(x, (Tensor, str, Path)):
        x, sides = model.split(x)
        model = model.bind(sides)
    source, loaded, prepared = opened(model, preprocessing)
    batch = prepared_input(x, source, prepared, prior)
    graph = captured_at(source, batch, queries)
    lens = natural(graph, prior if prior is not None else input_prior(loaded, graph, prepared), **settings)
    others = None if other is None else prepared_input(other, source, prepared, prior)
    return look_through(lens, batch, queries, others, prepared, token_names(loaded, batch))


def checked_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What :func:`sgfi.natural` takes beside graph and prior; another word is an error."""
    known = [name for name in signature(natural).parameters if name not in ("graph", "prior")]
    for name in settings:
        if name not in known:
            raise QueryError(f"settings among {known}", repr(name), did_you_mean(name, known) or "Leave it out.")
    return dict(settings)


def whole_tensors(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings for whole tensors, where none are given: at the point, since pictures along a path shift in colour, and
    solved to a fifth, which the eye does not tell from less."""
    point = {} if {"jacobian", "points"} & set(settings) else {"jacobian": "point"}
    return {"solver": Solver(tolerance=0.2), **point, **settings}


def look_through(
    lens: NaturalInverse,
    x: Tensor,
    queries: Sequence[Query] | None = None,
    others: Tensor | None = None,
    preprocessing: Preprocessing | None = None,
    names: tuple[str, ...] = (),
) -> Look:
    """The answers of one lens at one prepared input, (1, *input); without queries, from shallow to deep."""
    asked = [Query(target) for target in depth_targets(lens)] if queries is None else queries
    return Look(lens, x, tuple(trust(lens, x, entry, others=others) for entry in asked), preprocessing, names)


def opened(
    model: nn.Module | TensorGraph | LoadedModel | str, preprocessing: Preprocessing | None = None
) -> tuple[Source | Any, LoadedModel | None, Preprocessing | None]:
    """What is captured, the model with how it is fed where that is known, and how pictures are prepared."""
    loaded = load_model(model) if isinstance(model, str) else model if isinstance(model, LoadedModel) else None
    prepared = preprocessing or (loaded.preprocessing if loaded is not None else None)
    return (loaded if loaded is not None else model), loaded, prepared


def targets_of(queries: Sequence[Query] | None) -> frozenset[str]:
    return frozenset(part.target for entry in queries or () for part in entry.parts if part.target)


def input_prior(
    loaded: LoadedModel | None, graph: TensorGraph, preprocessing: Preprocessing | None = None
) -> Prior | Preprocessing | None:
    """What :func:`sgfi.natural` needs to know of a model's inputs: a language model's embeddings, every token counting
    alike, or how pictures are prepared."""
    table = None if loaded is None or loaded.tokenizer is None else loaded.vocabulary
    if table is not None:
        return embedding_prior(table, int(graph.input.shape[1] or 1))
    return preprocessing or (None if loaded is None else loaded.preprocessing)


def usual_preparation(x: Tensor) -> Preprocessing:
    """ImageNet's, for pictures (B, 1 or 3, H, W) of which nothing is known."""
    usual = Preprocessing(size=tuple(x.shape[2:]))  # type: ignore[arg-type]
    return usual if x.shape[1] == 3 else replace(usual, mean=(0.5,), std=(0.5,))


def drawn_as_html(figure: Callable[[], Figure] | None, text: str) -> str:
    """For a notebook: the figure, where there is one, and the words below it."""
    from sgfi.figures import png

    words = "".join(f"<p><code>{escape(line)}</code></p>" for line in text.splitlines())
    if figure is None:
        return words
    drawn = base64.b64encode(png(figure())).decode()
    return f'<img style="max-width: 100%" alt="{escape(text)}" src="data:image/png;base64,{drawn}">{words}'


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape, no batch axis, can be drawn as pictures."""
    return len(shape) == 3 and shape[0] in (1, 3)


def is_drawable(shape: tuple[int, ...]) -> bool:
    """Whether a look at inputs of this shape, no batch axis, has a figure."""
    return is_picture(shape) or len(shape) in (1, 2)


def check_drawable(shape: tuple[int, ...]) -> None:
    """Inputs whose look has no figure are an error."""
    if not is_drawable(shape):
        raise QueryError(
            "a picture (1 or 3, H, W), a signal or sequence (two axes) or a vector as input",
            f"inputs of shape {shape}",
            "Nothing can be drawn: read .value and .share, or write them as .safetensors.",
        )


def check_picture(shape: tuple[int, ...]) -> None:
    """Inputs that cannot be drawn are an error."""
    if not is_picture(shape):
        raise QueryError(
            "a picture (1 or 3, H, W) as input",
            f"inputs of shape {shape}",
            "Nothing can be drawn: read .value and .share, or write them as .safetensors.",
        )


def parsed(query: str | Query | Sequence[str | Query] | None) -> list[Query] | None:
    if query is None:
        return None
    listed = [query] if isinstance(query, (str, Query)) else list(query) if isinstance(query, Iterable) else [query]
    if not listed:
        raise QueryError("at least one query", "none", 'Ask as in "layer3.1.add:17".')
    strange = [type(entry).__name__ for entry in listed if not isinstance(entry, (str, Query))]
    if strange:
        raise QueryError("queries as text or sgfi.Query", f"a {strange[0]}", 'Ask as in "layer3.1.add:17".')
    return [Query.parse(entry) if isinstance(entry, str) else entry for entry in listed]


def prepared_input(
    x: Any, source: Source | Any, preprocessing: Preprocessing | None, prior: Prior | None = None
) -> Tensor:
    """(1, *input)"""
    if isinstance(x, Tensor):
        batch = x.unsqueeze(0) if x.dim() in _bare_ranks(source, prior) else x
        if not batch.dim() or len(batch) != 1:
            got = f"a batch of {len(batch)}" if batch.dim() else "a single number"
            raise QueryError("one input", got, "Look at one at a time: x[i : i + 1].")
        return batch.detach()
    if not isinstance(x, (str, Path)):
        todo = "Capture a model of several arguments first: graph = sgfi.capture(model, {...}, invert=...)."
        raise QueryError("a tensor, or the path of a picture", type(x).__name__, todo)
    if isinstance(source, LoadedModel) and source.tokenizer is not None and source.embed is not None:
        return embedded(source, str(x))
    if preprocessing is None:
        raise QueryError(
            "a prepared tensor, or a model whose preparation is known",
            f"the path {str(x)!r} and a model that does not say how pictures are prepared",
            "Pass preprocessing=sgfi.inputs.preprocessing.Preprocessing(...), or a model by name.",
        )
    return read_image(x, preprocessing)


def embedded(loaded: LoadedModel, text: str) -> Tensor:
    """(1, L, D) a text as a language model's input, at its own length."""
    ids = tokenise(loaded.tokenizer, text)
    if len(ids) < 2:
        raise DataError("a text of two tokens or more", f"{len(ids)} in {text!r}", "Write a longer one.")
    assert loaded.embed is not None
    with torch.no_grad():
        return loaded.embed(ids.unsqueeze(0))


def token_names(loaded: LoadedModel | None, x: Tensor) -> tuple[str, ...]:
    """The tokens whose embeddings are nearest to a text's (1, L, D), spelled; none for other inputs."""
    if loaded is None or loaded.tokenizer is None or loaded.vocabulary is None:
        return ()
    return tuple(loaded.tokenizer.decode([word]) for (word,) in nearest(x[0], loaded.vocabulary).tolist())


def _bare_ranks(source: Source | Any, prior: Prior | None) -> tuple[int, ...]:
    """How many axes an input without its batch axis has; of a module alone it is guessed: a vector or a picture."""
    if isinstance(prior, Prior):
        return (len(prior.shape),)
    if isinstance(source, TensorGraph):
        return (len(source.input.shape) - 1,)
    return (len(source.input_shape),) if isinstance(source, LoadedModel) else (1, 3)


def captured_at(source: Source | Any, x: Tensor, queries: Sequence[Query] | None) -> TensorGraph:
    """The graph of a model that has the queried tensors, kept while the model lives."""
    names = targets_of(queries)
    if isinstance(source, TensorGraph):
        return source
    model = unwrapped(source.model if isinstance(source, LoadedModel) else source)
    if not isinstance(model, nn.Module):
        raise QueryError("a module, a captured graph or a model's name", type(model).__name__, "Pass one of these.")
    return captured(model, x, names)
