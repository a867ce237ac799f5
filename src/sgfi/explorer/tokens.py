"""Texts: which source tokens an answer came from, and what a state is going to (the logit lens)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import QueryError
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
def grid(lens: Lens, estimator: sgfi.Estimator, x: Tensor) -> dict[str, Any]:
    """Layer by position: the residual stream after every layer, read out as if the model ended there (logit lens)."""
    body = anatomy(estimator.graph)
    names = tuple(body.tensor(layer) for layer in range(1, len(body.blocks) + 1))
    readout = _readout(lens)
    states = estimator.graph.program(("input",), names)(x)
    rows = []
    for name, state in zip(names, states, strict=True):
        odds = torch.softmax(readout(state[0]).double(), -1)  # (L, vocabulary)
        best = odds.topk(GUESSES, dim=-1)
        rows.append(
            {
                "node": name,
                "next": [[lens.loaded.tokenizer.decode([token]) for token in row] for row in best.indices.tolist()],
                "odds": [[round(share, 4) for share in row] for row in best.values.tolist()],
                "length": [round(number, 4) for number in state[0].double().norm(dim=-1).tolist()],
            }
        )
    return {"rows": rows}


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
