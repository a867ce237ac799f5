"""A causal language model seen from its input embeddings: tokens are discrete, embeddings can be inverted to."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from sgfi.errors import CaptureError


class EmbeddingModel(nn.Module):
    """From embeddings ``(B, L, D)`` to logits ``(B, L, vocabulary)``; D is the channel axis."""

    def __init__(self, lm: Any) -> None:
        super().__init__()
        self.lm = lm

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.lm(inputs_embeds=embeddings, use_cache=False).logits


def embedding_model(lm: Any) -> EmbeddingModel:
    """Wrap a Hugging Face causal language model; weights are shared and the model is left as it was.

    Feed it ``lm.get_input_embeddings()(ids)``.
    """
    if not isinstance(lm, nn.Module) or not hasattr(lm, "get_input_embeddings"):
        raise CaptureError(
            "a Hugging Face causal language model", type(lm).__name__, "Load it with AutoModelForCausalLM."
        )
    wrapped = EmbeddingModel(lm)
    wrapped.training = lm.training  # the wrapper's own flag only
    return wrapped
