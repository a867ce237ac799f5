"""The blocks of the documentation's pages, and what a shell makes of its commands."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
PROJECT = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md")
]
PROGRAMS = ("sgfi", "python", "make", "pip", "torchrun", "pre-commit", "source")
"""What a block may call; bash stops at any other word."""
NOTED = "".join(f"{name}() {{ printf '%s\\0' {name} \"$@\" >&3; printf '\\n\\0' >&3; }}\n" for name in PROGRAMS)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    language: str
    text: str

    @property
    def title(self) -> str:
        """Its first line."""
        return self.text.splitlines()[0] if self.text else ""

    def commands(self) -> list[list[str]]:
        """The words of every command, as bash hands them to the programs: it runs the block, they write them down."""
        script = f"set -eo pipefail\nexec 3>&1 1>&2\n{NOTED}\n{self.text}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, cwd="/", check=False)
        if done.returncode:
            raise ValueError(f"bash refuses the block of {self.page} at {self.title!r}: {done.stderr.decode().strip()}")
        calls = done.stdout.decode().split("\n\0")[:-1]
        return [call.removesuffix("\0").split("\0") for call in calls]


def blocks(page: Path, *languages: str) -> list[Block]:
    """In order; all languages where none is named, "" for a block that names none."""
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\S*)[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(page.name, name, body) for name, body in fenced if not languages or name in languages]


def inline_commands(page: Path) -> list[list[str]]:
    """The words of `commands` in the running text, those with an omission left out."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    spans = re.findall(r"`((?:sgfi|python -m|make|pip install) [^`\n]+)`", text)
    whole = dict.fromkeys(span for span in spans if not re.search(r"\.\.\.|…|[A-Z]{4,}|<|\|", span))
    return Block(page.name, "bash", "\n".join(whole)).commands()
