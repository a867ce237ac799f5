"""What speaks for one class and what against another?   python examples/class_margin.py PHOTO OUT.png

EfficientNet-Lite0 with the weights that pip carries; the two classes are the ones it thinks most likely (tiger cat,
Egyptian cat), then one against the other. The logits rest on different parts of the face; the margin's gain of 1054
says that this photograph hardly differs from the mean input in it.
"""

import sys

import torch

import sgfi
from sgfi.inputs.data import read_image
from sgfi.inputs.models import load_model


def main(photo: str, out: str) -> None:
    loaded = load_model("pip:efficientnet_lite0")
    x = read_image(photo, loaded.preprocessing)
    with torch.no_grad():
        first, second = loaded.model(x)[0].topk(2).indices.tolist()
    look = sgfi.look(loaded, x, [f"logits:{first}", f"logits:{second}", f"margin:{first},{second}"])
    look.save(out, overwrite=True)
    print(look)


if __name__ == "__main__":
    main(*sys.argv[1:3])
