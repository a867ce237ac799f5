"""The gallery: a page for each program in examples/, its picture beside it.   python docs/gallery.py [NAME...]

Called as a program, it runs the examples and draws the pictures again; those of DeiT-tiny need its weights in the
folder that SGFI_ASSETS names. The site's build (docs/conf.py) only writes the pages, from the programs' own docstrings:
weights and minutes of solving are not needed to read them.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES, IMAGES = HERE.parent / "examples", HERE / "images" / "gallery"
WIDEST, QUALITY = 1400, 85
ORDER = (
    "first_picture channels_that_differ cells_that_look_where_they_stand depth_ladder direction class_margin "
    "attention_head sae_latents sentence_encoder residual_direction eight_methods maps_beside_natural"
).split()
INTRODUCTION = """# Gallery

Programs of at most 40 lines, each with the picture it writes. `python docs/gallery.py` makes the pictures; the tests
run the same programs, smaller. Photograph: `chelsea.png` of scikit-image.

"""


@dataclass(frozen=True)
class Entry:
    """One program, as its docstring describes it."""

    name: str
    title: str
    call: str
    words: str
    """What is done and what is seen: Markdown."""
    code: str

    @classmethod
    def of(cls, name: str) -> Entry:
        text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        tree = ast.parse(text)
        head, _, words = (ast.get_docstring(tree) or "").partition("\n\n")
        title, _, call = head.partition("   ")
        code = "\n".join(text.splitlines()[tree.body[0].end_lineno or 0 :]).strip()
        return cls(name, title.rstrip(".?") + ("?" if title.endswith("?") else ""), call, words, code)

    @property
    def page(self) -> str:
        return (
            f"# {self.title}\n\n{self.words}\n\n![{self.title}](../images/gallery/{self.name}.jpg)\n\n"
            f"```console\n$ {self.call}\n```\n\n```python\n{self.code}\n```\n"
        )

    @property
    def card(self) -> str:
        return (
            f'<a class="card" href="{self.name}.html"><img src="../_images/{self.name}.jpg" alt="" loading="lazy">'
            f"<span>{self.title}</span></a>"
        )


def write_pages(folder: Path) -> None:
    """index.md with thumbnails, and a page for each program."""
    folder.mkdir(exist_ok=True)
    entries = [Entry.of(name) for name in ORDER]
    for entry in entries:
        (folder / f"{entry.name}.md").write_text(entry.page, encoding="utf-8")
    cards = "".join(f"{entry.card}\n" for entry in entries)
    listed = "".join(f"{entry.name}\n" for entry in entries)
    (folder / "index.md").write_text(
        f'{INTRODUCTION}<div class="cards">\n{cards}</div>\n\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n\n{listed}```\n',
        encoding="utf-8",
    )


def arguments(name: str, out: str) -> list[str]:
    """What a program is called with, its picture's path among it."""
    from sgfi.inputs.photographs import HELD_OUT

    photo, other = (str(photograph.file) for photograph in HELD_OUT[:2])
    assets = Path(os.environ.get("SGFI_ASSETS", "assets"))
    weights = str(assets / "weights" / "deit_tiny_patch16_224_imagenet_fp16.safetensors")
    special = {
        "depth_ladder": [out, *(str(photograph.file) for photograph in HELD_OUT)],
        "direction": [photo, other, out],
        "attention_head": [weights, photo, out],
        "sae_latents": [weights, str(assets / "images" / "imagenet_val"), photo, out],
        "sentence_encoder": [out],
        "residual_direction": [out],
    }
    return special.get(name, [photo, out])


def draw(name: str) -> Path:
    """Run a program as it stands; its picture as a .jpg, no wider than needed."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.png"
        runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*arguments(name, str(out)))
        image = Image.open(out).convert("RGB")
        if image.width > WIDEST:
            image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
        IMAGES.mkdir(parents=True, exist_ok=True)
        image.save(IMAGES / f"{name}.jpg", quality=QUALITY)
    return IMAGES / f"{name}.jpg"


if __name__ == "__main__":
    for chosen in sys.argv[1:] or ORDER:
        print(draw(chosen))
