"""Every code block and every command of the documentation is run, a page at a time, in order and in one folder.

Models that would be downloaded have small ones in their place (tests/stand_ins.py); ``GIVEN`` makes what a page takes
for granted, ``SMALLER`` adds options that make a command quick, ``NOT_RUN`` lists what is not run, and why.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import threading
import urllib.request
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import sgfi
from sgfi.cli import exploring
from sgfi.cli.app import app
from sgfi.experiments import declare
from sgfi.explorer import Site
from sgfi.explorer.server import run as serve
from sgfi.inputs import load_model
from sgfi.inputs.data import read_image
from sgfi.inputs.photographs import CALIBRATION, HELD_OUT
from tests.documented import DOCS, PAGES, PROJECT, Block, blocks
from tests.sharing.serving import Handler, HubHandler, serving
from tests.stand_ins import TEXT, stand_ins

NOT_RUN = {
    ("README.md", "make demo"): "sets up an environment; tests/cli/test_demo.py runs the demonstration",
    ("README.md", "make test"): "it is what runs this test",
    ("README.md", "import sgfi"): "with the real network by tests/test_readme.py",
    ("CONTRIBUTING.md", "make "): "sets up an environment, and runs this test",
    ("CONTRIBUTING.md", "python docs/gallery.py"): "minutes; tests/test_examples.py runs the same programs, smaller",
    ("CONTRIBUTING.md", "python notebooks/run.py"): "minutes; tests/test_notebooks.py runs them",
    ("CONTRIBUTING.md", "python -m benchmarks.limits"): "minutes; writes pictures of the documentation",
    ("CONTRIBUTING.md", "source "): "a shell's own environment",
    ("CONTRIBUTING.md", "pre-commit "): "changes the clone",
    ("first-run.md", "make demo"): "as in the README",
    ("index.md", "make demo"): "as in the README",
    ("compatibility.md", "python -m pytest"): "other versions of PyTorch and Python",
    ("decisions.md", "sgfi calibrate docs/results/decisions/deit_tiny_112.py:build"): "weights that are not shipped",
    ("decisions.md", "sgfi calibrate docs/results/decisions/resnet50_96.py:build"): "weights that are not shipped",
    ("explorer.md", "pip install"): "network; the test of inline commands checks the extras",
    ("language.md", "pip install"): "network",
    (
        "language.md",
        "sgfi experiment run language language-seeds language-layers language-controls language-mlp --data",
    ): "the same on GPT-2, whose stand-in is too narrow for groups of 64 channels",
    ("limits.md", "python -m benchmarks.limits"): "minutes; writes the page's own pictures",
    ("natural.md", "sgfi experiment pictures"): "ImageNet photographs; tests/experiments/test_answers.py draws others",
    ("plugins.md", "import torch"): "installed and used by tests/plugins/test_page.py",
    ("plugins.md", "from sgfi.inputs import load_model"): "tests/plugins/test_page.py",
    ("plugins.md", "sgfi recipes check toy:small"): "tests/plugins/test_page.py",
    ("plugins.md", "sgfi recipes check torchvision:resnet18 --recipe toynet"): "tests/plugins/test_page.py",
    ("robustness.md", "make robust"): "an hour; tests/robustness runs parts",
    ("robustness.md", "python -m robustness.run"): "minutes; tests/robustness runs parts",
    ("scaling.md", "import os"): "CUDA",
    ("scaling.md", "torchrun --nnodes"): "two machines",
    ("scaling.md", "torchrun --nproc-per-node"): "four processes; tests/calibration/test_processes.py starts two",
    ("scaling.md", "family = sgfi.calibrate(plan, batches, distributed=True"): "several processes, as above",
}
"""By page and the beginning of a command or block. These are checked for names and options (tests/test_docs.py)."""

SMALLER = {
    "sgfi calibrate": "--limit 6 --force --quiet",
    "sgfi calibrate hf:": "--limit 40",
    "sgfi report": "--depths 1 --limit 1 --seconds 2 --quiet",
    "sgfi look": "--points 2",
    "sgfi look torchvision:resnet18 photos/": "--limit 2",
    "sgfi explore": "--port 0",
    "sgfi experiment run": "--fit 6 --evaluate 2 --set resamples=20 --quiet",
    "sgfi moments gather": "--size 32",
    "sgfi decide": "--count 2",
    "sgfi coordinates": "--count 2",
}
"""Words put after every command that begins so."""

LATER = ("sgfi experiment run language",)
"""Minutes of processor time: only with ``-m benchmark``. tests/experiments/test_language.py runs their measures."""

ENDS = {"sgfi explore": 130}
"""Exit codes other than 0; the page is asked for once, then the server gets a Ctrl-C."""

OPENED = """
from sgfi.inputs import load_model
from sgfi.inputs.data import read_image
loaded = load_model("{}")
model, graph = loaded.model, sgfi.capture(loaded.model, loaded.example)
lens = sgfi.natural(graph, loaded.preprocessing)
x, how = read_image("photo.jpg", loaded.preprocessing), dict(preprocessing=loaded.preprocessing)
plan, batches = sgfi.plan(graph), [torch.randn(8, 3, 64, 64)]
"""
RESNET18, RESNET50 = OPENED.format("torchvision:resnet18"), OPENED.format("torchvision:resnet50")
LITE0, DEIT = OPENED.format("pip:efficientnet_lite0"), OPENED.format("timm:deit_tiny_patch16_224")
GIVEN = {
    ("cli.md", "sgfi look torchvision:resnet18 cat.jpg --query layer3.1.add%"): """
