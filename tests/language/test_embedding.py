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
from sgfi.inputs import load_model
from sgfi.inputs.data import open_data
from sgfi.language import EncoderModel, embedding_model

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize("pooling", ["max", "CLS", 1])
def test_a_pooling_that_is_none_is_refused(pooling: object) -> None:
    with pytest.raises(CaptureError, match="a pooling among"):
        EncoderModel(nn.Identity(), pooling)  # type: ignore[arg-type]


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


def test_the_first_layers_alone_share_weights_and_values(lm) -> None:
    x = lm.get_input_embeddings()(torch.randint(0, 20, (2, 8)))
    before = [id(p) for p in lm.parameters()], lm.config.num_hidden_layers
    short = embedding_model(lm, layers=2)
    assert len(short.lm.transformer.h) == 2 and short.lm.transformer.h[0] is lm.transformer.h[0]
    assert ([id(p) for p in lm.parameters()], lm.config.num_hidden_layers) == before
    assert len(lm.transformer.h) == 4
    graphs = [sgfi.capture(model, x) for model in (short, embedding_model(lm))]
    name = "lm.transformer.h.1"
    states = [graph.program(("input",), (graph.nodes.canonical(name),))(x)[0] for graph in graphs]
    assert torch.equal(*states)
    with pytest.raises(CaptureError, match="1 to 4 layers"):
        embedding_model(lm, layers=5)


def test_the_last_position_alone(lm) -> None:
    x = lm.get_input_embeddings()(torch.randint(0, 20, (2, 8)))
    torch.testing.assert_close(embedding_model(lm, last=True)(x), embedding_model(lm)(x)[:, -1])
