"""The natural inverse in the form of an attribution method: a model and a layer, then ``attribute``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from sgfi.errors import QueryError
from sgfi.inversion import Query, sweep
from sgfi.natural import natural
from sgfi.report.captured import captured


class NaturalAttribution:
    """``NaturalAttribution(model, model.layer3).attribute(x, 17)``: what channel 17 of a layer identifies in ``x``.

    A thin adapter for code that is written for captum's ``LayerX(model, layer).attribute(inputs, ...)``. ``layer`` is
    a module of the model, or a name or alias of one of its tensors; without one, the model's output. ``settings`` go
    to :func:`sgfi.natural`. The model is captured once, and again where it or the inputs' shape changes.
    """

    def __init__(self, model: nn.Module, layer: nn.Module | str | None = None, **settings: Any) -> None:
        if not isinstance(model, nn.Module):
            raise QueryError("a torch.nn.Module", type(model).__name__, "Wrap the function in a module.")
        self.model, self.layer, self._settings = model, _layer_name(model, layer), settings

    def attribute(
        self,
        inputs: Tensor,
        target: int | Sequence[int] | None = None,
        coords: Sequence[int | tuple[int | None, ...]] | None = None,
        directions: Any = None,
    ) -> Tensor:
        """(B, ...) of the inputs' shape, a deviation from the prior's mean.

        ``target`` names channels of the layer (at the output: classes), ``coords`` and ``directions`` are as in
        :class:`sgfi.Query`.
        """
        lens = natural(captured(self.model, inputs, [self.layer]), **self._settings)
        return sweep(lens, inputs, [Query(self.layer, target, coords, directions)])[0].value


def _layer_name(model: nn.Module, layer: nn.Module | str | None) -> str:
    if layer is None or isinstance(layer, str):
        return layer or "logits"
    name = next((name for name, module in model.named_modules() if module is layer), None)
    if not name:
        raise QueryError(
            "a module inside the model, or the name of a tensor", repr(layer)[:100], "sgfi.capture lists them."
        )
    return name
