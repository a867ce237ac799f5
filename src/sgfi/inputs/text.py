"""A text file as windows of tokens, for language models on the command line and in experiments."""

from __future__ import annotations

from pathlib import Path

import torch

from sgfi.errors import DataError
from sgfi.inputs.loaded import LoadedModel
from sgfi.language.windows import tokenise
from sgfi.settings import read_bounded

LONGEST_TEXT = 256 << 20
"""Bytes of one text file."""


def text_windows(path: Path, loaded: LoadedModel) -> torch.Tensor:
    """(N, L) consecutive windows of ``input_shape[0]`` tokens. An incomplete last window is left out."""
    if loaded.tokenizer is None or loaded.embed is None:
        raise DataError(
            f"a language model for the text file {path.name}", loaded.spec, "Use an hf: causal language model."
        )
    try:
        text = read_bounded(path, LONGEST_TEXT).decode("utf-8", errors="replace")
    except OSError as error:
        raise DataError(f"a text file of at most {LONGEST_TEXT} bytes", str(error), "Split it.") from error
    ids = tokenise(loaded.tokenizer, text)
    length = loaded.input_shape[0]
    count = len(ids) // length
    if count == 0:
        raise DataError(
            f"at least {length} tokens", f"{len(ids)} in {path.name}", "Give more text or a smaller --size."
        )
    return ids[: count * length].view(count, length)
