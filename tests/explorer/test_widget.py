"""The same page in a notebook."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
import torch

import sgfi
from sgfi.explorer import Lens

anywidget = pytest.importorskip("anywidget")
pytestmark = pytest.mark.filterwarnings("default")  # the kernel machinery has warnings of its own


class Front:
    """What the browser would do: send messages, wait for replies."""

    def __init__(self, shown) -> None:
        self.shown, self.sent, self.arrived = shown, [], threading.Event()
        shown.send = self._hear

    def _hear(self, content, buffers=()) -> None:
        self.sent.append((content, [bytes(part) for part in buffers]))
        self.arrived.set()

    def ask(self, content, until) -> tuple:
        self.shown._handle_custom_msg(content, [])
        for _ in range(600):
            for message in list(self.sent):
                if until(message[0]):
                    return message
            self.arrived.wait(0.1)
            self.arrived.clear()
        raise AssertionError(self.sent)


def test_the_widget_answers_what_the_server_would(lens: Lens) -> None:
    x = torch.randn(2, 3, 16, 16)
    front = Front(sgfi.widget(lens.estimator, x, "two:3", names=["mine"]))
    content, (body,) = front.ask({"request": 1, "path": "/api/models"}, lambda message: message.get("reply") == 1)
    (model,) = json.loads(body)
    assert content["status"] == 200 and model["title"] == "Classifier"
    _, (body,) = front.ask({"request": 2, "path": "/api/inputs"}, lambda message: message.get("reply") == 2)
    inputs = json.loads(body)
    assert [entry["name"] for entry in inputs] == ["mine", "input 1"]
    ask = {"lens": model["id"], "input": inputs[0]["sha"], "query": "two:3", "stages": ["final"]}
    front.ask({"live": {"id": 9, "ask": ask}}, lambda message: message.get("live", {}).get("state") == "done")
    path = f"/inverse/{model['id']}/{inputs[0]['sha']}/two%3A3.safetensors?stage=final"
    _, (body,) = front.ask({"request": 3, "path": path}, lambda message: message.get("reply") == 3)
    from safetensors.torch import load

    expected = sgfi.invert(lens.estimator, x[:1], "two", channels=3).value
    torch.testing.assert_close(load(body)["value"], expected, rtol=1e-6, atol=1e-6)
    lines = f"/export/{model['id']}/{inputs[0]['sha']}/two%3A3.py"
    _, (body,) = front.ask({"request": 5, "path": lines}, lambda message: message.get("reply") == 5)
    names = {"lens": lens.estimator}  # what the notebook has
    exec(body.decode(), names)
    torch.testing.assert_close(names["answer"].value, expected, rtol=1e-6, atol=1e-6)
    content, _ = front.ask({"request": 4, "path": "/nowhere"}, lambda message: message.get("reply") == 4)
    assert content["status"] == 404
    front.shown.explorer_site.close()


def test_only_estimators_and_their_inputs(lens: Lens) -> None:
    with pytest.raises(sgfi.SgfiError, match="an estimator"):
        sgfi.widget("resnet", torch.zeros(1, 3, 16, 16))
    with pytest.raises(sgfi.SgfiError, match="shape"):
        sgfi.widget(lens.estimator, torch.zeros(1, 3, 8, 8))


@pytest.mark.slow
def test_a_notebook_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2] / "src"))
    lines = (
        "import torch, sgfi\n"
        "net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 5, 3)).eval()\n"
        "x = torch.randn(2, 3, 12, 12)\n"
        "lens = sgfi.natural(sgfi.capture(net, x))\n"
        "sgfi.widget(lens, x)"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(lines)])
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    (output,) = (entry for entry in notebook.cells[0].outputs if entry["output_type"] == "execute_result")
    assert "application/vnd.jupyter.widget-view+json" in output["data"]
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"].values()
    assert any("render" in state["state"].get("_esm", "") for state in states)
