"""Markdown and figures of the language measurements, made from their JSON files alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.common import table
from sgfi.figures import save_figure
from sgfi.figures.tokens import Strip, curves, dot_intervals, position_matrices, token_strips

OUT = Path(__file__).resolve().parents[1] / "docs" / "results" / "language"
STAGES = ("raw", "first", "final")
QUALITY = ("embedding_cosine", "exact_token")
PAPER_ROUTING = {
    "raw": ("0.178", "0.511", "0.488", "0.410"),
    "paper first": ("0.161", "0.147", "13.42", "9.55"),
    "paper final": ("0.190", "0.169", "7.57", "4.82"),
    "direct global linear": ("0.004", "0.053", "0.870", "0.869"),
    "attention": ("0.006", "0.039", "1.79", "1.66"),
    "gradient x input": ("0.173", "0.267", "0.559", "0.517"),
    "integrated gradients": ("0.088", "0.216", "0.742", "0.729"),
}
"""GPT-2 small, mean of two calibrations: cue - random, target mass, agreement/attractor grammatical, ungrammatical."""

FUNCTION_WORDS = frozenset(
    "the a an and or of to in on at by for from with as his her its my that it is was had there".split()
)


def read(name: str) -> dict[str, Any] | None:
    file = OUT / f"{name}.json"
    return json.loads(file.read_text())["result"] if file.is_file() else None


def short(name: str) -> str:
    """``causal-honest-s123-attention6-c1024 final`` -> ``causal, honest, 1024 final``."""
    if "-c" not in name or "-s" not in name:
        return name
    recipe, _, stage = name.partition(" ")
    kind, _, rest = recipe.rpartition("-s")
    family, _, children = kind.rpartition("-")
    seed, _, windows = rest.partition("-")[0], *rest.rpartition("-c")[1:]
    told = f"{family}, {children.replace('.one', ' (one stage)')}, {int(windows):,}"
    told += "" if seed == "123" else f", seed {seed}"
    return f"{told} {stage}".strip()


def number(value: float) -> str:
    return "0 (exact)" if value == 0 else f"{value:.3f}"


def ranged(told: dict[str, float], signed: bool = False) -> str:
    sign = "+" if signed else ""
    return f"{told['mean']:{sign}.3f} ({told['low']:{sign}.3f}, {told['high']:{sign}.3f})"


def sequence(measured: str = "sequence") -> str:
    found = read(measured)
    if found is None:
        return ""
    rows = []
    for name, stages in found["families"].items():
        rows.append([short(name), *(ranged(stages[stage][key]) for key in QUALITY for stage in STAGES[1:])])
    rows.append(["raw, any family", *(text for key in QUALITY for text in ("", ranged(found["raw"][key])))])
    head = ["family, children, windows", *(f"{key} {stage}" for key in ("cosine", "exact") for stage in STAGES[1:])]
    told = "on which our recipe was chosen" if measured == "sequence" else "on which nothing was chosen"
    text = f"## Whole layer-6 attention output ({found['windows']} held-out windows, {told})\n\n"
    text += table(head, rows)
    rows = [
        [" minus ".join(map(short, name.split(" minus "))), *(ranged(told[key], signed=True) for key in QUALITY)]
        for name, told in found["contrasts"].items()
    ]
    return text + "\n\n" + table(["paired difference over windows", "embedding cosine", "exact tokens"], rows)


def unseen() -> str:
    return sequence("unseen")


def routing() -> str:
    found = read("routing")
    if found is None:
        return ""
    rows = []
    for name, semantic in found["semantic"].items():
        syntactic = found["syntactic"][name]
        known = PAPER_ROUTING.get(_paper_row(name), ("",) * 4)
        rows.append(
            [
                short(name),
                ranged(semantic["cue_minus_random"]),
                f"{semantic['target']['mean']:.3f}",
                ranged(syntactic["pooled"]),
                f"{syntactic['grammatical']['ratio']:.2f}",
                f"{syntactic['ungrammatical']['ratio']:.2f}",
                " / ".join(known).strip(" /"),
            ]
        )
    head = [
        "method",
        "cue - random (words)",
        "target mass",
        "agreement - attractor (templates)",
        "ratio gram.",
        "ratio ungram.",
        "GPT-2 in the paper: cue - random / target / ratios",
    ]
    text = "## Terminal-token routing in controlled contexts\n\n" + table(head, rows)
    rows = [
        [f"{short(first)} minus {short(second)}", *(ranged(told[key]) for key in told)]
        for (first, second), told in ((name.split(" minus "), told) for name, told in found["contrasts"].items())
    ]
    head = ["paired difference", "cue - random", "cue mass", "target mass", "agreement - attractor"]
    return text + "\n\n" + table(head, rows)


def words() -> str:
    """Who gets the energy: declared cues, function words, the target, in the polysemy contexts."""
    found = read("routing")
    if found is None:
        return ""
    contexts = json.loads((OUT / "contexts.json").read_text())["polysemy"]
    rows = []
    for name, (profiles, _) in found["profiles"].items():
        shares = [_shares(profile, context) for profile, context in zip(profiles, contexts, strict=True)]
        rows.append([short(name), *(f"{sum(column) / len(column):.3f}" for column in zip(*shares, strict=True))])
    head = ["mean energy in the 72 polysemy contexts", "declared cues", "function words", "first position", "target"]
    return table(head, rows)


def _shares(profile: list[float], context: dict[str, Any]) -> tuple[float, ...]:
    plain = [token.strip().lower() for token in context["tokens"][:-1]]
    function = sum(share for share, token in zip(profile, plain, strict=False) if token in FUNCTION_WORDS)
    return sum(profile[cue] for cue in context["cues"]), function, profile[0], profile[-1]


def _paper_row(name: str) -> str:
    """Which of the paper's rows a method answers to; only its own family as it calibrates it does."""
    if name.startswith("paper-true") and "s123" in name and "c4096" in name:
        return f"paper {name.split()[-1]}"
    return name