from safetensors.torch import save_file
save_file({"probe": torch.randn(4, 32)}, "probe.safetensors")
""",
    ("decisions.md", "from sgfi import decisions"): f"""{RESNET18}
family, photographs, x = sgfi.load("maps/resnet18", model), torch.randn(4, 3, 64, 64), torch.randn(2, 3, 128, 128)
graph = sgfi.capture(model, x)
plan, batches = sgfi.plan(graph), [x]
""",
    ("decisions.md", "sgfi decide"): "sorted_by_class('held-out', 'pip:efficientnet_lite0')",
    ("decisions.md", "sgfi coordinates"): "sorted_by_class('held-out', 'timm:deit_tiny_patch16_224')",
    ("experiments.md", "sgfi experiment fill"): """
import shutil
from tests import documented
os.mkdir("docs")
for part in ("natural.md", "results/experiments"):
    (shutil.copytree if "/" in part else shutil.copy)(documented.DOCS / part, f"docs/{part}")
""",
    ("experiments.md", "from sgfi.experiments import declare"): """
from PIL import Image
for index in range(160):
    Image.effect_noise((64, 64), 60).convert("RGB").save(f"photos/noise{index}.png")
""",
    ("experiments.md", "sgfi experiment pictures"): """
import json
counts = {"calibration": "photos", "calibration_count": 4, "evaluation_count": 2}
methods = {"answers": {"methods": ["natural, path", "gradient"], "targets": ["blocks.4.1"]}}
setup = {"model": {"spec": "pip:efficientnet_lite0"}, "data": counts, "measures": methods}
Path("setup.json").write_text(json.dumps(setup))
""",
    ("decisions.md", "grid ="): """
vit, x = load_model("timm:deit_tiny_patch16_224"), torch.randn(2, 3, 64, 64)
graph, family = sgfi.capture(vit.model, vit.example), sgfi.load("maps/deit", vit.model)
""",
    ("explorer.md", "lens = sgfi.natural(graph)"): RESNET18,
    (
        "features.md",
        'look = sgfi.look("torchvision:resnet50"',
    ): f"""{RESNET50}
from safetensors.torch import save_file
W = torch.randn(4, 128)
save_file({{"probe": W}}, "probe.safetensors")
""",
    ("features.md", "channels = strongest_channels("): f"""{LITE0}
from sgfi.figures.atlases import strongest_channels
files, folder = ["photo.jpg", "other.jpg"], "part1"
save_file({{"W_enc": torch.randn(56, 16), "W_dec": torch.randn(16, 56)}}, "sae.safetensors")
""",
    ("features.md", 'sgfi.look(graph, x, "blocks.8@12"'): LITE0.replace(
        "pip:efficientnet_lite0", "timm:deit_tiny_patch16_224"
    ),
    ("language.md", "from sgfi.language import draw"): """
