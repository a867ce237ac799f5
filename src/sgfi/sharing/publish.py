"""A family with its card: into a folder that any file server can serve, or into a repository of a hub."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

import sgfi
from sgfi.errors import StoreError, first_line
from sgfi.optional import need
from sgfi.sharing.card import Licences, as_batch, draw_ladder, held_out_scores, model_card
from sgfi.storage import read_manifest
from sgfi.storage.files import new_folder
from sgfi.storage.manifest import as_folder

CARD, PICTURE = "README.md", "picture.png"
DRAWN = "drawn"
"""In the place of a picture's file: draw it."""


def publish(
    family: sgfi.MapFamily,
    path: str | Path,
    licences: Licences,
    *,
    name: str | None = None,
    held_out: Any = None,
    picture: str | Path | None = None,
    precision: str | None = None,
) -> Path:
    """Maps and card in a new folder: put it on any file server, and its address is a source.

    ``held_out`` are inputs (N, ...), or batches of them, that the card's numbers are measured on; ``picture`` is a
    .png or .jpg that goes on the card, or ``"drawn"`` for a few held-out pictures and their inverses, which are then
    published too; ``name`` is how readers will call it.
    """
    path = as_folder(path)
    if path.exists():
        raise StoreError("a path that does not exist yet", repr(str(path)), "Choose another.")
    x = None if held_out is None else as_batch(held_out)
    shown = None if picture is None else _checked(picture, x)
    with new_folder(path) as draft:
        sgfi.save(family, draft / "maps", precision=precision)
        for file in (draft / "maps").iterdir():
            file.replace(draft / file.name)
        (draft / "maps").rmdir()
        drawn = None if shown is None else f"picture{shown.suffix.lower()}"
        if x is not None and picture == DRAWN:
            draw_ladder(family, x, draft / PICTURE)
        elif shown is not None and drawn is not None:
            shutil.copyfile(shown, draft / drawn)
        scores = [] if x is None else held_out_scores(family, x)
        title = name or path.name
        card = model_card(read_manifest(draft), licences, title, scores, 0 if x is None else len(x), drawn)
        (draft / CARD).write_text(card, encoding="utf-8")
    return path


def _checked(picture: str | Path, x: Tensor | None) -> Path:
    """The file that goes on the card, or what is drawn will be called."""
    if picture == DRAWN:
        if x is None or x.dim() != 4 or x.shape[1] not in (1, 3):
            got = "none" if x is None else f"inputs of shape {tuple(x.shape[1:])}"
            raise StoreError("held-out pictures (N, 1 or 3, H, W) to draw", got, "Give some, or a file.")
        need("matplotlib", "figures")
        return Path(PICTURE)
    shown = Path(picture)
    if not shown.is_file() or shown.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise StoreError("a .png or .jpg file for the card", str(shown), "Choose another, or leave it out.")
    return shown


def push_to_hub(
    family: sgfi.MapFamily,
    repository: str,
    licences: Licences,
    *,
    revision: str | None = None,
    private: bool = True,
    **options: Any,
) -> str:
    """Publish into a repository of the hub, one for each family; the commit that pins it.

    The repository is made where there is none, private unless said otherwise. ``options`` are those of :func:`publish`.
    """
    hub = need("huggingface_hub", "hub")
    api = hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="sgfi", library_version=sgfi.__version__)
    with tempfile.TemporaryDirectory() as folder:
        made = publish(family, Path(folder) / "family", licences, name=repository, **options)
        try:
            api.create_repo(repository, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repository, folder_path=made, revision=revision, commit_message="Publish a map family"
            )
        except (need("huggingface_hub.errors", "hub").HfHubHTTPError, OSError, ValueError) as error:
            todo = "Check the name, your login (hf auth login) and the network."
            raise StoreError(f"the hub to take {repository}", first_line(error), todo) from error
    return str(commit.oid)
