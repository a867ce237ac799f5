"""A causal language model seen from its input embeddings: tokens are discrete, embeddings can be inverted to."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, nn

from sgfi.errors import CaptureError
from sgfi.graph.onloading import copied
from sgfi.graph.wrappers import unwrapped

POOLINGS = (None, "mean", "cls")


class EmbeddingModel(nn.Module):
    """From embeddings ``(B, L, D)`` to logits ``(B, L, vocabulary)``; D is the channel axis.

    With ``last`` the logits of the final position alone, ``(B, vocabulary)``: a decision about the next token.
    """

    def __init__(self, lm: Any, last: bool = False) -> None:
        super().__init__()
        self.lm, self.last = lm, last

    def forward(self, embeddings: Tensor) -> Tensor:
        kept = {"logits_to_keep": 1} if self.last else {}
        logits = self.lm(inputs_embeds=embeddings, use_cache=False, **kept).logits
        return logits[:, -1] if self.last else logits


class EncoderModel(nn.Module):
    """A bidirectional model from embeddings ``(B, L, D)`` to its scores or last states ``(B, L, ...)``.

    With ``pooling`` ("mean" of all tokens, or "cls", the first) a sentence encoder, ``(B, D)``. Nothing is padded.
    """

    def __init__(self, lm: Any, pooling: str | None = None) -> None:
        super().__init__()
        if pooling not in POOLINGS:
            raise CaptureError(f"a pooling among {list(POOLINGS)}", repr(pooling), "Choose one of these.")
        self.lm, self.pooling = lm, pooling
        self.training = lm.training

    def forward(self, embeddings: Tensor) -> Tensor:
        returned = self.lm(inputs_embeds=embeddings)
        states = returned.logits if hasattr(returned, "logits") else returned.last_hidden_state
        if self.pooling is None:
            return states
        return states.mean(1) if self.pooling == "mean" else states[:, 0]


def embedding_model(lm: Any, *, last: bool = False, layers: int | None = None) -> EmbeddingModel:
    """Wrap a Hugging Face causal language model; weights are shared and the model is left as it was.

    Feed it ``lm.get_input_embeddings()(ids)``. ``layers`` keeps the first few only: a target inside them has the same
    value, and the rest need not be captured.
    """
    lm = unwrapped(lm)
    if not isinstance(lm, nn.Module) or not hasattr(lm, "get_input_embeddings"):
        raise CaptureError(
            "a Hugging Face causal language model", type(lm).__name__, "Load it with AutoModelForCausalLM."
        )
    wrapped = EmbeddingModel(lm if layers is None else _shortened(lm, layers), last)
    wrapped.training = lm.training  # the wrapper's own flag only
    return wrapped


def block_list(lm: nn.Module) -> tuple[str, nn.ModuleList]:
    """Where the model keeps its layers, and the layers: the longest list of modules of one class."""
    lists = [(name, blocks) for name, blocks in lm.named_modules() if isinstance(blocks, nn.ModuleList) and len(blocks)]
    alike = [(name, blocks) for name, blocks in lists if len({type(module) for module in blocks}) == 1]
    if not alike:
        raise CaptureError("a model that keeps its layers in one list", type(lm).__name__, "Name the tensors yourself.")
    return max(alike, key=lambda pair: len(pair[1]))


def _shortened(lm: nn.Module, layers: int) -> nn.Module:
    """A model of the first layers that shares their weights; only the way down to the list is copied."""
    name, blocks = block_list(lm)
    if not 1 <= layers <= len(blocks):
        raise CaptureError(f"1 to {len(blocks)} layers", str(layers), "Choose fewer layers.")
    short = copied(lm)
    parent = short
    for attribute in name.split(".")[:-1]:
        child = copied(getattr(parent, attribute))
        parent._modules = {**parent._modules, attribute: child}
        parent = child
    kept = nn.ModuleList(blocks[:layers])
    kept.training = blocks.training
    parent._modules = {**parent._modules, name.split(".")[-1]: kept}
    for module in (short, parent):
        if hasattr(module, "config"):
            config: Any = copy.deepcopy(module.config)
            config.num_hidden_layers = layers
            module.config = config
    return short
