"""What the model computes: the captured tensor graph, its names and axes, and its local maps."""

from sgfi.graph.capture import RandomModel, capture
from sgfi.graph.programs import full_precision
from sgfi.graph.tensor_graph import Node, TensorGraph, check_input

__all__ = ["Node", "RandomModel", "TensorGraph", "capture", "check_input", "full_precision"]
