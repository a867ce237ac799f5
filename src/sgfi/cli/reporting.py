"""``sgfi report``: one self-contained page about a model or maps and a few inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.decisions import typed_command
from sgfi.cli.loading import OpenFamily, at_length, names_model, open_family
from sgfi.cli.outcomes import Interrupted, command, say
from sgfi.derivatives import capture_with
from sgfi.errors import DataError
from sgfi.inputs.data import TEXT_SUFFIXES, open_data
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inversion import Query
from sgfi.language import tokenise
from sgfi.report.look import input_prior
from sgfi.report.subject import Maps, ReportSettings, Subject

INPUTS = 3


@command
def report(
    asked: options.EstimatorOptions,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Images, folders of images, arrays; for a language model texts or text files."
        ),
    ],
    query: Annotated[list[str] | None, typer.Option(help=f"{options.QUERY_HELP} May be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="The .html to write; its numbers go beside it as .json.")] = Path(
        "report.html"
    ),
    limit: Annotated[int, typer.Option(min=1, help="Use at most this many inputs.")] = INPUTS,
    depths: Annotated[int, typer.Option(min=1, help="Tensors of the depth ladder.")] = 4,
    seconds: Annotated[
        float, typer.Option(min=1, help="No step is begun later than this; the page names what was left out.")
    ] = 120.0,
    prior: Annotated[
        Path | None,
        typer.Option(help="Inputs to take the natural inverse's prior from, where the model's are no photographs."),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one HTML page that opens anywhere: depths, channels, cells or tokens, controls, the decision.

    A model is asked by its natural inverse. For a map folder its calibrated inverses, their alignment and the maps'
    quality come after it. The page grows while it is written: its link is printed with the first picture.

    Examples:

      sgfi report torchvision:resnet18 cat.jpg dog.jpg --out report.html

      sgfi report torchvision:resnet18 cat.jpg --query layer3.1.add:17 --query "layer3.1.add@2,3"

      sgfi report maps/resnet18 photos/ --seconds 300 --out maps.html

      sgfi report hf:gpt2 "The keys of the old cabinet are" --out keys.html
    """
    from sgfi.report.writing import write_report

    options.check_out(out, force, (".html",))
    options.free_path(out.with_suffix(".json"), force)
    queries = tuple(Query.parse(text) for text in query or ())
    subject = _subject(asked, data, queries, limit, prior)
    settings = ReportSettings(queries, depths, seconds, command=typed_command(), source=asked.maps)
    try:
        record = write_report(subject, out, settings, progress=not quiet)
    except KeyboardInterrupt as error:
        kept = f"{out} has what was finished." if out.exists() else "Nothing was written."
        raise Interrupted(f"Interrupted. {kept}") from error
    for name, why in record["left_out"].items():
        say(f"left out: {name}: {why}", quiet)
    typer.echo(str(out))


def _subject(
    asked: options.EstimatorOptions, data: list[str], queries: tuple[Query, ...], limit: int, prior: Path | None
) -> Subject:
    names = [part.target for query in queries for part in query.parts if part.target]
    opened: OpenFamily | None = None
    if names_model(asked.maps) and asked.model is None:
        loaded = load_model(asked.maps, asked.weights, size=asked.size)
    else:
        opened = open_family(Path(asked.maps), asked.model, asked.weights)
        if asked.size is not None:
            todo = "Leave --size out, or name a model instead of a map folder."
            raise DataError("maps at the size they were fitted for", f"--size {asked.size}", todo)
        loaded = opened.loaded
    x, labels, tokens = _inputs(loaded, data, limit)
    loaded = replace(loaded, input_shape=tuple(x.shape[1:]))
    graph = capture_with(loaded.model, torch.cat([x[:1], x[:1]]), names)
    known = input_prior(loaded, graph) if prior is None else sgfi.prior(open_data(prior, loaded))
    lens = sgfi.natural(graph, known)
    if opened is None:
        return Subject(loaded, lens, x, labels, lens.targets, None, tokens)
    family = at_length(opened, len(x[0])) if x.dim() == 3 else opened.family
    assert isinstance(family, sgfi.MapFamily)
    maps = Maps(asked.maps, lambda: family, lambda: opened.manifest)
    return Subject(loaded, lens, x, labels, family.targets, maps, tokens)


def _inputs(
    loaded: LoadedModel, data: list[str], limit: int
) -> tuple[torch.Tensor, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """(N, *input), a name for each, and for sequences what stands at each position."""
    texts = [text for text in data if loaded.tokenizer is not None and Path(text).suffix not in TEXT_SUFFIXES]
    if texts:
        if len(texts) < len(data):
            raise DataError("texts, or text files", "both", "Give one kind.")
        return _embedded(loaded, texts[:limit])
    parts, names = [], []
    for path in data:
        batches = open_data(path, loaded, 16, limit)
        parts.append(torch.cat(list(batches)))
        names += batches.names
    x = torch.cat(parts)[:limit]
    length = x.shape[1] if x.dim() == 3 else 0
    return x, tuple(names[: len(x)]), tuple(tuple(map(str, range(length))) for _ in x) if length else ()


def _embedded(
    loaded: LoadedModel, texts: list[str]
) -> tuple[torch.Tensor, tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The last tokens of every text, as many as the shortest has and the model has room for."""
    assert loaded.embed is not None
    ids = [tokenise(loaded.tokenizer, text) for text in texts]
    length = min(loaded.input_shape[0], *(len(own) for own in ids))
    if length < 2:
        raise DataError("texts of two tokens or more", f"{min(map(len, ids))} in the shortest", "Write longer ones.")
    kept = torch.stack([own[-length:] for own in ids])
    with torch.no_grad():
        x = loaded.embed(kept)
    spelled = tuple(tuple(loaded.tokenizer.decode([token]) for token in own.tolist()) for own in kept)
    names = tuple(
        f"{'' if len(own) == length else '…'}{''.join(words).strip()}" for own, words in zip(ids, spelled, strict=True)
    )
    return x, names, spelled
