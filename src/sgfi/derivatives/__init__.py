"""One forward pass of an input, and the VJP and JVP of every local map at it."""

from sgfi.derivatives.linearisation import Linearisation, LocalMap, backpropagate

__all__ = ["Linearisation", "LocalMap", "backpropagate"]
