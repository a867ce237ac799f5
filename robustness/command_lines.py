"""Generated command lines: each ends with one of the documented exit codes, without a traceback or a half file.

They run in this process, in a folder of their own; no option names anything outside it, and nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally
from sgfi.cli.app import app
from sgfi.storage.scratch import is_draft

CODES = {0, 2, 3, 4, 5, 6, 7, 8, 9}
BUILDER = """
import torch
INPUT_SHAPE = (3, 8, 8)
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.Tanh(), torch.nn.Conv2d(4, 4, 2, stride=2))
def broken():
    raise RuntimeError("planted")
def number():
    return 3
"""
TEXT = st.text(st.characters(exclude_characters="/\0", exclude_categories=("Cs",)), max_size=12)
NUMBERS = st.sampled_from(["0", "1", "2", "8", "-1", "3.5", "auto", "100000", "9" * 30, "nan", "inf", "1e400", ""])
MODELS = st.sampled_from(
    ["net.py:build"] * 6
    + "net.py:broken net.py:number net.py:none no.py:build torchvision:none timm:none x:y net.py : photos".split()
)
MAPS = st.sampled_from(["maps", "maps", "maps", "half", "damaged", "photos", "nowhere", "net.py:build", "one.png"])
DATA = st.sampled_from("photos one.png x.npy bad.npy broken.png empty nowhere text.txt c$t.png".split())
OUTS = st.sampled_from("out out.png out.npy out.safetensors out.json out.svg out.html maps one.png a/b.png".split())
QUERIES = st.sampled_from(["2", "2:1", "2:0-3@1,1", "1", "", ":1", "2:9", "2@9,9", "2:0-99999999", "@", "2:1:1", "x y"])
NODES = st.sampled_from(["0", "1", "2", "0,1", "stage", "full", "stage,stem", "none", ",", "input"])
WORDS = st.sampled_from(["full", "half", "int8", "true", "online", "cross-fitted", "paper", "aligned", "raw", "final"])
PARTS = st.sampled_from(["singleton", "shared", "blocks2", "blocks" + "9" * 25, "diagonal", "gamma", "diagonal+rank2"])
WEIGHTS = st.sampled_from(["none", "good.pth", "odd.pth", "nowhere.pth", "maps/000_input.safetensors", "one.png"])
FLAGS = tuple("--force --quiet --json --quality --model-too --mirror --partial-weights --correct --no-cache".split())
VALUES = {
    "--query": QUERIES,
    "--target": NODES,
    "--boundaries": NODES,
    "--depth": NODES,
    "--out": OUTS,
    "--draw": OUTS,
    "--data": DATA,
    "--calibration": DATA,
    "--prior": DATA,
    "--show": DATA,
    "--experiment": DATA,
    "--model": MODELS,
    "--weights": WEIGHTS,
    "--partition": PARTS,
    "--operator": PARTS,
    "--preset": WORDS,
    "--children": WORDS,
    "--precision": WORDS,
    "--stage": WORDS,
    "--kind": st.sampled_from(["depth", "stages", "channels", "groups", "coords", "images", "x"]),
    "--jacobian": st.sampled_from(["path", "point", "x"]),
    "--form": st.sampled_from(["png", "svg", "safetensors", "x"]),
    "--other": DATA,
    "--method": st.sampled_from(["natural, path", "natural, point", "raw VJP", "gradient", "x"]),
    "--recipe": st.sampled_from(["generic", "resnet", "x"]),
}
NUMBERED = (
    "--size --limit --batch-size --count --ridge --stages --memory --depths --repeats --sizes --points --seconds"
).split()
COMMANDS: dict[tuple[str, ...], tuple[list[st.SearchStrategy], str]] = {
    ("graph",): ([MODELS], "--weights --size --json --partial-weights"),
    ("plan",): ([MODELS], "--target --boundaries --weights --size --draw --force"),
    ("calibrate",): (
        [MODELS],
        "--data --out --target --boundaries --weights --size --limit --batch-size --mirror --preset --ridge --children "
        "--stages --operator --partition --memory --precision --quiet --force",
    ),
    ("invert",): ([MAPS, DATA], "--query --out --stage --limit --model --weights --size --force --quiet"),
    ("atlas",): ([MAPS, DATA], "--kind --query --count --out --limit --model --force"),
    ("evaluate",): ([MAPS, DATA], "--query --depths --out --limit --batch-size --model --force --quiet"),
    ("decide",): ([MAPS, DATA], "--out --calibration --depth --sizes --repeats --count --model --force --quiet"),
    ("coordinates",): ([MAPS, DATA], "--out --calibration --depth --count --model --force --quiet"),
    ("look",): (
        [MODELS, DATA],
        "--query --out --size --weights --jacobian --points --ridge --form --limit --other --no-cache --quiet --force",
    ),
    ("compare",): ([MODELS, DATA, DATA], "--query --method --out --size --weights --force"),
    ("recipes",): ([], ""),
    ("recipes", "check"): ([MODELS], "--recipe --size --weights"),
    ("report",): (
        [st.one_of(MAPS, MODELS), DATA],
        "--out --query --limit --depths --seconds --size --prior --model --force --quiet",
    ),
    ("tokens",): ([MAPS, TEXT], "--out --model --size --force"),
    ("maps", "info"): ([MAPS], "--json --quality"),
    ("maps", "verify"): ([MAPS], "--model-too --model --weights"),
    ("maps", "shrink"): ([MAPS], "--out --stages --target --precision --model --force --quiet"),
    ("experiment", "list"): ([], ""),
    ("experiment", "show"): ([DATA], ""),
}


def run(effort: Effort) -> list[Row]:
    tally = Tally("generated command lines", effort.seed_of("command lines"))
    with subject.scratch() as folder, _inside(folder):
        _prepare(folder)
        codes: list[int] = []
        subject.generate(lines(), effort.count(1000), tally.seed, lambda words: codes.append(_try(tally, words)))
    tally.worst += f"; {codes.count(0)} lines did their work, the others were refused"
    return [tally.row()]


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command, most often with as many words as it takes, and some of its options or, rarely, another's."""
    command = draw(st.sampled_from(sorted(COMMANDS)))
    positions, known = COMMANDS[command]
    words = [*command]
    for position in positions:
        if draw(st.integers(0, 19)):
            words.append(draw(st.one_of(position, position, position, position, TEXT)))
    required = ("--data", "--out", *(["--query"] if command == ("compare",) else []))
    needed = [option for option in required if option in known.split() and draw(st.integers(0, 9))]
    if "--model" in known.split() and draw(st.booleans()):
        words += ["--model", "net.py:build"]
    options = [*known.split(), draw(st.sampled_from([*VALUES, *NUMBERED, *FLAGS, "--none"]))]
    chosen = draw(st.lists(st.sampled_from(options), max_size=4)) if known else []
    for option in dict.fromkeys([*needed, *chosen]):
        words.append(option)
        if option not in FLAGS:
            value = VALUES.get(option, NUMBERS)
            words.append(draw(st.one_of(value, value, value, value, TEXT)))
    return words


