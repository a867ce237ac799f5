"""The natural inverse: what the input most probably is, given what one feature registered and nothing else."""

from sgfi.natural.answer import NaturalAnswer
from sgfi.natural.channels import embedding_prior
from sgfi.natural.covariance import Prior
from sgfi.natural.lens import NaturalInverse, natural
from sgfi.natural.path import Path
from sgfi.natural.photographs import photograph_prior
from sgfi.natural.prior import from_tensors, prior
from sgfi.natural.recent import Recent
from sgfi.natural.reference import reference_state, registered
from sgfi.natural.solution import NotConverged, Solver

__all__ = [
    "NaturalAnswer",
    "NaturalInverse",
    "NotConverged",
    "Path",
    "Prior",
    "Recent",
    "Solver",
    "embedding_prior",
    "from_tensors",
    "natural",
    "photograph_prior",
    "prior",
    "reference_state",
    "registered",
]
