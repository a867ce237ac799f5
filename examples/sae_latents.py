"""What do latents on DeiT-tiny's sixth block see?   python examples/sae_latents.py WEIGHTS PHOTOS PHOTO OUT.png

A dictionary is fitted by scikit-learn on the patch tokens of a few dozen photographs, and written in SAELens' format.
Each latent is asked about at the token where it is strongest: all three look at their own token's neighbourhood, and
the first is hardly its own (cosine 0.54 with random directions at the same token).
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from sklearn.decomposition import MiniBatchDictionaryLearning

import sgfi
from sgfi.inputs.data import read_image
from sgfi.inputs.models import load_model

BLOCK, LATENTS, SHOWN = "blocks.5", 64, 3


def main(weights: str, photos: str, photo: str, out: str, count: int = 48) -> None:
    loaded = load_model("timm:deit_tiny_patch16_224", weights)
    graph = sgfi.capture(loaded.model, loaded.example)
    block = graph.program(("input",), (BLOCK,))
    files = sorted(Path(photos).rglob("*.jpg"))
    some = files[:: max(1, len(files) // count)][:count]
    states = torch.cat([block(read_image(file, loaded.preprocessing))[0][0, 1:] for file in some])  # (count * 196, 192)
    centred = (states - states.mean(0)).numpy()
    fitted = MiniBatchDictionaryLearning(LATENTS, alpha=2.0, max_iter=20, batch_size=256, random_state=0).fit(centred)
    decoder = torch.tensor(fitted.components_, dtype=torch.float32).contiguous()
    x = read_image(photo, loaded.preprocessing)
    codes = torch.tensor(fitted.transform((block(x)[0][0, 1:] - states.mean(0)).numpy())).abs()  # (196, latents)
    latents = codes.amax(0).topk(SHOWN).indices.tolist()
    file = Path(out).with_suffix(".safetensors")  # kept: the picture's queries name it
    save_file({"W_enc": torch.linalg.pinv(decoder).contiguous(), "W_dec": decoder}, file)
    queries = [f"{BLOCK}%{file}:{latent}@{int(codes[:, latent].argmax()) + 1}" for latent in latents]
    look = sgfi.look(graph, x, queries, preprocessing=loaded.preprocessing)
    look.save(out, overwrite=True)
    print(look)


if __name__ == "__main__":
    main(*sys.argv[1:5])