from sgfi.inputs import load_model
loaded = load_model("hf:gpt2")
lm, tokenizer, text, x = loaded.model.lm, loaded.tokenizer, Path("wiki.txt").read_text(), torch.randn(2, 16, 16)
""",
    ("method.md", "family = sgfi.calibrate(plan, batches, children"): RESNET18,
    ("scaling.md", "plan = sgfi.plan(graph, size="): RESNET18,
    ("scaling.md", "import accelerate"): "import copy\nmodel, x = copy.deepcopy(model), batches[0]",
    ("scaling.md", "sgfi.save(family"): 'family = sgfi.load("maps/resnet18", model)',
    (
        "scaling.md",
        'family = sgfi.load("maps/resnet50"',
    ): """
sgfi.save(sgfi.load("maps/resnet18", model), "maps/resnet50")
""",
    ("sharing.md", "sgfi maps pull org"): 'os.rename("maps/resnet18", "published")',
    ("sharing.md", "family = sgfi.from_pretrained("): RESNET18,
}
"""Run before the block that begins so; ``sgfi`` and ``torch`` are there from the beginning."""


def jpeg(photograph: Any, seed: int, file: Path) -> None:
    """A crop of 64 pixels."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(photograph.file) as image:
        side, draw = min(image.size), random.Random(seed)
        left, top = (draw.randrange(length - side // 2) for length in image.size)
        image.convert("RGB").crop((left, top, left + side // 2, top + side // 2)).resize((64, 64)).save(file)


FOLDERS = ("photos", "other-photos", "held-out", "val", "part1", "part2", "photos/calibration")
MAPS = {
    "maps/resnet18": "torchvision:resnet18",
    "maps/lite0": "pip:efficientnet_lite0",
    "maps/deit": "timm:deit_tiny_patch16_224",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Photographs, texts, a model of one's own and maps, while names lead to the stand-ins."""
    folder = tmp_path_factory.mktemp("documented")
    for index, name in enumerate(("photo.jpg", "other.jpg", "cat.jpg", "dog.jpg")):
        jpeg(HELD_OUT[index % len(HELD_OUT)], index, folder / name)
    for index, name in enumerate(f"{parent}/{number}.jpg" for parent in FOLDERS for number in range(6)):
        jpeg(CALIBRATION[index % len(CALIBRATION)], index, folder / name)
    for name in ("wiki.txt", "enwiki_extract_8MB.txt"):
        (folder / name).write_text(" ".join(random.Random(0).choices(TEXT.split(), k=100_000)))
    for name in ("path/to/net.py", "my_model.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("from tests.stand_ins import own as build\nINPUT_SHAPE = (3, 64, 64)\n")
    with stand_ins(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for name, model in MAPS.items():
            called(["sgfi", "calibrate", model, "--data", "photos/", "--out", name])
        yield folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy for one page."""
    shutil.copytree(made, tmp_path / "here", copy_function=os.link)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "here"


@dataclass
class Browser:
    """What somebody at a browser does: asks for the page, sees a link for what is open, and then Ctrl-C."""

    shown: list[str] = field(default_factory=list)
    """Model and input of every page that was opened, as a link has them."""

    def serve(self, site: Site, *rest: Any) -> None:
        lens, entry = next(iter(site.workspace.lenses)), next(iter(site.workspace.inputs))
        self.shown.append(f"m={lens}&x={entry}")
        serve(site, *rest)

    def open(self, link: str) -> None:
        threading.Thread(target=self.ask, args=[link]).start()

    def ask(self, link: str) -> None:
        try:
            with urllib.request.urlopen(link) as reply:
                assert b"<html" in reply.read()
        finally:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def substitutes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Parts of words that lead elsewhere: addresses to servers of this test, the dots of a link to what was opened."""
    browser = Browser()
    monkeypatch.setattr(webbrowser, "open", browser.open)
    monkeypatch.setattr(exploring, "run", browser.serve)
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
    files = {file.name: file.read_bytes() for file in (folder / "maps/resnet18").iterdir()}
    with (
        serving(Handler, {f"maps/resnet18/{name}": body for name, body in files.items()}) as site,
        serving(HubHandler, {"org/resnet18-maps": {"main": files, "v1": files}}) as hub,
    ):
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(folder / "hf"))
        yield {"https://example.org": lambda: site.address, "m=...&x=...": lambda: browser.shown[0]}
    signal.signal(signal.SIGINT, earlier)


def beginning(table: dict[str, Any], text: str) -> list[Any]:
    """The entries whose key the text begins with."""
    return [entry for key, entry in table.items() if text.startswith(key)]


def called(words: list[str]) -> None:
    """A command that must end as it should."""
    text = shlex.join(words)
    added = [word for more in beginning(SMALLER, text) for word in shlex.split(more)]
    done = CliRunner().invoke(app, [*words[1:], *added])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == (beginning(ENDS, text) or [0])[0], f"{text}\n{done.output}"


def omitted(page: str, text: str) -> bool:
    return any(page == name and text.startswith(start) for name, start in NOT_RUN)


def run(block: Block, space: dict[str, Any], substitutes: dict[str, Any], later: bool = False) -> None:
    """One block of a page; its slow commands alone, or all others."""
    if block.language != "bash" and not omitted(block.page, block.text):
        prepare(block.page, block.text, space)
        exec(compile(block.text, block.page, "exec"), space)
    for words in block.commands() if block.language == "bash" else []:
        text = shlex.join(words)
        if omitted(block.page, text) or text.startswith(LATER) != later:
            continue
        assert words[0] == "sgfi", f"neither run nor listed: {text}"
        prepare(block.page, text, space)
        for old, new in substitutes.items():
            words = [word.replace(old, new()) if old in word else word for word in words]
        called(words)


def prepare(page: str, text: str, space: dict[str, Any]) -> None:
    for (name, start), code in GIVEN.items():
        if name == page and text.startswith(start):
            exec(code, space)


def sorted_by_class(folder: str, name: str) -> None:
    """Pictures in folders named by the class that a model gives them."""
    loaded = load_model(name)
    for file in sorted(Path(folder).rglob("*.jpg")):
        with torch.no_grad():
            number = int(loaded.model(read_image(file, loaded.preprocessing)).argmax())
        (Path(folder) / str(number)).mkdir(exist_ok=True)
        file.rename(Path(folder) / str(number) / file.name)


RUN = [page for page in (*PAGES, *PROJECT) if blocks(page, "python", "bash")]


@pytest.mark.slow
@pytest.mark.xdist_group("documented")  # one worker makes the maps and captures the models
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_every_block_runs(page: Path, substitutes: dict[str, Any]) -> None:
    space: dict[str, Any] = {"sgfi": sgfi, "torch": torch, "os": os, "Path": Path, "sorted_by_class": sorted_by_class}
    for block in blocks(page, "python", "bash"):
        run(block, space, substitutes)


@pytest.mark.benchmark
def test_slow_commands_run(substitutes: dict[str, Any]) -> None:
    for block in blocks(DOCS / "language.md", "bash"):
        run(block, {}, substitutes, later=True)


def test_the_file_of_the_experiments_page_is_one(tmp_path: Path) -> None:
    (block,) = blocks(DOCS / "experiments.md", "json")
    (tmp_path / "mine.json").write_text(block.text)
    assert declare(tmp_path / "mine.json").as_dict()["title"] == json.loads(block.text)["title"]


def test_what_the_tables_name_is_still_there() -> None:
    texts: dict[str, list[str]] = {}
    for page in RUN:
        texts[page.name] = [block.text for block in blocks(page, "python")]
        texts[page.name] += [shlex.join(words) for block in blocks(page, "bash") for words in block.commands()]
    every = [text for page in texts.values() for text in page]
    entries = {**NOT_RUN, **GIVEN}
    gone = [(page, start) for page, start in entries if not any(text.startswith(start) for text in texts[page])]
    gone += [("", start) for start in (*SMALLER, *ENDS, *LATER) if not any(text.startswith(start) for text in every)]
    assert gone == []
