"""One word for how to calibrate, the same in Python and on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgfi.boundaries import Plan, plan
from sgfi.calibration.settings import FitSettings
from sgfi.errors import CalibrationError, did_you_mean

PAPER = FitSettings()


@dataclass(frozen=True)
class Preset:
    """What a word stands for; the defaults are the paper's."""

    name: str
    settings: FitSettings = PAPER
    boundaries: str | Sequence[str] = "stage"
    """Of a plain recipe plan; a custom plan is left as it is."""
    partition: str = "singleton"
    """Of a plain recipe plan."""

    def refine(self, given: Plan) -> Plan:
        """A plain recipe plan with the preset's boundaries and partition, for the same target; any other as it is."""
        if not isinstance(given, Plan):
            raise CalibrationError("a plan", type(given).__name__, "Pass sgfi.plan(graph, ...).")
        if (self.boundaries, self.partition) == ("stage", "singleton") or not _is_plain(given):
            return given
        axes = {name: boundary.node.channel_axis for name, boundary in given.boundary.items()}
        return plan(given.graph, given.target, self.boundaries, axes, self.partition)  # type: ignore[arg-type]


PRESETS = {
    "paper": Preset("paper"),
    "aligned": Preset("aligned", FitSettings("auto", "online", "auto", length=True), ("stage", "stem"), "blocks2"),
}
"""``paper``: as published. ``aligned``: what was measured to align best with the input, see docs/method.md."""


def preset_named(word: str | Preset) -> Preset:
    """A preset by its word."""
    if isinstance(word, Preset):
        return word
    if not isinstance(word, str) or word not in PRESETS:
        todo = did_you_mean(str(word)[:100], PRESETS) or "Choose one of these."
        raise CalibrationError(f"a preset among {list(PRESETS)}", repr(word), todo)
    return PRESETS[word]


def _is_plain(given: Plan) -> bool:
    """Whether nothing but the recipe and the target was chosen."""
    return given.mode.startswith("stage:") and all(
        boundary.partition.kind == "singleton" and boundary.operator.name == "full"
        for boundary in given.boundary.values()
    )
