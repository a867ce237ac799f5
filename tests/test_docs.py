"""The documentation: links lead somewhere, pages are listed, code names what is there, commands parse.

tests/test_docs_run.py runs the blocks; what cannot be run there is checked here.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.documented import DOCS, PAGES, PROJECT, ROOT, Block, blocks, inline_commands

LANGUAGES = {"python", "bash", "text", "json", "toml", "math", "{toctree}", "{eval-rst}"}


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link, as GitHub and the site spell it."""
    titles = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "")).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^(?:.*<)?([\w/\-]+)>?$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    patterns = re.findall(r"^(\w+)\*$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {page.stem for page in PAGES if not page.stem.startswith(tuple(patterns))}
    assert pages - set(listed) - {"index"} == set()
    assert len(listed) == len(set(listed)), "listed twice"


# Python


def imported(tree: ast.AST) -> dict[str, Any]:
    """Names that import statements bind, those of sgfi alone; a name that is not there is an error."""
    space: dict[str, Any] = {"sgfi": import_module("sgfi")}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sgfi"):
            for alias in node.names:
                try:
                    value = getattr(import_module(str(node.module)), alias.name)
                except AttributeError:
                    value = import_module(f"{node.module}.{alias.name}")
                space[alias.asname or alias.name] = value
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("sgfi."):
                    import_module(alias.name)
    return space


def resolved(node: ast.expr, space: dict[str, Any]) -> Any:
    """What a dotted name stands for; ``None`` for names of the reader's own."""
    if isinstance(node, ast.Name):
        return space.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = resolved(node.value, space)
        if inspect.ismodule(owner):
            return getattr(owner, node.attr)  # an AttributeError names what the page got wrong
        return getattr(owner, node.attr, None) if inspect.isclass(owner) else None
    return None


def misused(code: str) -> list[str]:
    """Calls of sgfi's functions whose arguments do not fit their signature."""
    tree = ast.parse(code)
    space = imported(tree)
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            resolved(node, space)
        if not isinstance(node, ast.Call) or any(isinstance(part, ast.Starred) for part in node.args):
            continue
        function = resolved(node.func, space)
        named = [keyword.arg for keyword in node.keywords if keyword.arg]
        if not callable(function) or any(isinstance(part, ast.Constant) and part.value is ... for part in node.args):
            continue
        try:
            inspect.signature(function).bind_partial(*node.args, **dict.fromkeys(named))
        except TypeError as error:
            wrong.append(f"{ast.unparse(node)}: {error}")
    return wrong


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_code_blocks_name_what_is_there(page: Path) -> None:
    assert misused("\n".join(block.text for block in blocks(page, "python"))) == []


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_every_block_names_its_language(page: Path) -> None:
    assert [block.title for block in blocks(page) if block.language not in LANGUAGES] == []


def test_a_wrong_name_or_argument_is_noticed() -> None:
    assert misused("import sgfi\nsgfi.look(model, x, 'a', nonsense=1).save()") == []  # goes on to sgfi.natural
    assert len(misused("from sgfi.inputs import load_model\nload_model('a', sise=3)")) == 1
    with pytest.raises(AttributeError):
        misused("import sgfi\nsgfi.lok(model)")


# Commands


def refused(words: list[str]) -> str:
    """What the command line has against these words; "" where it would run."""
    import typer

    from sgfi.cli.app import app

    command, rest = typer.main.get_command(app), list(words)
    context = command.context_class(command, info_name="sgfi")
    while (
        rest
        and rest[0] not in ("--version", "--install-completion", "--show-completion")
        and hasattr(command, "commands")
    ):
        name, *rest = rest
        if name not in command.commands:
            return f"{' '.join(words)}: no command {name}"
        command = command.commands[name]
    try:
        command.make_context(words[0], rest, parent=context)
    except (Exception, SystemExit) as error:  # typer brings a click of its own, whose classes are private
        message = getattr(error, "format_message", None)
        return f"{' '.join(words)}: {message()}" if message else ""
    return ""


def wrong(words: list[str]) -> str:
    """What is wrong with a command of any program that pages name; "" where nothing is."""
    name, *rest = words
    if name == "torchrun" and "-m" in rest:
        name, *rest = rest[rest.index("-m") + 1 :]
    if name == "sgfi":
        return refused(rest)
    if name == "make":
        return "" if f"\n{rest[0]}:" in (ROOT / "Makefile").read_text(encoding="utf-8") else f"no target: {words}"
    if name == "python" and rest[0] == "-m" and rest[1].startswith(("benchmarks.", "robustness.")):
        return "" if (ROOT / f"{rest[1].replace('.', '/')}.py").is_file() else f"no module: {words}"
    if name == "python" and rest[0] != "-m":
        return "" if (ROOT / rest[0]).is_file() else f"no file: {words}"
    if name == "pip":
        extras = re.findall(r"\[(.*)\]", rest[-1])
        _, _, section = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("optional-dependencies]")
        known = re.findall(r"^(\w+) = ", section.partition("\n[")[0], re.MULTILINE)
        return f"no extra: {words}" if extras and set(extras[0].split(",")) - set(known) else ""
    return ""


@pytest.mark.parametrize("page", [*PAGES, *PROJECT], ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    calls = [words for block in blocks(page, "bash") for words in block.commands()]
    assert [problem for words in calls if (problem := wrong(words))] == []


@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, *PROJECT) if page.name != "CHANGELOG.md"], ids=lambda page: page.name
)
def test_commands_in_the_running_text_parse(page: Path) -> None:
    problems = [wrong(words) for words in inline_commands(page) if len(words) > 1]
    alone = re.compile("Missing|requires an argument")  # a command or an option may be named without its arguments
    assert [problem for problem in problems if problem and not alone.search(problem)] == []


def test_the_list_of_commands_is_the_command_line() -> None:
    import typer

    from sgfi.cli.app import app

    (text, *_) = (block.text for block in blocks(DOCS / "cli.md", "text"))
    listed = [line.split()[1] for line in text.splitlines()]
    assert sorted(listed) == sorted(typer.main.get_command(app).commands)


def test_examples_of_the_help_parse() -> None:
    import typer

    from sgfi.cli.app import app

    seen = 0
    group = typer.main.get_command(app)
    for command in [
        own for top in group.commands.values() for own in (getattr(top, "commands", None) or {"": top}).values()
    ]:
        examples = re.findall(r"^ *(sgfi .*)$", command.help or "", re.MULTILINE)
        for words in Block("help", "bash", "\n".join(examples)).commands():
            seen += 1
            assert refused(words[1:]) == ""
    assert seen > 30


def test_a_wrong_option_is_noticed() -> None:
    assert refused(["look", "torchvision:resnet18", "cat.jpg", "--qery", "a"]) != ""
    assert refused(["atlas", "maps", "cat.jpg", "--kind", "nonsense"]) != "" and refused(["maps", "info", "m"]) == ""