def controls() -> str:
    found = read("controls")
    if found is None:
        return ""
    rows = []
    for name, told in found["families"].items():
        if "geometry_swap" not in told:
            continue
        swap = told["geometry_swap"]
        rows.append(
            [
                short(name),
                f"{swap['to_target']:.3f} / {swap['to_geometry']:.3f}",
                f"{swap['profile_to_target']:.3f} / {swap['profile_to_geometry']:.3f}",
                number(told["zero_terminal_largest"]),
                f"{told['cue_query']['cosine']:.3f} / {told['cue_query']['profile_cosine']:.3f}",
            ]
        )
    rows.append(["GPT-2 in the paper", "0.189 / 0.496", "0.373 / 0.623", "0 (exact)", "0.079 / 0.182"])
    head = [
        "family",
        "swap: to target / geometry",
        "profile: to target / geometry",
        "zero terminal",
        "cue query: value / profile",
    ]
    text = f"## Controls ({found['pairs']} pairs)\n\n" + table(head, rows)
    rows = [
        [short(name), *(number(told["future_energy"][s]) if s in told["future_energy"] else "" for s in STAGES)]
        for name, told in found["families"].items()
    ]
    rows.append(["GPT-2 in the paper", "0 (exact)", "0.426", "0.427"])
    text += f"\n\n### Energy after the queried position, all positions ({found['matrices']} contexts)\n\n"
    text += table(["family", *STAGES], rows)
    seeds = {name: told for name, told in found["cross_seed"].items() if isinstance(told, dict)}
    if not seeds:
        return text
    rows = [[short(name), *(f"{told[key]:.3f}" for key in told)] for name, told in seeds.items()]
    rows.append(["GPT-2 in the paper, 4,096 windows", "0.912", "0.913", "0.824"])
    head = [
        f"family, {found['cross_seed']['windows']:,} windows, seeds 123 and 321",
        "cosine",
        "profile cosine",
        "top-5 overlap",
    ]
    return text + "\n\n### Two calibrations\n\n" + table(head, rows)


