"""A map family on disk: folders, checkpoints, manifests."""

from sgfi.storage.checkpoint import Checkpoint
from sgfi.storage.files import is_map_folder, replace_folder
from sgfi.storage.folder import load, read_manifest, save, verify_files

__all__ = ["Checkpoint", "is_map_folder", "load", "read_manifest", "replace_folder", "save", "verify_files"]
