"""``sgfi tokens`` and ``sgfi contexts``: which tokens of a text a language model's feature leads back to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import sgfi
from sgfi.cli import options
from sgfi.cli.loading import at_length, names_model, natural_inverse
from sgfi.cli.outcomes import command, say
from sgfi.errors import DataError, QueryError
from sgfi.evaluation.tokens import profiles
from sgfi.figures.atlases import stage_name
from sgfi.inputs.models import LoadedModel, load_model
from sgfi.inversion import STAGES, Estimator
from sgfi.language import agreement, energy_profile, entropy, nearest, polysemy, stacked, tokenise
from sgfi.storage import write_text


@command
def tokens(
    asked: options.EstimatorOptions,
    text: Annotated[
        str,
        typer.Argument(help="The text; its last tokens where it is longer than the maps are for (a model: --size)."),
    ],
    position: Annotated[
        list[int] | None, typer.Option(help="Queried token, 0 being the first and -1 the last; may be repeated.")
    ] = None,
    every: Annotated[bool, typer.Option("--every", help="Query every position in turn.")] = False,
    cue: Annotated[list[str] | None, typer.Option(help="A word to underline; may be repeated.")] = None,
    stage: options.Stage = "final",
    out: Annotated[Path, typer.Option(help="The .png, .svg or .pdf; the numbers go beside it as .json.")] = Path(
        "tokens.png"
    ),
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Invert a token's feature to the input embeddings and show where its energy lies.

    Examples:

      sgfi calibrate hf:gpt2 --size 16 --data wiki.txt --operator causal --partition first-apart --out maps/gpt2
      sgfi tokens maps/gpt2 "The fisherman pulled his boat out of the water and onto the muddy bank"
      sgfi tokens maps/gpt2 "The keys of the cabinet are" --every --cue keys
      sgfi tokens hf:gpt2 "The keys of the cabinet are"
    """
    options.check_out(out, force, options.PICTURES)
    numbers = options.free_path(out.with_suffix(".json"), force)
    if stage not in STAGES:
        raise QueryError(f"a stage among {list(STAGES)}", repr(stage), "Choose one of these.")
    if names_model(asked.maps) and asked.model is None:
        loaded = load_model(asked.maps, asked.weights, size=asked.size)
        ids = _ids(loaded, text, quiet)
        estimator = natural_inverse(replace(loaded, input_shape=(len(ids), *loaded.input_shape[1:]))).estimator
    else:
        loaded = asked.opened.loaded
        ids = _ids(loaded, text, quiet)
        estimator = at_length(asked.opened, len(ids))
    positions = _positions(position, every, len(ids))
    record = _answer(loaded, estimator, ids, positions, stage)
    _draw(record, cue or [], f"{estimator.target}, {stage_name(estimator, stage)}", out, force)
    write_text(numbers, json.dumps(record, indent=1) + "\n")
    say(f"{len(ids)} tokens, {len(positions)} queries", quiet)
    typer.echo(str(out))


