"""What the paper says about a number of ours, and how the two compare.

An entry of an experiment's ``paper`` has a ``row`` (an address, any part of it ``*``), what the paper ``says`` there
and the ``network`` it is about, or ``any`` where it holds for every one. Numbers of another network, or of one that the
paper does not name, are shown and not judged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

from sgfi.experiments.declaration import available, declare
from sgfi.experiments.measures.contestants import ESTIMATORS, MAPS
from sgfi.experiments.results import Result, Score, Verdict, judge, number, variants_of

NETWORKS = {
    "ResNet18": "resnet18",
    "ResNet50": "resnet50",
    "DenseNet121": "densenet121",
    "MobileNetV2": "mobilenet_v2",
    "EfficientNet-B0": "efficientnet_b0",
    "RegNetY-1.6GF": "regnet_y",
    "ConvNeXt-B": "convnext_base",
    "Swin-T": "swin_t",
    "ViT-B/32": "vit_b_32",
    "GPT-2": "gpt2",
}
"""The paper's networks and what their specs contain."""
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)(?:\s*[\[(,].*)?")
"""A sentence that begins with one number; what follows is a remark."""
BRACKETS = re.compile(r"\s*(\[[^]]*\]|\([^)]*\))")
ANOTHER = re.compile(r"\S+\s*,\s*-?\d")
"""A number with another behind it, brackets left out: of several layers, channels or sets."""
ANY = "any"
BOUND = re.compile(r"(at least|above|at most|below) (-?\d+(?:\.\d+)?(?:e-?\d+)?)")
OTHERS = tuple(f", {name}" for name in ESTIMATORS if name != MAPS)
"""How rows of other estimators than the maps end."""
UNJUDGED = ("seconds", "_ms_", "/lpips")
"""In addresses of what the machine decides, or a trunk of LPIPS that the paper does not name."""
Entry = Mapping[str, Any]
"""A number of the paper (``row``, ``says``, ``network``) or a claim, as declared."""
ROUNDING = 5e-4
"""What may lie between our number and one without decimals; of others it is half of the last decimal."""


def reported(result: Result) -> Iterator[tuple[str, Entry]]:
    """Every address of ours with each number of the paper that is about it; other estimators than the maps have none.

    What the shipped file says now counts before what the result recorded.
    """
    papers = (_shipped(result)["paper"], result.experiment["paper"])
    for address, _ in result.scores():
        if not address.split("/")[2].endswith(OTHERS):
            matching = next((entries for paper in papers if (entries := _matching(paper, address))), [])
            yield from ((address, entry) for entry in matching)


def judged(result: Result) -> dict[str, str]:
    """How our numbers stand to the paper's of the same network, by address: ``in our interval``, ``equal``, ``higher by
    ...``, ``lower by ...``, ``holds`` or not (of a bound); nothing where the two cannot be compared."""
    scores, verdicts = dict(result.scores()), dict[str, str]()
    for address, entry in reported(result):
        same = same_network(entry, specs_of(result, address.split("/")[1]))
        if same and address not in verdicts and not any(word in address for word in UNJUDGED):
            verdicts[address] = compared(scores[address], entry["says"])
    return {address: verdict for address, verdict in verdicts.items() if verdict}


def claims(result: Result) -> list[Verdict]:
    """Its claims, judged on its means."""
    return [judge(result, claim) for claim in claimed(result)]


def claimed(result: Result) -> list[Entry]:
    """The claims of the shipped file, and the result's own about numbers that the file leaves out."""
    shipped = _shipped(result)["claims"]
    known = {claim["left"] for claim in shipped}
    return [*shipped, *(claim for claim in result.experiment["claims"] if claim["left"] not in known)]


def compared(score: Score, says: str) -> str:
    """How our mean stands to the number that a sentence begins with, or to the bound that it sets."""
    bound, begins = BOUND.match(says), NUMBER.fullmatch(says)
    if bound is not None and score["mean"] is not None:
        least = bound[1] in ("at least", "above")
        kept = score["mean"] >= float(bound[2]) if least else score["mean"] <= float(bound[2])
        return "holds" if kept else "**does not hold**"
    if begins is None or score["mean"] is None or ANOTHER.match(BRACKETS.sub("", says)):
        return ""
    value, mean = float(begins[1]), score["mean"]
    low, high = score.get("low"), score.get("high")
    if low is not None and high is not None and low <= value <= high:
        return "in our interval"
    last = int(Decimal(begins[1]).as_tuple().exponent)
    if abs(mean - value) <= (0.5 * 10**last if last < 0 else ROUNDING):
        return "equal"
    return f"{'higher' if mean > value else 'lower'} by {number(abs(mean - value))}"


def network(entry: Entry) -> str | None:
    """The network that an entry is about: named, or the only one in brackets of what it says."""
    remarks = [remark for remark in re.findall(r"\(([^()]*)\)", entry["says"]) if remark.split(" to ")[0] in NETWORKS]
    return entry.get("network") or (remarks[0] if len(remarks) == 1 else None)


def specs_of(result: Result, variant: str) -> set[str]:
    """Of a variant, of both of a pair, or of all variants."""
    return {str(result.variants[label]["model"]["spec"]).lower() for label in variants_of(result, variant)}


def same_network(entry: Entry, specs: Collection[str]) -> bool:
    about = network(entry)
    if about is None or about == ANY:
        return about == ANY
    name = NETWORKS.get(about.split(" to ")[0], about.lower())
    whole = " to " not in about  # not a part of the network, as in "ResNet18 to layer3"
    return all(name in spec and not (whole and f"{name}_to_" in spec) for spec in specs)


def _matching(paper: Sequence[Entry], address: str) -> list[Entry]:
    return [entry for entry in paper if fnmatchcase(address, entry["row"].replace("[", "[[]"))]


def _shipped(result: Result) -> Mapping[str, Any]:
    """The file's own words, where the result asks the file's question."""
    if result.name in available():
        experiment = declare(result.name)
        if experiment.title == result.experiment["title"]:
            return {"paper": experiment.paper, "claims": experiment.claims}
    return {"paper": (), "claims": ()}
