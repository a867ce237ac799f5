"""Tiny GPT-2 models: trained for a moment on a small text, in memory and as a folder in Hugging Face layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = "the cat sat on a mat and saw another cat that sat by the door of an old house".split()


def tiny_config(transformers: Any, **changes: Any) -> Any:
    """Four layers of width 16 over 32 words."""
    sizes = {"n_layer": 4, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 32} | changes
    return transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, pad_token_id=0)


def word_tokenizer(words: list[str]) -> Any:
    """One token a word; 0 is unknown."""
    tokenizers, transformers = pytest.importorskip("tokenizers"), pytest.importorskip("transformers")
    places = {"<unk>": 0} | {word: index + 1 for index, word in enumerate(dict.fromkeys(words))}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(places, unk_token="<unk>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>")


@pytest.fixture(scope="package")
def lm() -> Any:
    """Trained enough for its layers to carry something; nobody may change it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(tiny_config(transformers)).train()
    ids = word_tokenizer(WORDS)(" ".join(WORDS * 20), return_tensors="pt")["input_ids"][:, :288].view(-1, 8)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        optimiser.zero_grad()
        model(input_ids=ids, labels=ids).loss.backward()
        optimiser.step()
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="package")
def folder(lm: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Config, weights and tokenizer as ``save_pretrained`` writes them, and a text."""
    path = tmp_path_factory.mktemp("gpt2")
    lm.save_pretrained(path)
    word_tokenizer(WORDS).save_pretrained(path)
    (path / "text.txt").write_text(" ".join(WORDS * 20))
    return path
