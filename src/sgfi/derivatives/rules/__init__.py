"""How the derivative of each op acts at a point, without running the op again.

A frozen model's ops are known, and so is what is linear about them: a convolution is its own derivative, an activation
is a factor per entry, a normalisation or a softmax a projection. Each rule says both ways, ``push`` (tangents forward)
and ``pull`` (cotangents back). Tangents and cotangents always carry a leading axis of Q directions, ``(Q, *shape)``, so
many queries go through one product. An op without a rule is left to autograd, alone.
"""

from sgfi.derivatives.rules import activations, products, shapes  # noqa: F401  (they register their rules)
from sgfi.derivatives.rules.autograd import derive
from sgfi.derivatives.rules.ops import RULES, Argument, Linear, OpCall, OpDerivative, Rule
from sgfi.derivatives.rules.shapes import item_derivative, split_derivative

__all__ = [
    "RULES",
    "Argument",
    "Linear",
    "OpCall",
    "OpDerivative",
    "Rule",
    "derive",
    "item_derivative",
    "split_derivative",
]
