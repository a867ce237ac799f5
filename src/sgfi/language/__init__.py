"""Language models as maps from input embeddings: loading, plans, texts, profiles, controlled contexts, references."""

from sgfi.language.anatomy import FAMILIES, Anatomy, anatomy, token_plan
from sgfi.language.contexts import Context, agreement, matched_subsets, polysemy, stacked
from sgfi.language.display import Interface, fit_interface
from sgfi.language.embedding import EmbeddingModel, EncoderModel, embedding_model
from sgfi.language.lengths import transfer
from sgfi.language.profiles import energy_profile, entropy, future_mass, mass
from sgfi.language.vocabulary import exact_tokens, nearest, token_cosine
from sgfi.language.windows import Windows, draw, tokenise

__all__ = [
    "FAMILIES",
    "Anatomy",
    "Context",
    "EmbeddingModel",
    "EncoderModel",
    "Interface",
    "Windows",
    "agreement",
    "anatomy",
    "draw",
    "embedding_model",
    "energy_profile",
    "entropy",
    "exact_tokens",
    "fit_interface",
    "future_mass",
    "mass",
    "matched_subsets",
    "nearest",
    "polysemy",
    "stacked",
    "token_cosine",
    "token_plan",
    "tokenise",
    "transfer",
]
