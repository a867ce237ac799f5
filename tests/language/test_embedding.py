"""A tiny GPT-2 in Hugging Face layout, from embeddings and through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import sgfi
from sgfi.cli.app import app
from sgfi.errors import CaptureError
from sgfi.language import embedding_model
from sgfi.vision import load_model
from sgfi.vision.data import open_data

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
WORDS = "the cat sat on a mat and saw another cat that sat by the door of an old house".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Config, weights and tokenizer as ``save_pretrained`` writes them."""
    path = tmp_path_factory.mktemp("gpt2")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_layer=4, n_head=2, n_embd=16, vocab_size=32, n_positions=32, bos_token_id=0, eos_token_id=0, pad_token_id=0
    )
    transformers.GPT2LMHeadModel(config).eval().save_pretrained(path)
    words = {"<unk>": 0} | {word: place + 1 for place, word in enumerate(dict.fromkeys(WORDS))}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="<unk>").save_pretrained(path)
    (path / "text.txt").write_text(" ".join(WORDS * 20))
    return path


def test_from_embeddings_as_from_tokens(folder: Path) -> None:
    lm = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.randint(0, 20, (3, 8))
    wrapped = embedding_model(lm)
    torch.testing.assert_close(wrapped(lm.get_input_embeddings()(ids)), lm(input_ids=ids).logits)
    graph = sgfi.capture(wrapped, lm.get_input_embeddings()(ids))
    plan = sgfi.plan(graph)
    assert plan.mode == "stage:gpt2"
    assert plan.boundary["input"].node.channel_axis == 2


def test_what_is_not_a_language_model_is_refused() -> None:
    with pytest.raises(CaptureError, match="AutoModelForCausalLM"):
        embedding_model(nn.Linear(2, 2))


def test_a_local_folder_and_a_text_file_are_enough(folder: Path, tmp_path: Path) -> None:
    loaded = load_model(f"hf:{folder}", size=8)
    windows = torch.cat(list(open_data(folder / "text.txt", loaded, 8, 16)))
    assert windows.shape == (16, 8, 16)
    text, maps = str(folder / "text.txt"), str(tmp_path / "maps")
    command = ["calibrate", f"hf:{folder}", "--size", "8", "--data", text, "--out", maps, "--limit", "16", "--quiet"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    family = sgfi.load(maps, loaded.model)
    assert sgfi.invert(family, windows[:2], coords=[7]).value.shape == (2, 8, 16)
