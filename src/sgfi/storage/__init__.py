"""A map family on disk: folders, checkpoints, manifests."""

from sgfi.storage.checkpoint import Checkpoint
from sgfi.storage.files import is_map_folder, replace_folder
from sgfi.storage.folder import load, save, verify_files
from sgfi.storage.manifest import read_manifest, record_of
from sgfi.storage.scratch import draft_of, write_text

__all__ = [
    "Checkpoint",
    "draft_of",
    "is_map_folder",
    "load",
    "read_manifest",
    "record_of",
    "replace_folder",
    "save",
    "verify_files",
    "write_text",
]
