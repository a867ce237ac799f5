"""One forward pass of an input, and the VJP and JVP of every local map at it."""

from sgfi.derivatives.capture import capture, capture_with, check_graph
from sgfi.derivatives.linearisation import Linearisation, LocalMap, backpropagate, push_forward

__all__ = ["Linearisation", "LocalMap", "backpropagate", "capture", "capture_with", "check_graph", "push_forward"]