def layers() -> str:
    found = read("layers")
    if found is None:
        return ""
    rows = [
        [
            layer,
            *(ranged(told[stage]["semantic"]["cue_minus_random"]) for stage in STAGES),
            f"{told['final']['semantic']['target']['mean']:.3f}",
            *(f"{told[stage]['syntactic']['grammatical']['ratio']:.2f}" for stage in STAGES),
        ]
        for layer, told in found["layers"].items()
    ]
    head = ["layer", *(f"cue - random {s}" for s in STAGES), "target mass final", *(f"gram. ratio {s}" for s in STAGES)]
    return f"## Layer sweep ({short(found['family'])} windows)\n\n" + table(head, rows)


def decisions() -> str:
    found = read("decisions")
    if found is None:
        return ""
    sizes = list(found["drops"]["positive"])
    rows = [[kind, *(ranged(told[size]) for size in sizes)] for kind, told in found["drops"].items()]
    rows.append(["GPT-2 in the paper, positive", "0.206", "0.349", "0.567 (0.463, 0.680)", "0.871"])
    text = f"## Next-token decisions ({found['contexts']} held-out contexts, mean margin {found['margin']:.3f})\n\n"
    text += table(["group at the terminal position", *(f"k = {size}" for size in sizes)], rows)
    rows = [
        [
            kind,
            f"{told['terminal']:.3f}",
            f"{told['all']:.3f}",
            ranged(told["difference"]),
            f"{told['positive_share']:.2f}",
        ]
        for kind, told in found["reach"].items()
    ]
    rows.append(["GPT-2 in the paper, positive", "0.447", "0.677", "0.230 (0.201, 0.263)", "1.00"])
    head = [
        "32 channels ranked over all positions",
        "terminal edit",
        "all positions",
        "difference",
        "share of contexts > 0",
    ]
    text += "\n\n" + table(head, rows)
    rows = [
        [
            short(name),
            f"{told['cosine']:.3f}",
            f"{told['profile_cosine']:.3f}",
            ranged(told["entropy_increase"]),
            " -> ".join(f"{mass:.3f}" for mass in told["terminal_mass"]),
        ]
        for name, told in found["queries"].items()
    ]
    rows.append(["GPT-2 in the paper", "0.309", "0.489", "0.144 (0.116, 0.170)", "0.202 -> 0.112"])
    head = ["terminal-only against all-position query", "cosine", "profile cosine", "entropy increase", "terminal mass"]
    return text + "\n\n" + table(head, rows)


def mlp() -> str:
    found = read("mlp")
    if found is None:
        return ""
    rows, shown, lengths = [], [], []
    for name, told in found["families"].items():
        for stage in STAGES:
            one = told[stage]
            rows.append(
                [
                    f"{short(name)} {stage}",
                    *(ranged(one[key]) for key in QUALITY),
                    f"{one['reencoding_auc']:.3f}",
                ]
            )
            if "display" in one:
                shown.append(
                    [f"{short(name)} {stage}", f"{one['display']['top1']:.3f}", f"{one['display']['top64']:.3f}"]
                )
        lengths.append([short(name), *(f"{one['embedding_cosine']:.3f}" for one in told["lengths"].values())])
    for stage, numbers in {
        "raw": ("0.030", "0.023", "0.526"),
        "first": ("0.663", "0.397", "0.803"),
        "final": ("0.683", "0.445", "0.908"),
    }.items():
        rows.append([f"GPT-2 in the paper {stage}", *numbers])
    text = f"## Whole layer-6 MLP output ({found['windows']} held-out windows)\n\n"
    text += table(["family", "embedding cosine", "exact token", "re-encoding AUC"], rows)
    text += "\n\n### Other lengths, nothing refitted (embedding cosine, final)\n\n"
    sizes = list(next(iter(found["families"].values()))["lengths"])
    lengths.append(["GPT-2 in the paper", *["0.670 to 0.716"] * len(sizes)])
    text += table(["family", *(f"L = {size}" for size in sizes)], lengths)
    shown += [["GPT-2 in the paper raw", "0.385", "0.673"], ["GPT-2 in the paper final", "0.590", "0.881"]]
    text += "\n\n### DISPLAY ONLY: the rank-64 interface (never evidence)\n\n"
    return text + table(["inverse shown through the interface", "top-1", "top-64"], shown)


