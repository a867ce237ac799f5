"""The documentation site: `make docs` builds it offline into docs/_build/html, warnings as errors."""

from __future__ import annotations

import re
import shutil
import sys
from os.path import relpath
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

import gallery  # noqa: E402
import reference_pages  # noqa: E402

import sgfi  # noqa: E402

project, author = "sgfi", "The sgfi authors"
release = version = sgfi.__version__
copyright = author

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
suppress_warnings = [
    "toc.not_included",  # single result pages are reached from the tables that quote them
    "myst.header",  # generated result pages begin their sections where they like
]

# Markdown
myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["math"]  # GitHub renders ```math too
myst_heading_anchors = 4
mathjax_path = "mathjax/tex-svg.js"  # vendored: one file, no fonts
nb_execution_mode = "off"  # notebooks ship with their outputs; the tests run them

# Reference
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

# Look: system fonts, nothing from elsewhere
html_theme = "furo"
html_title = "sgfi"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
copybutton_prompt_text = "$ "
pygments_style = "friendly"
pygments_dark_style = "monokai"


def _copied(name: str, pattern: str, into: str) -> None:
    """Files that stand elsewhere in the repository, copied into the source folder for the build."""
    target = HERE / into
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for file in sorted((ROOT / name).glob(pattern)):
        shutil.copy(file, target / file.name)


_copied("notebooks", "*.ipynb", "_notebooks")
_copied(".", "[CS]*.md", "_project")
_copied("benchmarks/results", "*.*", "_benchmarks")
gallery.write_pages(HERE / "_gallery")
reference_pages.write(HERE / "_reference")


def _links(app, docname: str, source: list[str]) -> None:  # type: ignore[no-untyped-def]
    """Links that leave the source folder lead to the copies made here; of links to code and folders the words stay."""
    folder = (HERE / docname).parent

    def follow(match: re.Match[str]) -> str:
        bang, words, link = match.groups()
        path, hash_sign, anchor = link.partition("#")
        if "://" in link or not path:
            return match.group(0)
        target = (ROOT / path if docname.startswith("_project/") else folder / path).resolve()
        if (ROOT / "benchmarks" / "results") in target.parents:
            target = HERE / "_benchmarks" / target.name
        if HERE not in target.parents or not target.is_file():
            return words
        return f"{bang}[{words}]({relpath(target, folder)}{hash_sign}{anchor})"

    source[0] = re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", follow, source[0])


def _rooms_left(app, docname: str, source: list[str]) -> None:  # type: ignore[no-untyped-def]
    """A pattern of the front page that stands for pages which are not there yet is left out."""
    if docname == "index":
        patterns = re.findall(r"^\w+\*$", source[0], re.MULTILINE)
        for pattern in (pattern for pattern in patterns if not list(HERE.glob(f"{pattern}.md"))):
            source[0] = source[0].replace(f"\n{pattern}\n", "\n")


def _plain_text(app, what, name, obj, options, lines: list[str]) -> None:  # type: ignore[no-untyped-def]
    """Docstrings are plain text with double backticks: a star before a word and bars around one mean themselves."""
    lines[:] = [re.sub(r"\|(\w+)\|", r"\\|\1\\|", re.sub(r"(?<![*`\w])\*(?=[\w(])", r"\\*", line)) for line in lines]


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("source-read", _links)
    app.connect("source-read", _rooms_left)
    app.connect("autodoc-process-docstring", _plain_text)
