"""Where the heads of DeiT-tiny look from one patch.   python examples/attention_head.py WEIGHTS PHOTO OUT.png

One weight of each head's attention in block 5 of DeiT-tiny: from a patch on the eye to the patch that this head
attends to most. Here all three heads attend to the patch itself, and the three pictures differ.
"""

import sys

import sgfi
from sgfi.inputs.data import read_image
from sgfi.inputs.models import load_model

WEIGHTS, PATCH = "blocks.4.attn.softmax", 61


def main(weights: str, photo: str, out: str) -> None:
    loaded = load_model("timm:deit_tiny_patch16_224", weights)
    x = read_image(photo, loaded.preprocessing)
    graph = sgfi.capture(loaded.model, loaded.example, attention="open")
    pattern = graph.program(("input",), (WEIGHTS,))(x)[0][0, :, PATCH, 1:]  # (heads, patches)
    queries = [f"{WEIGHTS}:{head}@{PATCH},{int(row.argmax()) + 1}" for head, row in enumerate(pattern)]
    look = sgfi.look(graph, x, queries, preprocessing=loaded.preprocessing)
    look.save(out, overwrite=True)
    print(look)


if __name__ == "__main__":
    main(*sys.argv[1:4])
