"""A text file as windows of tokens, for language models on the command line and in experiments."""

from __future__ import annotations

from pathlib import Path

import torch

from sgfi.errors import DataError
from sgfi.inputs.loaded import LoadedModel
from sgfi.language.windows import tokenise


def text_windows(path: Path, loaded: LoadedModel) -> torch.Tensor:
    """(N, L) consecutive windows of ``input_shape[0]`` tokens. An incomplete last window is left out."""
    if loaded.tokenizer is None or loaded.embed is None:
        raise DataError(
            f"a language model for the text file {path.name}", loaded.spec, "Use an hf: causal language model."
        )
    ids = tokenise(loaded.tokenizer, path.read_text(encoding="utf-8", errors="replace"))
    length = loaded.input_shape[0]
    count = len(ids) // length
    if count == 0:
        raise DataError(
            f"at least {length} tokens", f"{len(ids)} in {path.name}", "Give more text or a smaller --size."
        )
    return ids[: count * length].view(count, length)
