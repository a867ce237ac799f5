"""Map families that others made: fetched from a hub, a static file server or a folder, and published there."""

from sgfi.sharing.card import Licences, model_card
from sgfi.sharing.publish import publish, push_to_hub
from sgfi.sharing.pull import from_pretrained, pull
from sgfi.sharing.sources import REPOSITORY, Unreachable

__all__ = [
    "REPOSITORY",
    "Licences",
    "Unreachable",
    "from_pretrained",
    "model_card",
    "publish",
    "pull",
    "push_to_hub",
]