def base_terms() -> str:
    found = read("base_terms")
    if found is None:
        return ""
    rows = [
        [part, name, *(f"{told[key]:.3f}" for key in told)]
        for part, nodes in found.items()
        for name, told in nodes.items()
    ]
    head = [
        "target",
        "node",
        "base share, first position",
        "base share, others",
        "first position's share of the node's energy",
        "first position's share of the source's energy",
    ]
    return "## What a perfect first stage leaves: |H_u - J H_v|^2 / |H_u|^2\n\n" + table(head, rows)


def figures() -> None:
    found = read("routing")
    if found is not None:
        panels: dict[str, dict[str, Any]] = {"cue - random": {}, "agreement - attractor": {}}
        for name in filter(_shown, found["semantic"]):
            panels["cue - random"][short(name)] = found["semantic"][name]["cue_minus_random"]
            panels["agreement - attractor"][short(name)] = found["syntactic"][name]["pooled"]
        _save(dot_intervals(panels, "Terminal-token routing, means with 95 % cluster-bootstrap intervals"), "routing")
        _strips(found)
    found = read("controls")
    if found is not None:
        shown = {
            f"{short(name)}": told["position_matrix"]["final"]
            for name, told in found["families"].items()
            if "position_matrix" in told
        }
        raw = next(told["position_matrix"]["raw"] for told in found["families"].values() if "position_matrix" in told)
        _save(position_matrices({"raw VJP": raw, **shown}, "Every position queried in turn"), "positions")
    found = read("decisions")
    if found is not None:
        lines = {kind: {int(size): told for size, told in by.items()} for kind, by in found["drops"].items()}
        _save(
            curves(lines, "channels set to zero at the terminal position", "margin drop", "Next-token margin"),
            "decisions",
        )
    found = read("layers")
    if found is not None:
        lines = {
            stage: {int(at): told[stage]["semantic"]["cue_minus_random"] for at, told in found["layers"].items()}
            for stage in STAGES
        }
        _save(curves(lines, "layer", "cue - random", "Attention outputs by depth"), "layers")


def _shown(name: str) -> bool:
    """The references, both stages of the headline's families, the final one of the others."""
    return "-c" not in name or "c4096" in name or name.endswith("final")


def _strips(found: dict[str, Any]) -> None:
    """One context of each sense of every word, in the order of the benchmark, by the headline's causal family."""
    words = json.loads((OUT / "contexts.json").read_text())["polysemy"]
    for name, rows in found["profiles"].items():
        if not name.endswith("final"):
            continue
        strips = [
            Strip(one["tokens"], rows[0][place], f"{one['cluster']} ({one['variant'].split()[0]})", one["cues"], [15])
            for place, one in enumerate(words)
            if place % 3 == 0
        ]
        kind = name.split("-")[0]
        _save(token_strips(strips, f"Layer-6 attention output at the terminal token: {short(name)}"), f"strips_{kind}")


def _save(figure: Any, name: str) -> None:
    save_figure(figure, OUT / f"{name}.png", overwrite=True)


def main() -> None:
    parts = [part() for part in (sequence, unseen, routing, words, controls, layers, decisions, mlp, base_terms)]
    head = "# Language results\n\nWritten by `python -m benchmarks.language_tables` from the JSON files here."
    (OUT / "tables.md").write_text("\n\n".join([head, *filter(None, parts)]) + "\n")
    figures()


if __name__ == "__main__":
    main()
