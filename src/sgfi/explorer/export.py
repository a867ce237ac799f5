"""Exactly what is shown, to take away: pictures, numbers, one page, and the lines that make it again."""

from __future__ import annotations

import base64
import re
import textwrap
from collections.abc import Mapping
from html import escape
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from sgfi.explorer.inputs import Input
from sgfi.explorer.lenses import Lens
from sgfi.explorer.store import default_folder
from sgfi.explorer.workspace import Question

TYPES = {"svg": "image/svg+xml", "html": "text/html; charset=utf-8", "py": "text/plain", "sh": "text/plain"}
SIDE, GAP, TOP, LETTERS = 224, 16, 56, 118
"""Of the figure, in pixels; letters that fit into a line of it."""
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:30px auto;padding:0 16px;color:#1d1f21;"
    "background:#fbfaf8}pre{background:#f1efeb;padding:10px;overflow:auto}svg{max-width:100%;height:auto}"
    "td,th{text-align:left;padding:2px 14px 2px 0}"
    "@media(prefers-color-scheme:dark){body{color:#eceae6;background:#16181a}pre{background:#25292c}}"
)


def svg(question: Question, panels: Mapping[str, bytes], sentence: str) -> str:
    """Pictures (PNG files by caption) in a row, the query above, what the controls say below."""
    lines = textwrap.wrap(sentence, LETTERS)
    width = GAP + len(panels) * (SIDE + GAP)
    height = TOP + SIDE + 40 + 18 * len(lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(question.query)}" font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{GAP}" y="28" font-size="16" font-weight="600" fill="#111">{escape(question.query)}</text>',
    ]
    for number, (caption, file) in enumerate(panels.items()):
        left = GAP + number * (SIDE + GAP)
        data = base64.b64encode(file).decode()
        parts.append(f'<text x="{left}" y="{TOP - 6}" fill="#444">{escape(caption)}</text>')
        parts.append(
            f'<image x="{left}" y="{TOP}" width="{SIDE}" height="{SIDE}" href="data:image/png;base64,{data}"/>'
        )
    parts += [
        f'<text x="{GAP}" y="{TOP + SIDE + 24 + 18 * number}" fill="#333">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return "\n".join([*parts, "</svg>\n"])


def page(question: Question, figure: str, facts: Mapping[str, Any], python: str, shell: str) -> str:
    """One file that opens from disk anywhere and asks nobody for anything."""
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(f'{value:.4g}' if isinstance(value, float) else str(value))}</td></tr>"
        for name, value in facts.items()
        if isinstance(value, (str, int, float)) and value != ""
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{escape(question.query)}</title><style>{STYLE}</style>'
        f"</head><body><h1>{escape(question.query)}</h1>{figure}<h2>Numbers</h2><table>{rows}</table>"
        f"<h2>Python</h2><pre>{escape(python)}</pre><h2>Command line</h2><pre>{escape(shell)}</pre></body></html>\n"
    )


def python_lines(lens: Lens, entry: Input, question: Question, query: str) -> str:
    """Run in any folder: the same numbers as on the screen. ``query`` names files of directions by their paths."""
    stage = question.stage if question.stage in ("raw", "first") else "final"
    lines = ["import sgfi"]
    if lens.source.get("notebook"):
        lines += ["# lens: the estimator of this notebook, as it was passed to sgfi.widget(lens, x)"]
    elif lens.kind == "maps":
        lines += ["from sgfi.cli.loading import open_family", f"opened = open_family({str(lens.source['source'])!r})"]
        lines += ["lens, loaded = opened.estimator, opened.loaded"]
    else:
        lines += ["from sgfi.inputs.models import load_model", "from sgfi.report.look import embedded, input_prior"]
        size = f", size={lens.source['size']}" if lens.source.get("size") else ""
        weights = f", {lens.source['weights']!r}" if lens.source.get("weights") not in (None, "pretrained") else ""
        lines += [f"loaded = load_model({str(lens.source['source'])!r}{weights}{size})"]
    if entry.kind == "text":
        lines += [f"x = embedded(loaded, {entry.text!r})", "graph = sgfi.capture(loaded.model, x.repeat(2, 1, 1))"]
    elif entry.kind == "tensor":
        lines += ["from safetensors.torch import load_file", f"x = load_file({str(entry.file)!r})['x']"]
    else:
        lines += ["from sgfi.inputs import read_image", f"x = read_image({str(entry.file)!r}, loaded.preprocessing)"]
    if lens.kind != "maps" and not lens.source.get("notebook"):
        lines += ["graph = sgfi.capture(loaded.model, loaded.example)"] if entry.kind != "text" else []
        lines += ["lens = sgfi.natural(graph, input_prior(loaded, graph))"]
    asked = f"sgfi.sweep(lens, x, [sgfi.Query.parse({query!r})], stage={stage!r})"
    return "\n".join([*lines, f"(answer,) = {asked}", "answer.value"]) + "\n"


def command_lines(lens: Lens, entry: Input, question: Question, query: str, link: Mapping[str, str]) -> str:
    """Two commands: the picture of the screen by its ``link``, and the numbers from model and input alone."""
    if lens.source.get("notebook"):
        return "# The estimator lives in a notebook: use the Python lines.\n"
    source = str(lens.source.get("source", ""))
    lines = []
    if lens.picture and question.stage in ("final", "share"):
        cache = entry.file.parent.parent
        kept = "" if cache == default_folder() else f" --cache {quote(str(cache))}"
        trusted = f" --model {quote(source)}" if source.rpartition(":")[0].endswith(".py") else ""
        files = re.findall(r"%(/.*?\.safetensors)", query)
        named = "".join(f" --directions {quote(file)}" for file in files)
        lines += [f"sgfi export {quote('#' + urlencode(link))}{kept}{trusted}{named} --out answer.png"]
    given = quote(entry.text if entry.kind == "text" else str(entry.file))
    if lens.kind == "maps":
        lines += [f"sgfi invert {quote(source)} {given} --query {quote(query)} --out answer.safetensors"]
    else:
        size = f" --size {lens.source['size']}" if lens.source.get("size") else ""
        weights = lens.source.get("weights")
        chosen = f" --weights {quote(str(weights))}" if weights not in (None, "pretrained") else ""
        settings = f"{size}{chosen} --no-share --out answer.safetensors"
        lines += [f"sgfi look {quote(source)} {given} --query {quote(query)}{settings}"]
    return "\n".join(lines) + "\n"
