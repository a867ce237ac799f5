"""What a language model's features are compared with: the state of the mean embedding, or the mean state of the prior.

``python -m benchmarks.token_reference``: how long the states are at the first and at later positions, and how well the
natural inverse tells positions and channels apart with either reference, judged by the mean state of other text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import assets, parser, table, write
from sgfi.evaluation.removal import Trial
from sgfi.inputs.models import load_model
from sgfi.inversion import Selections
from sgfi.language import tokenise
from sgfi.natural import embedding_prior, reference_state

POSITIONS = (0, 1, 5, 15)
QUERIES = 8


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--layers", type=int, nargs="+", default=[3, 11])
    options.add_argument("--windows", type=int, default=4)
    options.add_argument("--corpus", type=int, default=256, help="other windows, for the mean state that judges")
    chosen = options.parse_args()
    loaded = load_model("pip:smollm2_135m", size=16)
    assert loaded.embed is not None
    weights: Tensor = loaded.embed.weight.detach()  # type: ignore[assignment]
    ids = tokenise(loaded.tokenizer, (assets() / "text" / "wikitext2_valid.txt").read_text(encoding="utf-8"))
    prior = embedding_prior(weights, 16, torch.bincount(ids, minlength=len(weights)))
    windows = weights[ids[: (chosen.corpus + chosen.windows) * 16].reshape(-1, 16)]
    corpus, held_out = windows[: chosen.corpus], windows[chosen.corpus :]
    graph = sgfi.capture(loaded.model, held_out[:1])
    lens = sgfi.natural(graph, prior)
    record: dict[str, Any] = {"windows": len(held_out), "corpus": len(corpus), "layers": {}}
    for layer in chosen.layers:
        name = graph.nodes.canonical(f"lm.model.layers.{layer}")
        program = graph.program(("input",), (name,))
        with torch.no_grad():
            states = torch.cat([program(part)[0] for part in corpus.split(16)])
            at_mean = program(prior.mean.unsqueeze(0))[0][0]
            over_prior = reference_state(graph, name, held_out, prior)
        usual = states.mean(0)
        lengths = {
            "text, median": states.norm(dim=-1).median(0).values,
            "mean embedding": at_mean.norm(dim=-1),
            "mean over the prior": over_prior.norm(dim=-1),
        }
        references = {"mean embedding": at_mean, "mean over the prior": over_prior, "mean over other text": usual}
        record["layers"][str(layer)] = {
            "length": {label: [float(row[position]) for position in POSITIONS] for label, row in lengths.items()},
            "removal": {label: scores(lens, held_out, name, row, usual) for label, row in references.items()},
        }
    write("token_reference", record, page(record))


@torch.no_grad()
def scores(lens: sgfi.NaturalInverse, x: Tensor, name: str, reference: Tensor, usual: Tensor) -> dict[str, float]:
    """Best at own and removal of the queries' own feature, with ``t = H(x) - reference``, judged against ``usual``."""
    means: dict[str, float] = {}
    node, state = lens.node(name), lens.graph.program(("input",), (name,))(x)[0]
    cells = [sgfi.Query(name, None, [(position,)]) for position in range(1, 16, 15 // QUERIES)][:QUERIES]
    for kind in ("channels", "cells"):
        results = []
        for index in range(len(x)):
            own = state[index : index + 1]
            strongest = (own[0] - usual).square().sum(0).topk(QUERIES).indices.tolist()
            queries = [sgfi.Query(name, channel) for channel in strongest] if kind == "channels" else cells
            selections = Selections.of(query.selection(node, x.device) for query in queries)
            trial = Trial.of(lens.graph, x[index : index + 1], queries, lens.prior)
            trial = replace(trial, deviations=selections.project(own - usual))
            answers = sgfi.sweep(lens, x[index : index + 1], queries, terminal=own - reference)
            results.append(trial.removal([answer.value for answer in answers]))
        means[f"{kind}, best at own"] = float(torch.cat([result.best_at_own for result in results]).mean())
        means[f"{kind}, removes"] = float(torch.cat([result.own for result in results]).mean())
    return means


def page(record: dict[str, Any]) -> str:
    lengths = [
        [layer, label, *(f"{number:,.0f}" for number in row)]
        for layer, part in record["layers"].items()
        for label, row in part["length"].items()
    ]
    removals = [
        [layer, label, *(f"{number:.2f}" for number in row.values())]
        for layer, part in record["layers"].items()
        for label, row in part["removal"].items()
    ]
    names = list(next(iter(next(iter(record["layers"].values()))["removal"].values())))
    return "\n\n".join(
        [
            f"Length of SmolLM2-135M's states at positions {', '.join(map(str, POSITIONS))} of 16:",
            table(["layer", "state", *map(str, POSITIONS)], lengths),
            f"The natural inverse with each, {record['windows']} windows, {QUERIES} queries of a kind, judged "
            f"by the mean state of {record['corpus']} other windows:",
            table(["layer", "reference", *names], removals),
        ]
    )


if __name__ == "__main__":
    main()
