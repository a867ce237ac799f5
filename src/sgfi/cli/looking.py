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
from sgfi.inputs.data import open_data
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
    points: Annotated[int | None, typer.Option(help="Points of the path.")] = None,
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
    loaded = load_model(model, weights, size=size, strict=not partial)
    if out.suffix in options.PICTURES:
        check_picture(loaded.input_shape)
    x = one_input(data, loaded)
    settings: dict[str, Any] = {"jacobian": jacobian.value, "points": points, "ridge": ridge}
    answer = look_at(
        loaded,
        x,
        queries,
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
