"""``sgfi look`` and ``sgfi compare``: from a model and inputs to pictures, by the natural inverse; no maps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.inversion import write_numbers
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.errors import DataError
from sgfi.figures.style import counted
from sgfi.graph import TensorGraph
from sgfi.graph.axes import read_axis
from sgfi.inputs.data import open_data, open_source
from sgfi.inputs.graph_cache import captured_model
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inversion import Query
from sgfi.natural import Prior
from sgfi.report.compare import DEFAULT_METHODS
from sgfi.report.look import (
    Look,
    captured_at,
    check_drawable,
    check_picture,
    embedded,
    input_prior,
    token_names,
    whole_tensors,
)
from sgfi.report.look import look as look_at
from sgfi.report.look_all import Looking, look_at_all

Form = Literal["png", "svg", "pdf", "safetensors"]
TargetValue = Literal["difference", "centred", "tangent"]
BATCH = 32
"""Inputs of a prior at a time."""


class Jacobian(str, Enum):
    """Where derivatives are taken."""

    path = "path"
    point = "point"


@dataclass(frozen=True, kw_only=True)
class LensOptions:
    """Settings of the natural inverse."""

    jacobian: Annotated[
        Jacobian | None,
        typer.Option(
            help="path: averaged between the mean input and this one; point: at this one. "
            "Default: path, without --query point."
        ),
    ] = None
    points: Annotated[int | None, typer.Option(min=1, help="Points of the path.")] = None
    ridge: Annotated[
        float | None, typer.Option(help="Lambda relative to the tensor's mean response: larger is smoother.")
    ] = None
    target_value: Annotated[
        TargetValue | None,
        typer.Option(
            help="What the feature registered: difference from the mean input's state (of a path), centred: from the "
            "mean state over the prior, tangent: to first order (at the point)."
        ),
    ] = None

    prior: Annotated[
        str | None,
        typer.Option(
            help="Inputs whose mean and covariance are the prior (a few hundred; a folder, an array, a text)."
        ),
    ] = None

    @property
    def settings(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in ("points", "ridge", "target_value")}
        given["jacobian"] = self.jacobian and self.jacobian.value
        return {name: value for name, value in given.items() if value is not None}

    def fitted_prior(self, loaded: LoadedModel, graph: TensorGraph | None) -> Prior | None:
        """Fitted to the named inputs; signals, whose channels come first, as grids."""
        if self.prior is None or graph is None:
            return None
        batches = open_data(self.prior, loaded, BATCH)
        signal = read_axis(graph.exported.tensors["input"]) == 1 and len(loaded.input_shape) > 1
        return sgfi.prior(batches, kind="grid", channel_axis=1) if signal else sgfi.prior(batches)

    def natural(self, loaded: LoadedModel, graph: TensorGraph, queries: list[Query] | None) -> sgfi.NaturalInverse:
        """The natural inverse of one model for many inputs."""
        settings = self.settings if queries else whole_tensors(self.settings)
        return sgfi.natural(graph, self.fitted_prior(loaded, graph) or input_prior(loaded, graph), **settings)


@dataclass(frozen=True, kw_only=True)
class SeveralOptions:
    """Of a folder, or of a file of several inputs."""

    form: Annotated[
        Form, typer.Option(help="Of several inputs: the kind of file that each gets in the folder of results.")
    ] = "png"
    limit: Annotated[int | None, typer.Option(min=1, help="Of several inputs: at most this many, spread.")] = None

    def meant(self, data: str, out: Path | None) -> bool:
        """Whether results go into a folder: several inputs, or an output without a suffix."""
        if not data.strip():
            raise DataError("an image, a folder of images, an array or a text", "an empty text", "Name one.")
        named = out is not None and not out.suffix and Path(data).is_file()
        return Path(data).is_dir() or self.limit is not None or named


@command
def look(
    model: options.Model,
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="One image or an .npy/.safetensors of one input; for a language model, the text. A folder of images, "
            "or a file of several inputs: all of them, into a folder of results.",
        ),
    ],
    lens: LensOptions,
    several: SeveralOptions,
    query: Annotated[list[str] | None, typer.Option(help=f"{options.QUERY_HELP} May be repeated.")] = None,
    other: Annotated[
        str | None, typer.Option(help="A second input: what its target gives is shown as a control.")
    ] = None,
    share: Annotated[
        bool,
        typer.Option(help="Fade what the feature does not determine; leaving it out is faster for large queries."),
    ] = True,
    size: options.Size = None,
    weights: options.Weights = None,
    partial: options.Partial = False,
    cache: Annotated[
        bool, typer.Option(help="Keep captured models on disk, so that the next call need not build and trace them.")
    ] = True,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .png, .svg or .pdf; .safetensors for values and shares, .npy for values alone. Of several inputs: "
            "a folder. Default: look.png, or looks."
        ),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """What features of one input, or of every input of a folder, identify by the natural inverse: no calibration.

    Without --query: whole tensors from shallow to deep. Prints a sentence for each query that says what the controls
    say: what a random target gives, another input's target, and the query's neighbours.

    Of a folder each result is written whole, files that cannot be read are named and skipped, and the same command
    goes on where an earlier one was interrupted (--force starts again). looks.jsonl in the folder of results has the
    scores of every input.

    Examples:

      sgfi look torchvision:resnet18 cat.jpg --query layer3.1.add:17 --query "layer3.1.add@2,3" --other dog.jpg

      sgfi look torchvision:resnet18 photos/ --query layer3.1.add:17 --out looks

      sgfi look pip:efficientnet_lite0 cat.jpg --size 128 --no-share --out depths.png
    """
    into_folder = several.meant(data, out)
    path = out or Path("looks" if into_folder else "look.png")
    if not into_folder:
        options.check_out(path, force, (*options.PICTURES, *options.NUMBERS))
    queries = [Query.parse(text) for text in query] if query else None
    build = from_cache if cache else from_library
    loaded, graph = build(model, weights, size, not partial, queries or [])
    others = None if other is None else one_input(other, loaded)
    if into_folder:
        graph = graph or captured_at(loaded, loaded.example[:1], queries)
        looking = Looking(lens.natural(loaded, graph, queries), loaded, queries, others, f".{several.form}", share)
        look_at_folder(looking, data, path, several.limit, restart=force, quiet=quiet)
        return
    if path.suffix in options.PICTURES:
        check_drawable(loaded.input_shape)
    x = one_input(data, loaded)
    graph = graph or (captured_at(loaded, x, queries) if lens.prior else None)
    prior, asked = lens.fitted_prior(loaded, graph), loaded if graph is None else graph
    answer = look_at(asked, x, queries, prior, others, loaded.preprocessing, **lens.settings)
    answer = replace(answer, names=token_names(loaded, x))
    typer.echo(str(answer))
    write_look(answer, path, share, force)
    say(f"{counted(len(answer.answers), 'query')}, {answer.lens.describe()['jacobian']}", quiet)
    typer.echo(str(path))


def write_look(answer: Look, path: Path, share: bool, force: bool) -> None:
    """As a picture, or as numbers."""
    if path.suffix != ".npy":
        answer.save(path, overwrite=force, share=share)
    else:
        write_numbers(answer.tensors(share), path)


def look_at_folder(looking: Looking, data: str, out: Path, limit: int | None, restart: bool, quiet: bool) -> None:
    """Every input, or a spread of them, into a folder."""
    if out.suffix in (*options.PICTURES, *options.NUMBERS):
        todo = "Name a folder with --out, and the kind of file with --form."
        raise DataError("a folder for the results of several inputs", str(out), todo)
    source = open_source(data, looking.loaded)
    if limit is not None and limit < len(source):
        source = source.spread(limit)
    try:
        looks = look_at_all(looking, source, out, not quiet, restart)
    except KeyboardInterrupt:
        raise Interrupted(
            f"Interrupted; finished inputs are in {out}, the same command goes on with the rest."
        ) from None
    say(str(looks), quiet)
    typer.echo(str(out))


@command
def compare(
    model: options.Model,
    data: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Images (for a language model: texts).")],
    query: Annotated[list[str], typer.Option(help=f"{options.QUERY_HELP} May be repeated.")],
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="'natural, path', 'natural, point', 'gradient', 'integrated gradients', ... (extra comparisons); may "
            "be repeated. Default: 'natural, path' and 'raw VJP'."
        ),
    ] = None,
    size: options.Size = None,
    weights: options.Weights = None,
    partial: options.Partial = False,
    out: Annotated[Path, typer.Option(help="A .png, .svg or .pdf.")] = Path("compare.png"),
    force: options.Force = False,
) -> None:
    """Several inputs, features and methods in one figure: a row for each input, a column for each query and method.

    Prints how alike the methods' pictures are.

    Examples:

      sgfi compare torchvision:resnet18 cat.jpg dog.jpg --query layer2.1.add --query layer3.1.add:17

      sgfi compare torchvision:resnet18 cat.jpg --query layer3.1.add:17 --method "natural, path" --method gradient
    """
    options.check_out(out, force, options.PICTURES)
    loaded = load_model(model, weights, size=size, strict=not partial)
    check_picture(loaded.input_shape)
    shown = sgfi.compare(loaded, data, query, method or DEFAULT_METHODS)
    typer.echo(str(shown))
    shown.save(out, overwrite=force)
    typer.echo(str(out))


def from_cache(
    model: str, weights: str | None, size: int | None, strict: bool, queries: list[Query]
) -> tuple[LoadedModel, TensorGraph | None]:
    """The model with a graph that has the queried tensors, from disk where it was kept."""
    names = {part.target for query in queries for part in query.parts if part.target}
    return captured_model(model, weights, size, strict, names)


def from_library(
    model: str, weights: str | None, size: int | None, strict: bool, queries: list[Query]
) -> tuple[LoadedModel, TensorGraph | None]:
    """The model built by its library, not captured yet."""
    return load_model(model, weights, size=size, strict=strict), None


def one_input(data: str, loaded: LoadedModel) -> torch.Tensor:
    """(1, *input) from a file that holds one input, or from a text."""
    if loaded.tokenizer is not None and not Path(data).is_file():
        return embedded(loaded, data)
    batches = open_data(data, loaded, 2)
    x = next(iter(batches))
    if len(x) != 1:
        raise DataError("one input", f"several in {data}", "Name one image, or save one input: x[i : i + 1].")
    return x
