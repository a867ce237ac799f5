"""The page of results: all that was measured, by set-ups that can be told apart, beside the paper's numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sgfi.experiments import Result, read_result
from sgfi.experiments.derived import with_reductions
from sgfi.experiments.measured import Section, measured_table
from sgfi.experiments.page import results_page
from sgfi.experiments.paper_index import evaluated
from sgfi.experiments.published import claims, compared, judged, reported
from sgfi.experiments.results import FILE, markdown, summarise

Ran = Callable[..., Result]
ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "results" / "experiments"
COMMAND = "sgfi experiment page ."
NETWORKS = {"small": "x:resnet18", "large": "x:tiny_vit"}


def made(
    tables: Mapping[str, Any], specs: Mapping[str, str], *, fitted: int = 12, drawn: int = 4, **said: Any
) -> Result:
    """A result with these tables; ``said``: of its experiment."""
    empty = {"question": "Why?", "section": "Here", "differs": "", "paper": [], "claims": [], "resamples": 50}
    variants = {
        label: {
            "model": {"spec": spec, "input_shape": [3, 8, 8], "weights": "pretrained"},
            "target": "three",
            "shape": ["B", 8],
            "channel_axis": 1,
            "coord_axes": [],
            "fitted_nodes": 2,
            "calibration": {"indices": list(range(fitted))},
            "evaluation": {"indices": list(range(drawn))},
        }
        for label, spec in specs.items()
    }
    experiment = {"name": "made", "title": "Made", "measures": {}, **empty, **said}
    return Result(experiment, {"command": "sgfi experiment run made"}, variants, tables)


def score(mean: float, inputs: int = 4) -> dict[str, Any]:
    return summarise([mean + 0.01 * index for index in range(inputs)], 50)


def alignment(*labels: str, rows: tuple[str, ...] = ("first", "final")) -> dict[str, Any]:
    return {label: {row: {"pixel_cosine": score(0.5), "ssim": score(0.25)} for row in rows} for label in labels}


def rows_of(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:]]


def test_rows_without_a_number_of_the_paper_are_shown() -> None:
    paper = [{"row": "alignment/small/final/pixel_cosine", "says": "0.6", "network": "ResNet18"}]
    table = measured_table([made({"alignment": alignment(*NETWORKS)}, NETWORKS, paper=paper)])
    assert table.splitlines()[0] == "| set-up | row | pixel cosine | ssim |"
    names = [(row[0], row[1]) for row in rows_of(table)]
    small, large = "small: resnet18 8x8 (12 / 4)", "large: tiny_vit 8x8 (12 / 4)"
    theirs = ("*the paper: ResNet18, small*", "final")
    assert names == [(small, "first"), (small, "final"), theirs, (large, "first"), (large, "final")]
    judged_cell, mean = rows_of(table)[1][2:]
    assert judged_cell.startswith("0.515 [") and judged_cell.endswith("(lower by 0.085)") and mean == "0.265"
    assert rows_of(table)[2][2] == "0.6"


def test_a_row_of_the_paper_stands_below_its_network_or_at_the_end() -> None:
    says = [("0.6", "ViT-B/32"), ("0.7", "ResNet18")]
    paper = [{"row": "alignment/*/final/ssim", "says": number, "network": network} for number, network in says]
    tables = {"alignment": alignment(*NETWORKS, rows=("final",))}
    names = [row[0] for row in rows_of(measured_table([made(tables, NETWORKS, paper=paper)]))]
    assert names[1] == "*the paper: ResNet18*" and names[-1] == "*the paper: ViT-B/32*" and len(names) == 4


def test_equal_variants_are_told_apart_by_what_differs() -> None:
    tables = {"alignment": alignment("paper", rows=("final",))}
    few, many = (made(tables, {"paper": "x:tiny"}, fitted=fitted) for fitted in (12, 20))
    names = [row[0] for row in rows_of(measured_table([few, many]))]
    assert names == ["paper: tiny 8x8 (12 / 4)", "paper: tiny 8x8 (20 / 4)"]
    alone = rows_of(measured_table([few]))
    assert alone[0][0] == "paper"  # one set-up, which stands above the table


def test_pairs_and_rows_across_variants_name_their_networks() -> None:
    across = {"spread": {"all variants": {"final": {"pixel_cosine": {"mean": 0.1}, "ssim": {"mean": 0.1}}}}}
    first, second = (
        made({"alignment": alignment("a", rows=("final",)), **across}, {"a": spec}) for spec in ("x:tiny", "x:other")
    )
    names = [row[0] for row in rows_of(measured_table([first, second]))]
    assert names[-2:] == ["all variants: tiny 8x8 (12 / 4)", "all variants: other 8x8 (12 / 4)"]
    transfer = {"transfer": {"a -> b": {"final": {"pixel_cosine": score(0.5)}}}}
    pairs = [made(transfer, {"a": spec, "b": spec}) for spec in ("x:tiny", "x:other")]
    assert measured_table(pairs).startswith("|  | a -> b: tiny 8x8 (12 / 4) | a -> b: other 8x8 (12 / 4) |")


def many_ways(*labels: str) -> dict[str, Any]:
    measured = {"zero": {label: {"zero": {"norm_ratio": score(0.0, 2)}} for label in labels}}
    for name in ("swap", "shuffles"):
        measured[name] = {label: {"same": {f"{name}_{i}": score(0.5) for i in range(5)}} for label in labels}
    return measured


def test_few_set_ups_measured_in_many_ways_stand_side_by_side() -> None:
    paper = [{"row": "swap/*/same/swap_1", "says": "0.6", "network": name} for name in ("ResNet18", "ViT-B/32")]
    table = measured_table([made(many_ways(*NETWORKS), NETWORKS, paper=paper)])
    assert table.splitlines()[0] == ("|  | small: resnet18 8x8 (12 / 4) | large: tiny_vit 8x8 (12 / 4) | the paper |")
    body = {row[0]: row[1:] for row in rows_of(table)}
    assert len(body) == 11 and "zero: norm ratio (2 inputs)" in body
    ours, other, theirs = body["swap, same: swap 1"]
    assert ours.endswith("(lower by 0.085)") and other.endswith("]") and theirs == "ResNet18: 0.6; ViT-B/32: 0.6"


def test_many_set_ups_measured_in_many_ways_show_what_matters_of_each() -> None:
    labels = {f"v{index}": "x:tiny" for index in range(6)}
    paper = [{"row": "swap/v0/same/swap_1", "says": "0.6", "network": "ViT-B/32"}]
    claim = {"says": "s", "left": "shuffles/v0/same/shuffles_2", "relation": ">", "right": 0}
    result = made(many_ways(*labels), labels, paper=paper, claims=[claim])
    table = measured_table([result])
    columns = ["swap, same: swap 0", "swap, same: swap 1", "shuffles, same: shuffles 0", "shuffles, same: shuffles 2"]
    assert table.splitlines()[0] == "| set-up | zero: norm ratio (2 inputs) | " + " | ".join(columns) + " |"
    assert [row[0] for row in rows_of(table)] == ["v0", "*the paper: ViT-B/32, v0*", *list(labels)[1:]]
    wanted = {("swap", "same", "swap_4")}
    assert measured_table([result], wanted).splitlines()[0] == "| set-up | row | swap 4 |"
    assert measured_table([result], {("no", "such", "number")}) == ""


def test_what_used_fewer_inputs_says_how_many() -> None:
    result = made(many_ways("small"), {"small": "x:tiny"}, measures={"swap": {"images": 3}})
    assert evaluated(result, "small") == 4
    text = markdown(result)
    assert "| drawn to fit / to evaluate |" in text and "| 12 / 4 |" in text
    assert [re.search(rf"## {name}\n\n.* Inputs: (\d)\.\n", text)[1] for name in result.tables] == ["2", "3", "4"]


def test_reductions_are_computed_from_what_is_stored(ran: Ran) -> None:
    result = ran("second-stage")
    means = {
        name: value["mean"] for name, value in next(iter(result.tables["mechanism"].values()))["all nodes"].items()
    }
    derived = with_reductions(result)
    shown = next(iter(derived.tables["mechanism"].values()))
    for name in ("child_nmse", "state_error"):
        reduction = shown["all nodes"][f"{name}_reduction"]
        assert reduction["mean"] == pytest.approx(1 - means[f"{name}_final"] / means[f"{name}_first"], abs=1e-4)
        assert reduction["low"] <= reduction["mean"] <= reduction["high"]
    assert "child_nmse_reduction" not in means and "child_nmse_reduction" not in shown["input"]
    variants = {
        label: {**about, "model": {**about["model"], "spec": "x:resnet18"}} for label, about in result.variants.items()
    }
    said = judged(replace(derived, variants=variants))
    assert any(address.endswith("all nodes/child_nmse_reduction") for address in said)


def test_a_page_has_a_table_and_the_claims_of_every_question(ran: Ran, tmp_path: Path) -> None:
    results = {tmp_path / name: ran(name) for name in ("topology", "locality")}
    text = results_page(results, tmp_path, COMMAND)
    assert "| local | final |" in text and "| *the paper: ResNet18, local* | final | 0.93795 |" in text
    assert "topology/result.md" in text and "| *the second stage helps* | " in text
    assert "`density`" in text.partition("Without a result on this page:")[2].splitlines()[0]
    assert "## Our own questions" not in text and text.count("### ") == 2


def test_a_claim_that_was_not_measured_has_no_verdict(tmp_path: Path) -> None:
    missing = {"says": "small", "left": "alignment/*/final/lpips", "relation": "<", "right": 1}
    known = {**missing, "says": "large", "left": "alignment/*/final/ssim", "ours": True}
    tables = {"alignment": alignment("a")}
    measured, older = (made(tables, {"a": "x:tiny"}, claims=claims) for claims in ([known, missing], [missing]))
    text = results_page({tmp_path / "a": measured, tmp_path / "b": older}, tmp_path, COMMAND)
    assert "| *large* (ours) | holds: 0.265 < 1.000 |" in text and "*small*" not in text


def test_page_says_once_why_several_results_differ(ran: Ran, tmp_path: Path) -> None:
    results = {tmp_path / name: ran(name, {"differs": "Toys."}) for name in ("topology", "locality")}
    results[tmp_path / "ridge"] = ran("ridge", {"differs": ""})
    listed = results_page(results, tmp_path, COMMAND).partition("## Set-ups")[2]
    assert listed.count("Toys.") == 1 and listed.count("\n- [") == 3
    both, alone = listed.split("\n\n")[-2:]
    assert both.count("\n") == 1 and "ridge" in alone


def test_our_own_questions_stand_apart_with_what_their_claims_are_about(tmp_path: Path) -> None:
    claim = {"says": "small", "left": "alignment/*/final/ssim", "relation": "<", "right": 1}
    ours = made({"alignment": alignment("a")}, {"a": "x:tiny"}, claims=[claim], section="Ours; not in the paper")
    text = results_page({tmp_path / "a": ours}, tmp_path, COMMAND)
    assert text.index("## Our own questions") < text.index("### ") and "(ours)" not in text
    assert "| set-up | row | ssim |" in text and "pixel cosine" not in text


def test_answers_have_one_table_of_all_methods(ran: Ran, tmp_path: Path) -> None:
    first = ran("answers")
    text = results_page({tmp_path / "a": first, tmp_path / "b": first}, tmp_path, COMMAND)
    head = next(line for line in text.splitlines() if line.startswith("| network, input | tensor |"))
    methods = {row.rsplit(", ", 2)[0] for row in first.tables["answers"]["as declared"]}
    assert set(head.strip("| ").split(" | ")[4:]) == methods and text.count("| build, 3x8x8 |") == 1


def test_the_paper_s_numbers_are_judged_on_its_own_networks_only(ran: Ran) -> None:
    result = ran("topology")
    alike = replace(
        result, variants={k: {**v, "model": {**v["model"], "spec": "x:resnet18"}} for k, v in result.variants.items()}
    )
    address = "alignment/local/final/pixel_cosine"
    assert dict(reported(alike))[address]["says"] == "0.93795"
    assert judged(alike)[address].startswith(("higher by", "lower by", "in our interval"))
    assert judged(result) == {} and address in dict(reported(result))
    recorded = [{"row": "alignment/*/final/pixel_cosine", "says": "0.5, G 0.4 (ViT-B/32)"}]
    old = replace(result, experiment={**result.experiment, "title": "Another question", "paper": recorded})
    assert judged(old) == {} and len(list(reported(old))) == 2


def test_a_number_of_no_network_is_shown_and_not_judged_but_for_laws(ran: Ran) -> None:
    row = "alignment/*/final/pixel_cosine"
    for entry, verdicts in (
        ({"says": "0.5"}, 0),
        ({"says": "0.5", "network": "any"}, 2),
        ({"says": "0.1 (ResNet18), 0.2 (ViT-B/32)"}, 0),
    ):
        result = ran("topology", {"title": "Another question", "paper": [{"row": row, **entry}]})
        assert len(judged(result)) == verdicts and len(list(reported(result))) == 2


def test_other_estimators_than_the_maps_have_no_number_of_the_paper(ran: Ran) -> None:
    both = {"stages": ["final"], "estimators": ["maps", "natural, point"]}
    result = ran("topology", {"measures": {"alignment": both}})
    rows = [address.split("/")[2] for address, _ in reported(result) if "/local/" in address]
    assert rows == ["final"] and "final, natural, point" in result.tables["alignment"]["local"]


def test_means_near_one_keep_the_digits_they_are_judged_by() -> None:
    assert summarise([0.9999995, 0.9999996], 50)["mean"] == 0.99999955
    assert compared(summarise([0.9999995, 0.9999996], 50), "at least 0.99999997") == "**does not hold**"


@pytest.mark.parametrize(
    ("says", "verdict"),
    [
        ("0.52", "in our interval"),
        ("0.9", "lower by 0.400"),
        ("0.1 [0, 0.2]", "higher by 0.400"),
        ("at least 0.4", "holds"),
        ("at most 0.4 (or so)", "**does not hold**"),
        ("0.1 or 0.9", ""),
        ("0.9, 0.1 at layers 2, 8", ""),
        ("0.9 [0.8, 1.0] (CUB), 0.1 (Pets)", ""),
        ("0.9, re-encoding 0.1", "lower by 0.400"),
        ("not finite", ""),
    ],
)
def test_verdicts_on_single_numbers(says: str, verdict: str) -> None:
    assert compared({"mean": 0.5, "low": 0.4, "high": 0.6}, says) == verdict
    assert compared({"mean": 0.5}, "0.5") == "equal" and compared({"mean": None}, says) == ""
    assert compared({"mean": 0.834}, "0.83 GiB") == "" and compared({"mean": 0.834}, "0.83") == "equal"
    assert compared({"mean": 0.00218}, "0.00178") == "higher by 4.0e-04"  # not equal: it has five decimals
    assert compared({"mean": 2.4e-5}, "2.5e-05") == "lower by 1.0e-06" and compared({"mean": 4e-4}, "0") == "equal"
    assert compared({"mean": 0.836}, "0.83") == "higher by 0.006" and compared({"mean": 0.3}, "0") == "higher by 0.300"


def test_a_result_s_own_claims_stand_beside_the_shipped_ones(ran: Ran) -> None:
    result = ran("topology")
    shipped = [dict(claim) for claim in result.experiment["claims"]]
    said = [verdict.says for verdict in claims(result)]
    assert said == [claim["says"] for claim in shipped]  # none twice
    again = {**shipped[0], "says": "in older words"}
    own = {"says": "a number above zero", "left": "alignment/local/first/ssim", "relation": ">", "right": -2}
    more = replace(result, experiment={**result.experiment, "claims": [again, own]})
    assert [verdict.says for verdict in claims(more)] == [*said, "a number above zero"]


# The project's own results.


def test_rows_of_our_results_can_be_told_apart() -> None:
    questions: dict[str, list[Result]] = {}
    for file in sorted(STORED.glob(f"*/{FILE}")):
        result = read_result(file)
        if not result.experiment["section"].startswith("Ours"):
            questions.setdefault(result.experiment["title"], []).append(result)
    for title, results in questions.items():
        numbers = [(number.setup, number.quantity) for number in Section(tuple(results)).numbers]
        assert numbers and len(set(numbers)) == len(numbers), title


COUNTED = re.compile(
    r"(?<![-\w])([\d,]+)(?: instead of [\d,]+)? (?:calibration |evaluated )?(?:photographs|pictures|images|ones)\b"
)
PIXELS = re.compile(r"(\d+)(?: instead of (\d+))? pixels")


@pytest.mark.parametrize("file", sorted(STORED.glob(f"*/{FILE}")), ids=lambda file: file.parent.name)
def test_why_a_result_differs_is_true_of_it(file: Path) -> None:
    """Counts of images and sizes of inputs that the text names are those of the run; "instead of" are the paper's."""
    result = read_result(file)
    text, used = result.experiment["differs"], set[int]()
    for label, about in result.variants.items():
        used |= {len(about["calibration"]["indices"]), evaluated(result, label)}
    assert {int(count.replace(",", "")) for count in COUNTED.findall(text)} <= used
    sizes = {about["model"]["input_shape"][-1] for about in result.variants.values()}
    named = {int(size) for pair in PIXELS.findall(text) for size in pair if size}
    assert not named or named & sizes


def test_claims_about_templates_look_at_the_absolute_cosine() -> None:
    """Pictures with both signs of one template have a signed mean near zero."""
    stored = [read_result(file).experiment["claims"] for file in sorted(STORED.glob(f"*/{FILE}"))]
    templates = [claim["left"] for claims in stored for claim in claims if "template" in claim["says"]]
    assert templates and all(left.endswith("/pairwise_likeness") for left in templates)
