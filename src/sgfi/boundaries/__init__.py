"""Where repairs stand: axes, frontiers, plans and the recipes of architecture families."""

from sgfi.boundaries.boundary import Boundary
from sgfi.boundaries.frontier import BoundaryDag, boundary_dag
from sgfi.boundaries.plan import Plan, plan

__all__ = ["Boundary", "BoundaryDag", "Plan", "boundary_dag", "plan"]
