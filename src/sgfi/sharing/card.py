"""The page that goes with a published family: what it is, how it was made, how good it is, what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.errors import StoreError
from sgfi.evaluation.metrics import pixel_cosine, relative_error
from sgfi.evaluation.quality import quality
from sgfi.evaluation.selectivity import compare
from sgfi.evaluation.tables import markdown_table
from sgfi.evaluation.trust import trust
from sgfi.inputs.preprocessing import Preprocessing
from sgfi.inversion import Query, depth_targets
from sgfi.storage import record_of

LIMITS = """- These maps belong to one checkpoint and one forward: other weights are refused.
- Alignment with the input is not a score of the feature. Where random targets give nearly the same picture (column
  *random*), the picture shows the operating point and not the feature; deep tensors of convolutional networks do.
- Inverses are estimates under a linear model around one input, not reconstructions of what a feature "means"."""

UNMEASURED = "Not measured"
SHOWN = 3
"""Inputs on the card's picture."""
DEAD = 1e-6
"""Of the strongest channel's energy: channels with less are not asked about."""
COMPARED = 8
"""Channels that are compared with each other at every depth."""


@dataclass(frozen=True)
class Licences:
    """What the model's weights and the calibration data may be used for, as SPDX names or in words."""

    model: str
    data: str

    def __post_init__(self) -> None:
        for what, text in (("model", self.model), ("data", self.data)):
            if not isinstance(text, str) or not text.strip() or "\n" in text or len(text) > 200:
                todo = "State it, for example 'apache-2.0', or 'unknown' where it is."
                raise StoreError(f"the licence of the {what} in one line", repr(text)[:100], todo)


@dataclass(frozen=True)
class DepthScore:
    """Held-out numbers of one target, means over inputs; ``None`` where they mean nothing (one channel, one input)."""

    target: str
    cosine: float
    error: float
    random: float | None
    swapped: float | None
    neighbours: float | None
    likeness: float | None
    excites: float | None
    """The share of channels whose own inverse, pushed forward, excites them most."""
    channels: int
    """That were compared with each other: by chance one in so many excites itself."""


def held_out_scores(family: sgfi.MapFamily, x: Tensor, count: int = 5) -> list[DepthScore]:
    """At about ``count`` depths: the whole tensor's inverse, controls of a channel's picture, channels side by side."""
    return [_score(family, x, target) for target in depth_targets(family, count)]


