"""What can be measured of a calibrated case. Each measure is a small function over shared pieces.

A measure returns a table: row -> score -> one number per image, or one number for all. Most are a control or diagnostic
of :mod:`sgfi.evaluation` taken over the evaluation batches. Importing a module here registers its measures.
"""

from sgfi.experiments.measures import (  # noqa: F401
    across,
    answers,
    baselines,
    controls,
    costs,
    decisions,
    routing,
    sequences,
    tokens,
)
from sgfi.experiments.measures.registry import ACROSS, MEASURES, PAIRS, Measure, Table, known

__all__ = ["ACROSS", "MEASURES", "PAIRS", "Measure", "Table", "known"]
