"""A map family on disk: folders, checkpoints, manifests."""

from sgfi.storage.folder import load, save

__all__ = ["load", "save"]