def _try(tally: Tally, words: list[str]) -> int:
    """The exit code."""
    shown = " ".join(map(repr, words))[:300]
    drafts = [path for path in Path().rglob(".*") if is_draft(path)]

    def line() -> Any:
        return CliRunner().invoke(app, words, catch_exceptions=True)

    result = subject.attempt(tally, shown, line)
    if result is None:
        return -1
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        tally.fail("traceback", f"{shown}: {type(result.exception).__name__}: {str(result.exception)[:200]}")
    elif result.exit_code not in CODES:
        tally.fail("traceback", f"{shown}: exit code {result.exit_code}")
    if [path for path in Path().rglob(".*") if is_draft(path)] != drafts:
        tally.fail("data lost", f"{shown}: a half-written file is left")
    if Path("one.png").read_bytes() != _picture():
        if "--force" not in words:
            tally.fail("data lost", f"{shown}: an input was written over")
        Path("one.png").write_bytes(_picture())
    for name in ("out", "a"):
        shutil.rmtree(name, ignore_errors=True)
    if not Path("maps", "manifest.json").exists() or ("maps" in words and "--force" in words):
        shutil.rmtree("maps", ignore_errors=True)
        shutil.copytree("kept", "maps")
    return result.exit_code


@cache
def _picture() -> bytes:
    return Path("photos", "0.png").read_bytes()


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in the folder, without a network."""
    before, offline = Path.cwd(), {name: os.environ.get(name) for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    os.environ.update(dict.fromkeys(offline, "1"))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        for name, value in offline.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _prepare(folder: Path) -> None:
    import torch

    (folder / "net.py").write_text(BUILDER)
    (folder / "text.txt").write_text("words " * 50)
    (folder / "empty").mkdir()
    (folder / "photos").mkdir()
    rng = np.random.default_rng(0)
    for index in range(6):
        Image.fromarray(rng.integers(0, 256, (12, 10, 3), dtype=np.uint8)).save(folder / "photos" / f"{index}.png")
    for name in ("one.png", "c$t.png"):
        shutil.copy(folder / "photos" / "0.png", folder / name)
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "photos" / "broken.png").write_bytes(b"no picture")
    np.save(folder / "x.npy", rng.standard_normal((8, 3, 8, 8)).astype(np.float32))
    np.save(folder / "bad.npy", np.full((2, 3, 8, 8), np.nan, dtype=np.float32))
    torch.save({3: torch.ones(2)}, folder / "odd.pth")
    words = ["calibrate", "net.py:build", "--data", "photos", "--out", "maps", "--target", "2", "--boundaries", "0,1"]
    made = CliRunner().invoke(app, [*words, "--quiet"])
    assert made.exit_code == 0, made.output
    shutil.copytree("maps", "kept")
    shutil.copytree("maps", "damaged")
    file = sorted(Path("damaged").glob("*.safetensors"))[0]
    file.write_bytes(file.read_bytes()[:-9])
    from sgfi.cli.loading import open_family

    opened = open_family(Path("maps"), "net.py:build")
    sgfi.save(opened.family, "half", precision="half")
    torch.save(opened.loaded.model.state_dict(), folder / "good.pth")
    _picture.cache_clear()
    _picture()
