"""Texts: which source tokens an answer came from, and what a state is going to.

The logit lens reads a state out as if the model ended there. A Jacobian lens first carries it to the end by a matrix
``M_l`` of its layer, which somebody fitted: ``unembed(norm(M_l h_l))``. It is a .safetensors file with one ``(D, D)``
tensor for a layer, named by the layer's number, counted from one, or by the tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

import sgfi
from sgfi.errors import DataError, QueryError
from sgfi.explorer.lenses import Lens
from sgfi.language import anatomy, energy_profile, tokenise

GUESSES = 5


def strip(value: Tensor) -> dict[str, Any]:
    """Where among the source tokens the energy of an inverse (1, L, D) lies; shares that sum to one."""
    return {"profile": [round(share, 5) for share in energy_profile(value)[0].tolist()]}


def pieces(lens: Lens, text: str) -> list[str]:
    """The text's tokens as people read them."""
    ids = tokenise(lens.loaded.tokenizer, text)
    return [lens.loaded.tokenizer.decode([token]) for token in ids.tolist()]


@torch.no_grad()
def grid(lens: Lens, estimator: sgfi.Estimator, x: Tensor, carried: Path | None = None) -> dict[str, Any]:
    """Layer by position: the residual stream after every layer, read out by the Jacobian lens where ``carried`` has a
    matrix for the layer, else by the logit lens."""
    body = anatomy(estimator.graph)
    names = tuple(body.tensor(layer) for layer in range(1, len(body.blocks) + 1))
    readout, matrices = _readout(lens), {} if carried is None else read_matrices(carried, estimator, names)
    states = estimator.graph.program(("input",), names)(x)
    rows = []
    for name, state in zip(names, states, strict=True):
        moved = state[0] @ matrices[name].to(state).mT if name in matrices else state[0]  # (L, D)
        odds = torch.softmax(readout(moved).double(), -1)  # (L, vocabulary)
        best = odds.topk(GUESSES, dim=-1)
        rows.append(
            {
                "node": name,
                "lens": "Jacobian lens" if name in matrices else "logit lens",
                "next": [[lens.loaded.tokenizer.decode([token]) for token in row] for row in best.indices.tolist()],
                "odds": [[round(share, 4) for share in row] for row in best.values.tolist()],
                "length": [round(number, 4) for number in state[0].double().norm(dim=-1).tolist()],
            }
        )
    return {"rows": rows}


def read_matrices(path: Path, estimator: sgfi.Estimator, names: Sequence[str]) -> dict[str, Tensor]:
    """(D, D) by tensor: every one must belong to a layer of this model."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError("a .safetensors file of a Jacobian lens", f"{path.name}: {error}", "Save it again.") from error
    matrices, width = {}, estimator.node(names[0]).channels
    for key, matrix in tensors.items():
        layer = int(key) if key.isdecimal() else 0
        known = key in estimator.graph.nodes and estimator.graph.nodes.canonical(key) in names
        if not known and not 1 <= layer <= len(names):
            todo = f"Name matrices by layer, 1 to {len(names)}, or by tensor: {names[0]}, ..."
            raise DataError("a layer of this model", f"{key!r} in {path.name}", todo)
        if tuple(matrix.shape) != (width, width) or not torch.isfinite(matrix).all():
            got = f"{tuple(matrix.shape)} for {key!r} in {path.name}"
            raise DataError(f"finite matrices ({width}, {width})", got, "From the residual to the final residual.")
        matrices[estimator.graph.nodes.canonical(key) if known else names[layer - 1]] = matrix
    return matrices


def _readout(lens: Lens) -> Any:
    """Final norm and unembedding of a Hugging Face causal language model: (L, D) -> (L, vocabulary)."""
    lm: Any = getattr(lens.loaded.model, "lm", None)
    head = lm.get_output_embeddings() if lm is not None and hasattr(lm, "get_output_embeddings") else None
    base = getattr(lm, "base_model", None)
    norms = [module for name, module in base.named_children() if "norm" in name or name == "ln_f"] if base else []
    if head is None or len(norms) != 1 or not isinstance(norms[0], nn.Module):
        raise QueryError(
            "a language model with one final norm and an unembedding",
            type(lm).__name__,
            "The logit lens cannot be read off this model; click a cell for its source tokens.",
        )
    return lambda state: head(norms[0](state))
