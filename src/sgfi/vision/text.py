"""A text file as embedding windows, for ``hf:`` language models on the command line."""

from __future__ import annotations

from pathlib import Path

import torch

from sgfi.errors import DataError
from sgfi.vision.data import TensorBatches
from sgfi.vision.models import LoadedModel


def text_batches(path: Path, loaded: LoadedModel, batch_size: int, limit: int | None) -> TensorBatches:
    """Consecutive windows of ``input_shape[0]`` tokens, embedded: (N, L, D). An incomplete last
    window is left out."""
    if loaded.tokenizer is None or loaded.embed is None:
        raise DataError(
            f"a language model for the text file {path.name}",
            loaded.spec,
            "Use an hf: causal language model.",
        )
    text = path.read_text(encoding="utf-8", errors="replace")
    ids = torch.tensor(loaded.tokenizer(text)["input_ids"])
    length = loaded.input_shape[0]
    count = min(len(ids) // length, limit or len(ids))
    if count == 0:
        raise DataError(
            f"at least {length} tokens",
            f"{len(ids)} in {path.name}",
            "Give more text or a smaller --size.",
        )
    windows = ids[: count * length].view(count, length)
    with torch.no_grad():
        inputs = loaded.embed(windows)
    return TensorBatches(inputs, [f"{path.stem}[{i}]" for i in range(count)], batch_size, kind="text")
