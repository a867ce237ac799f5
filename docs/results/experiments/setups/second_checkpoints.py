"""Two more checkpoints of the ResNet20 of ``networks.py``, for the experiment ``checkpoints``.

    SGFI_ASSETS=... python docs/results/experiments/setups/second_checkpoints.py FOLDER

``tuned.safetensors``: the published weights trained on for 200 steps on vehicles against animals.
``trained.safetensors``: another random start, 600 steps on the ten classes. Both see the first 4,000 pictures of
``cifar10_test_5000.npz``, shifted and mirrored; the accuracy on the last 1,000 is printed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import networks
import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

VEHICLES = (0, 1, 8, 9)


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    file = np.load(Path(networks.os.environ["SGFI_ASSETS"]) / "images" / "cifar10_test_5000.npz")
    x = torch.from_numpy(file["images"]).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (networks.MEAN, networks.STD))
    return (x - mean) / std, torch.from_numpy(file["labels"]).long()


def train(model, x, y, steps: int, rate: float) -> None:
    model.train()
    optimiser = torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    for _ in range(steps):
        chosen = torch.randint(len(x), (128,))
        top, left = torch.randint(0, 9, (2,)).tolist()
        batch = F.pad(x[chosen], (4, 4, 4, 4))[:, :, top : top + 32, left : left + 32]
        batch = batch.flip(-1) if torch.rand(()) < 0.5 else batch
        loss = F.cross_entropy(model(batch), y[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()


def accuracy(model, x, y) -> float:
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def main(folder: Path) -> None:
    x, labels = pictures()
    kinds = torch.isin(labels, torch.tensor(VEHICLES)).long()
    torch.manual_seed(0)
    tuned, trained = networks.resnet20_cifar10(), networks.resnet20_random()
    print("published, ten classes:", accuracy(tuned.eval(), x[4000:], labels[4000:]))
    train(tuned, x[:4000], kinds[:4000], 200, 0.02)
    print("tuned, vehicles or animals:", accuracy(tuned, x[4000:], kinds[4000:]))
    train(trained, x[:4000], labels[:4000], 600, 0.1)
    print("trained, ten classes:", accuracy(trained, x[4000:], labels[4000:]))
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tuned.state_dict(), folder / "tuned.safetensors")
    save_file(trained.state_dict(), folder / "trained.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
