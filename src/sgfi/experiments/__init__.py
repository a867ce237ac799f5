"""Experiments as data: one small declarative file each over a shared base, and one runner for all of them."""

from __future__ import annotations

from sgfi.experiments.declaration import Experiment, available, declare, overlay
from sgfi.experiments.results import Result, compare, read_result
from sgfi.experiments.runner import run

__all__ = ["Experiment", "Result", "available", "compare", "declare", "overlay", "read_result", "run"]