def _score(family: sgfi.MapFamily, x: Tensor, target: str) -> DepthScore:
    value = sgfi.invert(family, x, target).value + family.origin
    active = active_channels(family, x, target)
    checked = trust(family, x, Query(target, [active[len(active) // 2]]))
    channels = sorted({active[index * len(active) // COMPARED] for index in range(COMPARED)})
    queries = [Query(target, [channel]) for channel in channels]
    beside = compare(family, x, queries) if len(queries) > 1 else {}
    return DepthScore(
        target=target,
        cosine=float(pixel_cosine(value, x).mean()),
        error=float(relative_error(value, x).mean()),
        random=_mean(checked.random),
        swapped=_mean(checked.swapped),
        neighbours=_mean(checked.neighbours),
        likeness=_mean(beside.get("likeness")),
        excites=_mean(beside.get("excites_itself")),
        channels=len(channels),
    )


def active_channels(family: sgfi.MapFamily, x: Tensor, target: str) -> list[int]:
    """Those that any input reaches: the picture of a dead channel is blank, and unlike all others."""
    state = family.state(x, target).movedim(family.node(target).channel_axis or 1, 1)
    energy = state.flatten(2).square().mean((0, 2)) if state.dim() > 2 else state.square().mean(0)
    return torch.nonzero(energy >= DEAD * energy.max()).flatten().tolist()


def _mean(scores: Tensor | None) -> float | None:
    return None if scores is None else float(scores.abs().mean())


def model_card(
    manifest: Mapping[str, Any],
    licences: Licences,
    name: str,
    scores: Sequence[DepthScore] = (),
    inputs: int = 0,
    picture: str | None = None,
) -> str:
    """Markdown with the front matter that hubs read."""
    plan, fit = manifest["plan"], manifest["calibration"]
    model, data = record_of(manifest, "model"), record_of(manifest, "data")
    size = sum(entry["bytes"] for entry in manifest["files"].values())
    base = manifest["model"]
    facts = {
        "model": f"`{model.get('spec', base['class'])}`, fingerprint `{base['fingerprint'][:16]}`",
        "licence of the model": licences.model,
        "calibration data": f"{fit['samples']} samples, digest `{data.get('digest', 'not recorded')}`",
        "licence of the data": licences.data,
        "input": "x".join(map(str, base["input_shape"])),
        "target": f"`{plan['target']}`",
        "boundaries": f"{plan['mode']}, {len(manifest['files'])} fitted nodes",
        "fit": f"{fit['children']} children, {fit['stages']} maps a node, ridge {fit['ridge']}",
        "precision": str(manifest.get("precision", "full")),
        "size": f"{size / 2**20:.1f} MiB",
        "versions": ", ".join(f"{key} {value}" for key, value in manifest.get("versions", {}).items()),
    }
    front = {"library_name": "sgfi", "tags": ["feature-inversion", "interpretability"], "license": "other"}
    front["license_name"] = licences.model
    parts = [
        "---\n" + "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items()) + "---",
        f"# {name}\n\nA map family of sgfi: what internal features of this model, on an input, look like in the input "
        "domain.",
        f"![inverses of held-out inputs]({picture})" if picture else "No picture was given.",
        "## Use\n\n```python\nimport sgfi\n\n"
        f"family = sgfi.from_pretrained({json.dumps(name)})  # @revision pins it; target=... fetches a part\n"
        "answer = sgfi.invert(family, x, channels=[0])\n```",
        "## Settings\n\n" + markdown_table(["", ""], [[key, value] for key, value in facts.items()]),
        "## Held out\n\n" + _score_table(scores, inputs),
        "## Recorded at calibration\n\n" + _recorded(manifest),
        f"## Limits\n\n{LIMITS}",
    ]
    return "\n\n".join(parts) + "\n"


def _score_table(scores: Sequence[DepthScore], inputs: int) -> str:
    if not scores:
        return f"{UNMEASURED}: no held-out inputs were given when this was published."
    alignment = [[f"`{score.target}`", _number(score.cosine), _number(score.error)] for score in scores]
    controls = [
        [f"`{score.target}`", *map(_number, (score.random, score.swapped, score.neighbours))] for score in scores
    ]
    selective = [
        [f"`{score.target}`", _number(score.likeness), _number(score.excites), f"1 in {score.channels}"]
        for score in scores
    ]
    return "\n\n".join(
        [
            f"Means over {inputs} inputs that the publisher says the maps were not fitted to.",
            "Alignment: the whole tensor's inverse beside the input.",
            markdown_table(["target", "pixel cosine", "relative error"], alignment),
            "Controls of an active channel's picture, as absolute cosines with it: the picture of a random target, of "
            "another input's target, of other channels. Low is selective.",
            markdown_table(["target", "random", "another input's", "neighbours"], controls),
            "Selectivity of active channels spread over the tensor: how alike their pictures are, and the share of "
            "them whose own picture, fed forward, excites them most.",
            markdown_table(["target", "likeness", "excites itself", "by chance"], selective),
        ]
    )


def _recorded(manifest: Mapping[str, Any]) -> str:
    """What the manifest knows without data: the error of every node, and the learning curve."""
    nodes = [node for node in quality(manifest) if node.unseen]
    curve = manifest["calibration"].get("curve", {})
    parts = []
    if nodes:
        shown = [[f"`{node.name}`", *map(_number, (node.seen, node.unseen[-1]))] for node in nodes]
        parts.append("Share of a node's energy that its maps miss, of samples they were fitted to and of others.")
        parts.append(markdown_table(["node", "seen", "unseen"], shown))
    else:
        parts.append(f"{UNMEASURED}: errors of the nodes on unseen samples, which this way of fitting does not record.")
    if curve.get("samples") and curve.get("missed"):
        counts = [[str(count), *row] for count, *row in zip(curve["samples"], *_columns(curve["missed"]), strict=False)]
        parts.append(
            f"Learning curve: missed by first maps on true children, of {curve['held_out']} samples held out of it."
        )
        parts.append(markdown_table(["samples", *(f"`{name}`" for name in curve["missed"])], counts))
    else:
        parts.append(f"{UNMEASURED}: a learning curve.")
    return "\n\n".join(parts)


def _columns(missed: Mapping[str, Sequence[float]]) -> list[list[str]]:
    return [[_number(share) for share in shares] for shares in missed.values()]


def _number(value: float | None) -> str:
    return UNMEASURED.lower() if value is None else f"{value:.2f}"


def draw_ladder(family: sgfi.MapFamily, x: Tensor, file: Path) -> None:
    """A few pictures and their inverses from several depths."""
    from sgfi.figures import depth_ladder, save_figure

    model = family.provenance.get("model")
    record = model.get("preprocessing") if isinstance(model, Mapping) else None
    prepared = Preprocessing.from_dict(record) if record else None
    save_figure(depth_ladder(family, x[:SHOWN], preprocessing=prepared), file)


def as_batch(inputs: Any) -> Tensor:
    """(N, *input) from a tensor or batches."""
    return inputs if isinstance(inputs, Tensor) else torch.cat(list(inputs))