@command
def contexts(
    asked: options.EstimatorOptions,
    stage: options.Stage = "final",
    out: Annotated[Path, typer.Option(help="The .png, .svg or .pdf; the numbers go beside it as .json.")] = Path(
        "contexts.png"
    ),
    force: options.Force = False,
    quiet: options.Quiet = False,
) -> None:
    """Where the terminal token's inverse has its energy in all controlled contexts, as two matrices.

    72 contexts of words with two meanings and 80 of number agreement, made for the model's tokenizer.

    Examples:

      sgfi contexts maps/gpt2 --out contexts.png
    """
    from sgfi.figures import save_figure
    from sgfi.figures.tokens import context_matrices

    options.check_out(out, force, options.PICTURES)
    numbers = options.free_path(out.with_suffix(".json"), force)
    loaded, estimator = asked.opened.loaded, asked.opened.estimator
    if loaded.tokenizer is None or loaded.embed is None:
        raise DataError("a language model or its maps", loaded.spec, "Use an hf: causal language model.")
    length = loaded.input_shape[0]
    given = {"two meanings": polysemy(loaded.tokenizer, length), "agreement": agreement(loaded.tokenizer, length)}
    parts: dict[str, Any] = {}
    record: dict[str, Any] = {"target": estimator.target, "stage": stage}
    for name, own in given.items():
        with torch.no_grad():
            x = loaded.embed(stacked(own))
        profile = profiles(estimator, x, [length - 1], stage)
        parts[name] = (profile.cpu().numpy(), own)
        record[name] = [
            {"text": context.text, "variant": context.variant, "profile": [round(share, 5) for share in row]}
            for context, row in zip(own, profile.tolist(), strict=True)
        ]
    title = f"Terminal-token inverses of {estimator.target}, {stage_name(estimator, stage)}"
    save_figure(context_matrices(parts, title), out, overwrite=force)
    write_text(numbers, json.dumps(record, indent=1) + "\n")
    say(f"{sum(map(len, given.values()))} contexts", quiet)
    typer.echo(str(out))


def _ids(loaded: LoadedModel, text: str, quiet: bool) -> torch.Tensor:
    """(L,) the text's last tokens, as many as the maps were fitted for, or ``--size`` says, at most."""
    if loaded.tokenizer is None:
        raise DataError("a language model or its maps", loaded.spec, "Use an hf: causal language model.")
    ids = tokenise(loaded.tokenizer, text)
    most = loaded.input_shape[0]
    if len(ids) < 2:
        raise DataError("a text of two tokens or more", f"{len(ids)} in {text!r}", "Write a longer one.")
    if len(ids) > most:
        say(f"There is room for {most} tokens: the first {len(ids) - most} of {len(ids)} are left out.", quiet)
    return ids[-most:]


def _positions(position: list[int] | None, every: bool, length: int) -> list[int]:
    if every:
        return list(range(length))
    positions = [at + length if at < 0 else at for at in position or [-1]]
    wrong = [at for at in positions if not 0 <= at < length]
    if wrong:
        raise QueryError(f"positions from 0 to {length - 1}, or -1 for the last", str(wrong), "Count the tokens again.")
    return positions


def _answer(
    loaded: LoadedModel, estimator: Estimator, ids: torch.Tensor, positions: list[int], stage: str
) -> dict[str, Any]:
    embed, tokenizer = loaded.embed, loaded.tokenizer
    assert embed is not None
    with torch.no_grad():
        x = embed(ids.unsqueeze(0))
    table = loaded.vocabulary
    assert table is not None
    queries = []
    inverses = sgfi.sweep(estimator, x, [sgfi.Query(coords=[at]) for at in positions], stage=stage)
    for at, inverse in zip(positions, inverses, strict=True):
        profile = energy_profile(inverse.value)[0]
        words = [[tokenizer.decode([word]) for word in row] for row in nearest(inverse.value[0], table, 3).tolist()]
        queries.append(
            {
                "position": at,
                "profile": profile.tolist(),
                "entropy": float(entropy(profile)),
                "own_mass": float(profile[at]),
                "future_mass": float(profile[at + 1 :].sum()),
                "nearest_words": words,
            }
        )
    spelled = [tokenizer.decode([token]) for token in ids.tolist()]
    return {"target": estimator.target, "stage": stage, "ids": ids.tolist(), "tokens": spelled, "queries": queries}


def _draw(record: dict[str, Any], cues: list[str], title: str, out: Path, force: bool) -> None:
    from sgfi.figures import save_figure
    from sgfi.figures.tokens import Strip, token_strips

    spelled = record["tokens"]
    marked = [at for at, token in enumerate(spelled) if token.strip() in cues]
    strips = [
        Strip(spelled, query["profile"], f"query {query['position']}", marked, [query["position"]])
        for query in record["queries"]
    ]
    save_figure(token_strips(strips, title), out, overwrite=force)
