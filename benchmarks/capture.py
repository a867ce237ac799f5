"""What capture costs with and without its check of derivatives, and what the fingerprint of the weights costs.

ResNet18 and a ViT-tiny at 224 pixels with random weights (the cost does not depend on them), in turns, processor time.
"""

from __future__ import annotations

import torch

import sgfi
from benchmarks.common import parser, table, timed, write


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    given = options.parse_args()
    rows, results = [], {}
    for name in ("resnet18", "vit_tiny_patch16_224"):
        model = made(name)
        x = torch.randn(1, 3, 224, 224)
        graph = sgfi.capture(model, x)
        ways = {
            "unchecked": lambda model=model, x=x: sgfi.capture(model, x, check=False),
            "checked": lambda model=model, x=x: sgfi.capture(model, x),
            "fingerprint": lambda graph=graph: graph.fingerprint,
            "forward": lambda model=model, x=x: model(x),
        }
        with torch.no_grad():
            results[name] = seconds = timed(ways, given.rounds)  # type: ignore[arg-type]
        cpu = {way: times["cpu"] for way, times in seconds.items()}
        ratio = cpu["checked"] / cpu["unchecked"]
        rows.append([name, cpu["unchecked"], cpu["checked"], ratio, cpu["fingerprint"], cpu["forward"]])
    head = ["model", "capture (cpu s)", "with its check (cpu s)", "ratio", "fingerprint (cpu s)", "forward (cpu s)"]
    write("capture", {**vars(given), "results": results}, table(head, rows))


def made(name: str) -> torch.nn.Module:
    import timm
    import torchvision

    torch.manual_seed(0)
    model = torchvision.models.resnet18() if name == "resnet18" else timm.create_model(name)
    return model.eval().requires_grad_(False)


if __name__ == "__main__":
    main()
