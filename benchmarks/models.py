"""Models by name: each captured, planned, derivative-checked and inverted, in a process of its own with bounds.

Random weights at a small input size unless a pip package carries trained ones. Models of transformers and diffusers are
built from tiny configurations (those of the derivative audit), in folders as a hub gives them. Seconds are processor
time of one thread. A run goes on where an earlier one ended; ``--again`` starts over.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import resource
import tempfile
import time
import traceback
import warnings
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import HERE, RESULTS, parser, table, write

SECONDS, MEGABYTES = 300, 6000
"""Bounds of one model: time on the clock, and resident memory."""
NAME = "models"
PAGE, MARKS = HERE.parent / "docs" / "models.md", ("<!-- models -->", "<!-- /models -->")
CUT = (
    *("torchvision:squeezenet1_1 at 64", "timm:resnet10t at 64", "hf:bert at 8", "hf:clip", "smp:Unet-resnet18 at 64"),
    "diffusers:unet",
)
"""What the tests run."""


@dataclass(frozen=True)
class Entry:
    """A model by name: its spec, where a folder is made its configuration, and the input size."""

    spec: str
    size: int | None = None
    weights: str = "none"

    @property
    def made(self) -> bool:
        """Whether the folder that the spec names is made here."""
        return self.spec.partition(":")[0] in ("hf", "diffusers")


def _sized(library: str, size: int, names: str) -> list[Entry]:
    return [Entry(f"{library}:{name}", size) for name in names.split()]


TRANSFORMERS = (
    "bert roberta electra distilbert fnet t5_encoder gpt2 gpt_neox opt bloom llama mistral qwen2 gemma phi mamba"
).split()
TOWERS = "vit dinov2 clip siglip swin convnext beit".split()
MODELS = [
    *(Entry(f"hf:{name}", 8) for name in TRANSFORMERS),
    *(Entry(f"hf:{name}") for name in TOWERS),
    Entry("hf:vit", 48),
    Entry("diffusers:unet"),
    Entry("diffusers:conditional_unet"),
    Entry("pip:efficientnet_lite0", 64, "pretrained"),
    Entry("pip:all_minilm_l6_v2", 8, "pretrained"),
    *_sized("torchvision", 64, "resnet18 alexnet vgg11 squeezenet1_1 mobilenet_v2 mobilenet_v3_small efficientnet_b0"),
    *_sized("torchvision", 64, "shufflenet_v2_x0_5 mnasnet0_5 regnet_y_400mf googlenet convnext_tiny vit_b_32"),
    Entry("timm:deit_tiny_patch16_224", 112),
    *_sized("timm", 64, "vit_tiny_patch16_224 deit_tiny_distilled_patch16_224 convnextv2_atto resnet10t seresnet18"),
    *_sized("timm", 64, "mobileone_s0 repvgg_a0 ghostnet_050 mobilenetv3_small_050 lcnet_050 tinynet_e regnetx_002"),
    *_sized(
        "timm",
        64,
        "tf_efficientnet_lite0 poolformer_s12 pvt_v2_b0 edgenext_xx_small mobilevit_xxs xcit_nano_12_p16_224",
    ),
    Entry("timm:eva02_tiny_patch14_224", 56),
    *_sized("open_clip", 64, "ViT-B-32 RN50"),
    *_sized("smp", 64, "Unet-resnet18 FPN-resnet18 Linknet-resnet18"),
    *_sized("torchvision", 64, "lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large fcn_resnet50"),
    *_sized("torchvision", 64, "fasterrcnn_mobilenet_v3_large_320_fpn ssdlite320_mobilenet_v3_large"),
    *_sized("torchvision", 64, "resnet50 densenet121 swin_t"),
    *_sized("timm", 64, "cait_xxs24_224 hgnetv2_b0 fastvit_t8 gernet_s dla46_c"),
]


def key(entry: Entry) -> str:
    return entry.spec + (f" at {entry.size}" if entry.size else "")


def build(entry: Entry, folder: Path) -> Any:
    """The model as a user would load it."""
    from sgfi.inputs import load_model

    scheme, _, name = entry.spec.partition(":")
    if not entry.made:
        return load_model(entry.spec, entry.weights, size=entry.size)
    (unet if scheme == "diffusers" else configured)(name, folder)
    return load_model(f"{scheme}:{folder}", entry.weights, size=entry.size)


def configured(name: str, folder: Path) -> None:
    """A folder with a tiny configuration of transformers, and a tokenizer where the model reads text."""
    import transformers

    from robustness.audit_models import configuration

    if name in ("clip", "siglip"):
        text, vision = configuration("transformers bert").to_dict(), configuration(f"transformers {name}")
        own = {
            key: text[key] for key in ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
        }
        family = {"clip": transformers.CLIPConfig, "siglip": transformers.SiglipConfig}[name]
        ids = {"vocab_size": 50, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
        config = family(text_config={**own, **ids}, vision_config=vision.to_dict())
    elif name == "beit":
        vision = configuration("transformers vit").to_dict()
        names = (
            "num_hidden_layers",
            "hidden_size",
            "num_attention_heads",
            "intermediate_size",
            "image_size",
            "patch_size",
        )
        config = transformers.BeitConfig(**{key: vision[key] for key in names})
    else:
        config = configuration(f"transformers {name.replace('_', ' ')}")
    config.save_pretrained(folder)
    if name in TRANSFORMERS:
        from tokenizers import Tokenizer, models, pre_tokenizers

        words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(50)}, unk_token="w1"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w1").save_pretrained(folder)


def unet(name: str, folder: Path) -> None:
    """A folder with a tiny configuration of diffusers."""
    import diffusers

    shared = {"sample_size": 16, "in_channels": 3, "out_channels": 3, "layers_per_block": 1, "norm_num_groups": 4}
    widths = {"block_out_channels": (8, 16)}
    if name == "unet":
        model = diffusers.UNet2DModel(
            **shared, **widths, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
        )  # fmt: skip
    else:
        model = diffusers.UNet2DConditionModel(
            **shared, **widths, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=12, attention_head_dim=2,
        )  # fmt: skip
    model.save_config(folder)


def measured(entry: Entry) -> dict[str, Any]:
    """One model, from its name to an inverse."""
    import sgfi
    from sgfi.derivatives import Linearisation
    from sgfi.report.look import input_prior

    torch.manual_seed(1)  # not that of the example: a tangent along the input is none to a normalised model
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        loaded = build(entry, Path(folder))
        built = time.process_time()
        graph = sgfi.capture(loaded.model, loaded.example)
        captured = time.process_time()
        plan = sgfi.plan(graph)
    x = loaded.example[:1]
    local = Linearisation(graph, {"input": [plan.target]}, x).at("input")
    tangent, cotangent = torch.randn_like(x), torch.randn_like(local.outputs[0])
    ahead, back = local.jvp(tangent)[0] * cotangent, tangent * local.vjp([cotangent])
    adjoint = float((ahead.sum() - back.sum()).abs() / ahead.norm().clamp_min(1e-30))
    prior = input_prior(loaded, graph)
    prior = sgfi.prior([torch.randn(64, *x.shape[1:])]) if prior is None else prior
    before = time.process_time()
    axis = graph.nodes[plan.target].channel_axis
    sizes = local.outputs[0].abs().movedim(axis, 0).flatten(1).sum(1)  # type: ignore[arg-type]
    found = sgfi.invert(sgfi.natural(graph, prior, "point"), x, plan.target, channels=[int(sizes.argmax())])
    return {
        "nodes": len(graph.nodes),
        "recipe": plan.mode.partition(":")[2],
        "target": plan.target,
        "shape": list(graph.nodes[plan.target].shape[1:]),
        "boundaries": len(plan.fitted),
        "idle": list(plan.idle),
        "adjoint": adjoint,
        "residual": float(found.residual.max()),  # type: ignore[attr-defined]
        "size_of_inverse": float(found.value.norm()),
        "load": built - start,
        "capture": captured - built,
        "invert": time.process_time() - before,
    }


def in_process(entry: Entry, end: Connection) -> None:
    """Measured in a forked process; what comes back is the row, or why there is none."""
    from sgfi.errors import SgfiError

    before = resident("self")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        row = measured(entry)
    except SgfiError as refused:
        row = {"failed": f"{type(refused).__name__}: expected {refused.expected}; got {refused.got}"[:400]}
    except Exception as error:
        row = {"failed": f"{type(error).__name__}: {error}"[:400], "trace": traceback.format_exc(limit=-3)}
    row["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
    end.send(row)


def bounded(entry: Entry, seconds: float = SECONDS, megabytes: float = MEGABYTES) -> dict[str, Any]:
    """The row of a model, or which bound it went over."""
    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe(duplex=False)
    process = fork.Process(target=in_process, args=(entry, there))
    process.start()
    end = time.monotonic() + seconds
    try:
        while not here.poll(0.5):
            if time.monotonic() > end:
                return {"failed": f"more than {seconds:.0f} s"}
            if resident(process.pid) > megabytes:
                return {"failed": f"more than {megabytes:.0f} MB"}
            if not process.is_alive() and not here.poll():
                return {"failed": f"ended with {process.exitcode}"}
        return here.recv()
    finally:
        process.kill()
        process.join()


def resident(process: int | str | None) -> float:
    """Megabytes of memory in use."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    sizes = re.search(r"VmRSS:\s+(\d+) kB", text)
    return int(sizes.group(1)) / 1024 if sizes else 0.0


