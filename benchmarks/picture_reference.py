"""What a feature of a picture is compared with: the state of the mean input, the mean over the prior, or photographs.

``python -m benchmarks.picture_reference``: the natural inverse with ``t`` from each, the strongest channels (largest
deviation from the mean state of other photographs) and cells. How often a picture is the one that removes its own
feature most, judged by the deviation from the mean input's state and from other photographs' mean state; and mean
cosines of the answer with what another photograph's target gives at the same photograph, and with the answer at that
other photograph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import sgfi
from benchmarks.common import network, parser, photographs, table, write
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.removal import Trial
from sgfi.experiments.measures.answers import Asked, strongest_and_spread
from sgfi.inversion import Query, Selections
from sgfi.natural import reference_state

NETWORKS = {
    "lite0": ("efficientnet_lite0", 64, ("blocks.2.1", "blocks.4.1", "blocks.6.0.bn3")),
    "mobilenet_v2": ("mobilenet_v2", 96, ("features.6", "features.13", "features.17")),
    "deit_tiny": ("deit_tiny", 224, ("blocks.3", "blocks.7", "blocks.11")),
}
SCORES = {
    "usual": "best at own, by other photographs",
    "mean": "best at own, by the mean input",
    "own": "removes, by other photographs",
    "swapped": "cosine with another target's",
    "unrelated": "cosine with another input's answer",
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS)
    options.add_argument("--images", type=int, default=4)
    options.add_argument("--queries", type=int, default=8)
    options.add_argument("--corpus", type=int, default=192, help="other photographs, for their mean state")
    chosen = options.parse_args()
    record: dict[str, Any] = {**vars(chosen), "scores": {}}
    for label in chosen.networks:
        name, size, targets = NETWORKS[label]
        loaded = network(name, size)
        corpus, held_out = photographs(chosen.corpus, chosen.images + 1, loaded.preprocessing, seed=11)
        lens = sgfi.natural(sgfi.capture(loaded.model, loaded.example), loaded.preprocessing)
        lenses = {
            "mean input": lens,
            "mean over the prior": lens.centred(),
            "mean over other photographs": lens.centred(corpus),
        }
        for target in targets:
            record["scores"][f"{label}, {target}"] = compared(lenses, held_out, target, chosen.queries)
            write("picture_reference", record, page(record))  # a long run that is stopped has its first tensors


@torch.no_grad()
def compared(lenses: dict[str, sgfi.NaturalInverse], x: Tensor, target: str, queries: int) -> dict[str, Any]:
    """By kind of query and reference: the mean of every score over photographs, the last of which is another's only."""
    lens, usual = lenses["mean input"], lenses["mean over other photographs"]
    node = lens.node(target)
    at_mean = reference_state(lens.graph, node.name, x, lens.prior)
    state = lens.state(x, node.name) + at_mean
    mean = state[0] - usual.state(x[:1], node.name)[0]
    sums: dict[str, dict[str, dict[str, float]]] = {}
    for number in range(len(x) - 1):
        here, there = x[number : number + 1], x[number + 1 : number + 2]
        asked = Asked(channels=queries, cells=queries, strongest="deviation")
        for kind, group in strongest_and_spread(node, state[number], mean, asked):
            judges = {
                "usual": _judge(lens, here, group, state[number] - mean),
                "mean": _judge(lens, here, group, state[number] - at_mean),
            }
            for label, asking in lenses.items():
                scores = _scores(asking, judges, group, here, there)
                kept = sums.setdefault(kind, {}).setdefault(label, dict.fromkeys(SCORES, 0.0))
                for score, value in scores.items():
                    kept[score] += value / (len(x) - 1)
    return sums


def _judge(lens: sgfi.NaturalInverse, x: Tensor, queries: list[Query], deviation: Tensor) -> Trial:
    selections = Selections.of(query.selection(lens.node(query.target), x.device) for query in queries)
    trial = Trial.of(lens.graph, x, queries, lens.prior)
    return replace(trial, deviations=selections.project(deviation.unsqueeze(0)))


def _scores(
    lens: sgfi.NaturalInverse, judges: dict[str, Trial], queries: list[Query], here: Tensor, there: Tensor
) -> dict[str, float]:
    answers = [inverse.value for inverse in sgfi.sweep(lens, here, queries)]
    elsewhere = lens.state(there, queries[0].target)
    removed = {name: judge.removal(answers) for name, judge in judges.items()}
    scores = {name: float(each.best_at_own.mean()) for name, each in removed.items()}
    scores["own"] = float(removed["usual"].own.mean())
    others = {
        "swapped": sgfi.sweep(lens, here, queries, terminal=elsewhere),
        "unrelated": sgfi.sweep(lens, there, queries),
    }
    for name, inverses in others.items():
        cosines = [pixel_cosine(inverse.value, own) for inverse, own in zip(inverses, answers, strict=True)]
        scores[name] = float(torch.cat(cosines).mean())
    return scores


def page(record: dict[str, Any]) -> str:
    rows = [
        [tensor, kind, label, *(f"{score:.2f}" for score in scores.values())]
        for tensor, kinds in record["scores"].items()
        for kind, references in kinds.items()
        for label, scores in references.items()
    ]
    every = [references for kinds in record["scores"].values() for references in kinds.values()]
    for label in every[0]:
        means = [sum(references[label][score] for references in every) / len(every) for score in SCORES]
        rows.append(["mean", "", label, *(f"{mean:.2f}" for mean in means)])
    head = table(["tensor", "queries", "compared with", *SCORES.values()], rows)
    return f"{record['images']} photographs, {record['queries']} queries of a kind:\n\n{head}"


if __name__ == "__main__":
    main()
