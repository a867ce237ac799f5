"""Language models as maps from input embeddings."""

from sgfi.language.embedding import EmbeddingModel, embedding_model

__all__ = ["EmbeddingModel", "embedding_model"]