def rendered(rows: dict[str, dict[str, Any]]) -> str:
    """The table, and the failures with their reasons below it."""
    good = {name: row for name, row in rows.items() if "failed" not in row}
    head = ["model", "tensors", "recipe", "boundaries", "idle", "target", "adjoint", "capture s", "invert s", "MB"]
    lines = [
        [
            f"`{name}`", row["nodes"], row["recipe"], row["boundaries"], len(row["idle"]) or "",
            f"`{row['target']}` {'x'.join(map(str, row['shape']))}", f"{row['adjoint']:.0e}",
            f"{row['capture']:.1f}", f"{row['invert']:.1f}", f"{row['memory']:.0f}",
        ]
        for name, row in good.items()
    ]  # fmt: skip
    text = f"{len(good)} of {len(rows)} models by name.\n\n{table(head, lines)}"
    failed = [f"- `{name}`: {row['failed']}" for name, row in rows.items() if "failed" in row]
    return text + ("\n\nFailed:\n\n" + "\n".join(failed) if failed else "\n\nNone failed.")


def fill(page: Path, text: str) -> None:
    """Put the table between its marks on the page."""
    head, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    page.write_text(f"{head}{MARKS[0]}\n{text}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


def earlier(again: bool) -> dict[str, dict[str, Any]]:
    """Rows of a run that ended before all were measured."""
    file = RESULTS / f"{NAME}.json"
    return {} if again or not file.is_file() else json.loads(file.read_text())["models"]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--again", action="store_true", help="measure every model again")
    options.add_argument("--retry", action="store_true", help="measure those that failed again")
    options.add_argument("--only", default="", help="names that contain this")
    given = options.parse_args()
    import diffusers
    import timm
    import torchvision
    import transformers

    import sgfi.report.look  # noqa: F401 (imported once, before the processes fork)

    for library in (diffusers.logging, transformers.logging):
        library.set_verbosity_error()
    versions = {each.__name__: each.__version__ for each in (diffusers, timm, torchvision, transformers)}
    rows = earlier(given.again)
    for number, entry in enumerate(MODELS, 1):
        name = key(entry)
        done = name in rows and not (given.retry and "failed" in rows[name])
        if done or given.only not in name:
            continue
        rows[name] = {**asdict(entry), **bounded(entry)}
        ordered = {key(each): rows[key(each)] for each in MODELS if key(each) in rows}
        write(NAME, {"bounds": {"s": SECONDS, "MB": MEGABYTES}, "versions": versions, "models": ordered}, "")
        (RESULTS / f"{NAME}.md").write_text(f"`python -m benchmarks.{NAME}`\n\n{rendered(ordered)}\n")
        fill(PAGE, rendered(ordered))
        print(f"{number}/{len(MODELS)} {name}: {rows[name].get('failed', 'done')}", flush=True)
    print(rendered(rows))


if __name__ == "__main__":
    main()
