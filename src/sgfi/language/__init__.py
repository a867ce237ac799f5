"""Language models as maps from input embeddings."""

from sgfi.language.anatomy import FAMILIES, Anatomy, anatomy, token_plan
from sgfi.language.embedding import EmbeddingModel, embedding_model
from sgfi.language.windows import Windows, draw, tokenise

__all__ = [
    "FAMILIES",
    "Anatomy",
    "EmbeddingModel",
    "Windows",
    "anatomy",
    "draw",
    "embedding_model",
    "token_plan",
    "tokenise",
]
