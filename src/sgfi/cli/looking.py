"""``sgfi look``: from a model and one input to a picture, by the natural inverse; no maps."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from sgfi.cli import options
from sgfi.cli.inversion import write_numbers
from sgfi.cli.outcomes import command, say
from sgfi.errors import DataError
from sgfi.graph import TensorGraph
from sgfi.inputs.data import open_data
from sgfi.inputs.graph_cache import captured_model
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inversion import Query
from sgfi.report.look import Look, check_picture, embedded
from sgfi.report.look import look as look_at


class Jacobian(str, Enum):
    """Where derivatives are taken."""

    path = "path"
    point = "point"


@command
def look(
    model: options.Model,
    data: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="One image or an .npy/.safetensors of one input; for a language model, the text."
        ),
    ],
    query: Annotated[list[str] | None, typer.Option(help=f"{options.QUERY_HELP} May be repeated.")] = None,
    other: Annotated[
        str | None, typer.Option(help="A second input: what its target gives is shown as a control.")
    ] = None,
    jacobian: Annotated[
        Jacobian, typer.Option(help="path: averaged between the mean input and this one; point: at this one.")
    ] = Jacobian.path,
    points: Annotated[int | None, typer.Option(min=1, help="Points of the path.")] = None,
    ridge: Annotated[
        float | None, typer.Option(help="Lambda relative to the tensor's mean response: larger is smoother.")
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
        Path, typer.Option(help="A .png, .svg or .pdf; .safetensors for values and shares, .npy for values alone.")
    ] = Path("look.png"),
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """What features of one input identify, by the natural inverse: no calibration, no maps, no data set.

    Without --query: whole tensors from shallow to deep. Prints a sentence for each query that says what the controls
    say: what a random target gives, and the query's neighbours.

    Examples:

      sgfi look torchvision:resnet18 cat.jpg --query layer3.1.add:17

      sgfi look torchvision:resnet18 cat.jpg --query layer3.1.add:17 --query "layer3.1.add@2,3" --other dog.jpg

      sgfi look pip:efficientnet_lite0 cat.jpg --size 128 --no-share --out depths.png
    """
    options.check_out(out, force, (*options.PICTURES, *options.NUMBERS))
    queries = [Query.parse(text) for text in query] if query else None
    build = from_cache if cache else from_library
    loaded, graph = build(model, weights, size, not partial, queries or [])
    if out.suffix in options.PICTURES:
        check_picture(loaded.input_shape)
    x = one_input(data, loaded)
    settings: dict[str, Any] = {"jacobian": jacobian.value, "points": points, "ridge": ridge}
    answer = look_at(
        loaded if graph is None else graph,
        x,
        queries,
        preprocessing=loaded.preprocessing,
        other=None if other is None else one_input(other, loaded),
        **{name: value for name, value in settings.items() if value is not None},
    )
    typer.echo(str(answer))
    if out.suffix in options.PICTURES:
        answer.save(out, overwrite=force, share=share)
    else:
        write_numbers(numbers(answer, share), out)
    say(f"{len(answer.answers)} queries, {answer.lens.describe()['jacobian']}", quiet)
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


def numbers(answer: Look, share: bool) -> dict[str, torch.Tensor]:
    """What `sgfi invert` calls ``inverse``, (1, *input), or (Q, *input) for several queries, and their shares."""
    inverses = [trusted.inverse for trusted in answer.answers]
    tensors = {"inverse": torch.cat([inverse.value for inverse in inverses])}
    if share:
        tensors["share"] = torch.cat([inverse.share for inverse in inverses if inverse.share is not None])
    return tensors
