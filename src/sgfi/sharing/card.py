"""The page that goes with a published family: what it is, how it was made, how good it is, what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import sgfi
from sgfi.errors import StoreError
from sgfi.evaluation.metrics import pixel_cosine
from sgfi.evaluation.tables import markdown_table
from sgfi.evaluation.trust import trust
from sgfi.inversion import Query, depth_targets
from sgfi.storage import record_of

LIMITS = """- These maps belong to one checkpoint and one forward: other weights are refused.
- Alignment with the input is not a score of the feature. Where random targets give nearly the same picture (column
  *random*), the picture shows the operating point and not the feature; deep tensors of convolutional networks do.
- Inverses are estimates under a linear model around one input, not reconstructions of what a feature "means"."""


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
    """Held-out numbers of one target: means over inputs."""

    target: str
    cosine: float
    random: float | None
    swapped: float | None
    neighbours: float | None


def held_out_scores(family: sgfi.MapFamily, x: Tensor, count: int = 5) -> list[DepthScore]:
    """At about ``count`` depths: alignment of the whole tensor's inverse, and the controls of a channel's picture."""
    scores = []
    for target in depth_targets(family, count):
        value = sgfi.invert(family, x, target).value + family.origin
        node = family.node(target)
        checked = trust(family, x, Query(target, [node.channels // 2]))
        controls = (checked.random, checked.swapped, checked.neighbours)
        means = [None if score is None else float(score.abs().mean()) for score in controls]
        scores.append(DepthScore(target, float(pixel_cosine(value, x).mean()), *means))
    return scores


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
        *([f"![inverses of held-out inputs]({picture})"] if picture else []),
        "## Use\n\n```python\nimport sgfi\n\n"
        f"family = sgfi.from_pretrained({json.dumps(name)})  # @revision pins it; target=... fetches a part\n"
        "answer = sgfi.invert(family, x, channels=[0])\n```",
        "## Settings\n\n" + markdown_table(["", ""], [[key, value] for key, value in facts.items()]),
        "## Held out\n\n" + _score_table(scores, inputs),
        f"## Limits\n\n{LIMITS}",
    ]
    return "\n\n".join(parts) + "\n"


def _score_table(scores: Sequence[DepthScore], inputs: int) -> str:
    if not scores:
        return "Not measured: no held-out inputs were given when this was published."
    head = ["target", "pixel cosine", "random", "another input's", "neighbours"]
    shown = [
        [
            f"`{score.target}`",
            *("" if v is None else f"{v:.2f}" for v in (score.cosine, score.random, score.swapped, score.neighbours)),
        ]
        for score in scores
    ]
    words = (
        f"Means over {inputs} inputs that the publisher says the maps were not fitted to. *pixel cosine*: the whole "
        "tensor's inverse with the input. Controls of one channel's picture, as absolute cosines: with random "
        "targets', with another input's target's, with other channels' pictures; low is selective."
    )
    return f"{words}\n\n{markdown_table(head, shown)}"


def as_batch(inputs: Any) -> Tensor:
    """(N, *input) from a tensor or batches."""
    return inputs if isinstance(inputs, Tensor) else torch.cat(list(inputs))
