"""The explorer: a page on this computer where every layer, channel, cell and token has a link to what it identifies."""

from __future__ import annotations

from sgfi.explorer.inputs import Input
from sgfi.explorer.lenses import Lens, map_lens, natural_lens
from sgfi.explorer.site import Site
from sgfi.explorer.store import Store, default_folder
from sgfi.explorer.workspace import Workspace

__all__ = ["Input", "Lens", "Site", "Store", "Workspace", "default_folder", "map_lens", "natural_lens"]
