"""Tiny float64 models whose structure is written down twice.

Each model has an ordinary ``forward``, which is what the engine captures, and ``steps``, an
explicit DAG ``name -> (function, inputs)`` in topological order, which the oracle evaluates. The
two are compared in ``test_oracle.py``. Names in ``steps`` are the engine's canonical names, and
``channel_axis`` says where the channels of every boundary stand, so the oracle never has to ask the
engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    import sgfi


@dataclass(frozen=True)
class Step:
    """One tensor of the model: ``fn`` applied to the tensors named in ``inputs``."""

    fn: Callable[..., Tensor]
    inputs: tuple[str, ...]


class Tiny(nn.Module):
    """A model that knows its own DAG. Boundaries in topological order: input first, target last."""

    sample: tuple[int, ...]
    boundaries: tuple[str, ...]
    channel_axis: ClassVar[dict[str, int]]

    @property
    def target(self) -> str:
        return self.boundaries[-1]

    def steps(self) -> dict[str, Step]:
        raise NotImplementedError

    def inputs(self, count: int, seed: int = 1) -> Tensor:
        """``count`` inputs whose entries have a mean and unequal spreads: no isotropic moments."""
        g = torch.Generator().manual_seed(seed)
        x = torch.randn(count, *self.sample, generator=g, dtype=torch.float64)
        lean = torch.linspace(0.4, 1.6, math.prod(self.sample), dtype=torch.float64)
        return x * lean.view(self.sample) + 0.3


def seeded(model: Tiny, seed: int = 0) -> Tiny:
    """Float64, evaluation mode, every parameter drawn from one seed at a lively scale."""
    model = model.double().eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g, dtype=torch.float64)
            if p.ndim == 1:
                shift = 1.0 if "norm" in name and name.endswith("weight") else 0.0
                p.copy_(shift + 0.3 * noise)
            else:
                p.copy_(1.2 * noise / math.sqrt(p[0].numel()))
    return model


def conv(inside: int, outside: int, stride: int = 1, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=bias, padding_mode="circular")


class Chain(Tiny):
    """A chain of smooth convolutions, 5x6 then 3x3, whose target is not the model's output."""

    sample = (2, 5, 6)
    boundaries = ("input", "act1", "conv2", "conv3")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "act1": 1, "conv2": 1, "conv3": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.act1 = conv(2, 4), nn.Tanh()
        self.conv2, self.act2 = conv(4, 3, stride=2), nn.Softplus()
        self.conv3, self.head = conv(3, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act1(self.conv1(x))
        x = self.act2(self.conv2(x))
        return self.head(self.conv3(x).mean((2, 3)))

    def steps(self) -> dict[str, Step]:
        return {
            "conv1": Step(self.conv1, ("input",)),
            "act1": Step(self.act1, ("conv1",)),
            "conv2": Step(self.conv2, ("act1",)),
            "act2": Step(self.act2, ("conv2",)),
            "conv3": Step(self.conv3, ("act2",)),
        }


class ReluChain(Tiny):
    """A 4x4 chain with in-place ReLUs: the eager model overwrites the tensors of its boundaries."""

    sample = (3, 4, 4)
    boundaries = ("input", "conv1", "conv2", "conv3")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "conv1": 1, "conv2": 1, "conv3": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu1 = conv(3, 5), nn.ReLU(inplace=True)
        self.conv2, self.relu2 = conv(5, 6), nn.ReLU(inplace=True)
        self.conv3 = conv(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv3(self.relu2(self.conv2(self.relu1(self.conv1(x)))))

    def steps(self) -> dict[str, Step]:
        return {
            "conv1": Step(self.conv1, ("input",)),
            "relu1": Step(F.relu, ("conv1",)),
            "conv2": Step(self.conv2, ("relu1",)),
            "relu2": Step(F.relu, ("conv2",)),
            "conv3": Step(self.conv3, ("relu2",)),
        }


class Nested(Tiny):
    """``v -> w -> add`` and ``v -> add``: candidate ``w`` is upstream of candidate ``add``."""

    sample = (2, 5, 5)
    boundaries = ("input", "v", "w", "add", "last")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "v": 1, "w": 1, "add": 1, "last": 1}

    def __init__(self) -> None:
        super().__init__()
        self.v, self.v_act = conv(2, 3), nn.Tanh()
        self.w, self.w_act = conv(3, 4), nn.SiLU()
        self.inner, self.skip = conv(4, 3), conv(3, 3)
        self.u_act, self.last = nn.Tanh(), conv(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        v = self.v_act(self.v(x))
        return self.last(self.u_act(self.inner(self.w_act(self.w(v))) + self.skip(v)))

    def steps(self) -> dict[str, Step]:
        return {
            "v": Step(self.v, ("input",)),
            "v_act": Step(self.v_act, ("v",)),
            "w": Step(self.w, ("v_act",)),
            "w_act": Step(self.w_act, ("w",)),
            "inner": Step(self.inner, ("w_act",)),
            "skip": Step(self.skip, ("v_act",)),
            "add": Step(torch.add, ("inner", "skip")),
            "u_act": Step(self.u_act, ("add",)),
            "last": Step(self.last, ("u_act",)),
        }


class Around(Tiny):
    """As ``Nested``, but ``w`` also reaches the target by a way around ``u``.

    The literal rule still drops ``w`` from the frontier of ``v``, and ``u`` from that of ``w``.
    """

    sample = (2, 4, 4)
    boundaries = ("input", "v", "w", "u", "last")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "v": 1, "w": 1, "u": 1, "last": 1}

    def __init__(self) -> None:
        super().__init__()
        self.v, self.act = conv(2, 3), nn.Tanh()
        self.w, self.u, self.last = conv(3, 4), conv(7, 5), conv(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        v = self.v(x)
        w = self.w(torch.tanh(v))
        u = self.u(torch.cat([torch.sin(w), v], 1))
        return self.last(torch.cat([torch.tanh(u), F.softplus(w)], 1))

    def steps(self) -> dict[str, Step]:
        return {
            "v": Step(self.v, ("input",)),
            "w": Step(lambda v: self.w(torch.tanh(v)), ("v",)),
            "u": Step(lambda w, v: self.u(torch.cat([torch.sin(w), v], 1)), ("w", "v")),
            "last": Step(lambda u, w: self.last(torch.cat([torch.tanh(u), F.softplus(w)], 1)), ("u", "w")),
        }


class Fork(Tiny):
    """Two boundary children of unequal width, joined by a concatenation."""

    sample = (2, 5, 6)
    boundaries = ("input", "v", "a", "b", "out")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "v": 1, "a": 1, "b": 1, "out": 1}

    def __init__(self) -> None:
        super().__init__()
        self.v, self.act = conv(2, 4), nn.GELU()
        self.a, self.b, self.out = conv(4, 2), conv(4, 7), conv(9, 3)

    def forward(self, x: Tensor) -> Tensor:
        v = self.act(self.v(x))
        a, b = self.a(v), self.b(v)
        return self.out(torch.cat([torch.tanh(a), F.gelu(b)], 1))

    def steps(self) -> dict[str, Step]:
        return {
            "v": Step(self.v, ("input",)),
            "act": Step(self.act, ("v",)),
            "a": Step(self.a, ("act",)),
            "b": Step(self.b, ("act",)),
            "cat": Step(lambda a, b: torch.cat([torch.tanh(a), F.gelu(b)], 1), ("a", "b")),
            "out": Step(self.out, ("cat",)),
        }


class Gate(Tiny):
    """Squeeze and excite: one child is a map, the other the pooled (B, C, 1, 1) gate on it."""

    sample = (2, 4, 4)
    boundaries = ("input", "v", "a", "gate", "out")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "v": 1, "a": 1, "gate": 1, "out": 1}

    def __init__(self) -> None:
        super().__init__()
        self.v, self.act = conv(2, 4), nn.SiLU()
        self.a, self.pool = conv(4, 3), nn.AdaptiveAvgPool2d(1)
        self.gate, self.out = nn.Conv2d(4, 3, 1), conv(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        v = self.act(self.v(x))
        return self.out(self.a(v) * torch.sigmoid(self.gate(self.pool(v))))

    def steps(self) -> dict[str, Step]:
        return {
            "v": Step(self.v, ("input",)),
            "act": Step(self.act, ("v",)),
            "a": Step(self.a, ("act",)),
            "gate": Step(lambda v: self.gate(v.mean((2, 3), keepdim=True)), ("act",)),
            "out": Step(lambda a, g: self.out(a * torch.sigmoid(g)), ("a", "gate")),
        }


class ResidualBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = conv(width, width + 1), conv(width + 1, width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(self.relu(self.conv1(self.relu(x.clone())))) + x


class Residual(Tiny):
    """Two residual blocks; the second is opened at its first convolution, a nested boundary."""

    sample = (2, 4, 5)
    boundaries = ("input", "stem", "block1", "block2.conv1", "block2")
    channel_axis: ClassVar[dict[str, int]] = {
        "input": 1,
        "stem": 1,
        "block1": 1,
        "block2.conv1": 1,
        "block2": 1,
    }

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.block1, self.block2 = conv(2, 4), ResidualBlock(4), ResidualBlock(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block2(self.block1(self.stem(x))).relu().mean((2, 3)))

    def steps(self) -> dict[str, Step]:
        block1, block2 = self.block1, self.block2
        return {
            "stem": Step(self.stem, ("input",)),
            "block1.conv1": Step(lambda x: block1.conv1(F.relu(x)), ("stem",)),
            "block1": Step(lambda h, x: block1.conv2(F.relu(h)) + x, ("block1.conv1", "stem")),
            "block2.conv1": Step(lambda x: block2.conv1(F.relu(x)), ("block1",)),
            "block2": Step(lambda h, x: block2.conv2(F.relu(h)) + x, ("block2.conv1", "block1")),
        }


class AttentionBlock(nn.Module):
    """Pre-norm attention and MLP on (B, N, D), both residual."""

    def __init__(self, width: int, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.gelu, self.fc2 = nn.Linear(width, 8), nn.GELU(), nn.Linear(8, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)  # (B, h, N, D/h)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(self.gelu(self.fc1(self.norm2(x))))


class Tokens(Tiny):
    """A token stream of odd length through one attention block; channels are the hidden width."""

    sample = (5, 4)
    boundaries = ("input", "embed", "block.add", "block", "norm")
    channel_axis: ClassVar[dict[str, int]] = {
        "input": 2,
        "embed": 2,
        "block.add": 2,
        "block": 2,
        "norm": 2,
    }

    causal = False

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.block = nn.Linear(4, 6), AttentionBlock(6, 2, self.causal)
        self.norm = nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.block(self.embed(x)))

    def mix(self, x: Tensor) -> Tensor:
        return x + self.attend(self.block, x)

    def attend(self, block: AttentionBlock, x: Tensor) -> Tensor:
        """Attention by its definition: softmax(q k^T / sqrt(d)) v, head by head."""
        d = 3
        q, k, v = block.qkv(block.norm1(x)).split(6, dim=-1)  # (B, N, 6) each
        heads = []
        for h in range(2):
            part = slice(h * d, (h + 1) * d)
            logits = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(d)
            if self.causal:
                later = torch.ones(logits.shape[1:], dtype=torch.bool).triu(1)
                logits = logits.masked_fill(later, -math.inf)
            heads.append(torch.softmax(logits, -1) @ v[..., part])
        return block.proj(torch.cat(heads, -1))

    def steps(self) -> dict[str, Step]:
        block = self.block
        return {
            "embed": Step(self.embed, ("input",)),
            "block.add": Step(self.mix, ("embed",)),
            "block": Step(lambda x: x + block.fc2(F.gelu(block.fc1(block.norm2(x)))), ("block.add",)),
            "norm": Step(self.norm, ("block",)),
        }


class Causal(Tokens):
    """The same with a causal mask and an even length, as in a language model."""

    sample = (6, 4)
    causal = True


class TwoLayers(Causal):
    """Two causal layers; the target is the second one's attention output before the residual sum, as in the paper."""

    sample = (4, 6)
    boundaries = ("input", "block", "second.proj")
    channel_axis: ClassVar[dict[str, int]] = {"input": 2, "block": 2, "second.proj": 2}

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.second = nn.Identity(), AttentionBlock(6, 2, self.causal)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.second(self.block(x)))

    def steps(self) -> dict[str, Step]:
        block = self.block
        return {
            "block.add": Step(self.mix, ("input",)),
            "block": Step(lambda x: x + block.fc2(F.gelu(block.fc1(block.norm2(x)))), ("block.add",)),
            "second.proj": Step(lambda x: self.attend(self.second, x), ("block",)),
        }


class Weights(Tiny):
    """Attention weights (B, h, N, N) as a boundary: heads are channels, the rest coordinates."""

    sample = (4, 4)
    boundaries = ("input", "embed", "soft", "proj")
    channel_axis: ClassVar[dict[str, int]] = {"input": 2, "embed": 2, "soft": 1, "proj": 2}

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 6)
        self.q, self.k, self.v = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.soft, self.proj = nn.Softmax(-1), nn.Linear(6, 5)

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (2, 3)).transpose(1, 2)  # (B, h, N, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        mixed = self.soft(q @ k.transpose(-1, -2)) @ v
        return self.proj(mixed.transpose(1, 2).flatten(2))

    def steps(self) -> dict[str, Step]:
        return {
            "embed": Step(self.embed, ("input",)),
            "soft": Step(
                lambda x: torch.softmax(self.heads(self.q(x)) @ self.heads(self.k(x)).transpose(-1, -2), -1),
                ("embed",),
            ),
            "proj": Step(
                lambda s, x: self.proj((s @ self.heads(self.v(x))).transpose(1, 2).flatten(2)),
                ("soft", "embed"),
            ),
        }


class ChannelsLast(Tiny):
    """Maps whose channels stand last, as in Swin and ConvNeXt: coordinates are axes 1 and 2."""

    sample = (3, 4, 6)
    boundaries = ("input", "norm", "fc2")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "norm": 3, "fc2": 3}

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = conv(3, 4), nn.LayerNorm(4)
        self.fc1, self.gelu, self.fc2 = nn.Linear(4, 7), nn.GELU(), nn.Linear(7, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.gelu(self.fc1(self.norm(self.conv(x).permute(0, 2, 3, 1)))))

    def steps(self) -> dict[str, Step]:
        return {
            "conv": Step(self.conv, ("input",)),
            "norm": Step(lambda x: self.norm(x.permute(0, 2, 3, 1)), ("conv",)),
            "fc2": Step(lambda x: self.fc2(F.gelu(self.fc1(x))), ("norm",)),
        }


class Vector(Tiny):
    """A perceptron: no coordinates anywhere, one real matrix per node."""

    sample = (6,)
    boundaries = ("input", "fc1", "fc2", "fc3")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "fc1": 1, "fc2": 1, "fc3": 1}

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act1 = nn.Linear(6, 9), nn.GELU()
        self.fc2, self.act2, self.fc3 = nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(self.act2(self.fc2(self.act1(self.fc1(x)))))

    def steps(self) -> dict[str, Step]:
        return {
            "fc1": Step(self.fc1, ("input",)),
            "fc2": Step(lambda x: self.fc2(F.gelu(x)), ("fc1",)),
            "fc3": Step(lambda x: self.fc3(torch.tanh(x)), ("fc2",)),
        }


class Everything(Tiny):
    """A residual perceptron with a boundary at every tensor that it has."""

    sample = (5,)
    boundaries = ("input", "fc1", "act1", "fc2", "add", "act2", "fc3")
    channel_axis: ClassVar[dict[str, int]] = dict.fromkeys(boundaries, 1)

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act1, self.fc2 = nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6)
        self.act2, self.fc3 = nn.ReLU(), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc1(x)
        return self.fc3(self.act2(self.fc2(self.act1(h)) + h))

    def steps(self) -> dict[str, Step]:
        return {
            "fc1": Step(self.fc1, ("input",)),
            "act1": Step(self.act1, ("fc1",)),
            "fc2": Step(self.fc2, ("act1",)),
            "add": Step(torch.add, ("fc2", "fc1")),
            "act2": Step(self.act2, ("add",)),
            "fc3": Step(self.fc3, ("act2",)),
        }


class Pooled(Tiny):
    """A map, then a pooled (B, C, 1, 1) boundary, then a vector target."""

    sample = (2, 5, 5)
    boundaries = ("input", "conv1", "pool", "fc")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "conv1": 1, "pool": 1, "fc": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu, self.pool = conv(2, 5), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.sin(self.pool(self.relu(self.conv1(x)))).flatten(1))

    def steps(self) -> dict[str, Step]:
        return {
            "conv1": Step(self.conv1, ("input",)),
            "pool": Step(lambda x: F.relu(x).mean((2, 3), keepdim=True), ("conv1",)),
            "fc": Step(lambda x: self.fc(torch.sin(x).flatten(1)), ("pool",)),
        }


class Signal(Tiny):
    """One coordinate axis behind the channels."""

    sample = (2, 7)
    boundaries = ("input", "conv1", "conv2")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "conv1": 1, "conv2": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(2, 4, 3, padding=1)
        self.conv2 = nn.Conv1d(4, 3, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(torch.tanh(self.conv1(x)))

    def steps(self) -> dict[str, Step]:
        return {
            "conv1": Step(self.conv1, ("input",)),
            "conv2": Step(lambda x: self.conv2(torch.tanh(x)), ("conv1",)),
        }


class Volume(Tiny):
    """Three coordinate axes."""

    sample = (2, 2, 3, 4)
    boundaries = ("input", "conv1", "conv2")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "conv1": 1, "conv2": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv3d(2, 3, 3, padding=1)
        self.conv2 = nn.Conv3d(3, 4, (1, 2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.conv2(F.silu(self.conv1(x)))

    def steps(self) -> dict[str, Step]:
        return {
            "conv1": Step(self.conv1, ("input",)),
            "conv2": Step(lambda x: self.conv2(F.silu(x)), ("conv1",)),
        }


class Dead(Chain):
    """A chain with a channel that is always zero and another that nothing downstream listens to."""

    silent, unheard = 1, 2

    def kill(self) -> Dead:
        with torch.no_grad():
            self.conv1.weight[self.silent] = 0.0
            self.conv1.bias[self.silent] = 0.0
            self.conv2.weight[:, self.unheard] = 0.0
        return self


class Numb(Vector):
    """A perceptron whose first layer hears nothing: the source at the input is exactly zero."""

    def kill(self) -> Numb:
        with torch.no_grad():
            self.fc1.weight.zero_()
        return self


class Line(Tiny):
    """One linear layer without bias, ``fc``: the smallest thing that has an inverse."""

    boundaries = ("input", "fc")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "fc": 1}

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        out, inside = matrix.shape
        self.sample = (inside,)
        self.fc = nn.Linear(inside, out, bias=False, dtype=torch.float64)
        with torch.no_grad():
            self.fc.weight.copy_(matrix)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)

    def steps(self) -> dict[str, Step]:
        return {"fc": Step(self.fc, ("input",))}


class Circular(Tiny):
    """One circular convolution without bias, diagonal in frequency: the map is a Wiener filter."""

    sample = (2, 4, 5)
    boundaries = ("input", "conv")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "conv": 1}

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(2, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)

    def steps(self) -> dict[str, Step]:
        return {"conv": Step(self.conv, ("input",))}


class NestedSparse(Nested):
    """Of the nested pair only ``w`` stands: it is fitted, but the input's frontier looks past it."""

    boundaries = ("input", "w", "last")
    channel_axis: ClassVar[dict[str, int]] = {"input": 1, "w": 1, "last": 1}


class TokensSparse(Tokens):
    """One segment from the input to the target, attention and all."""

    boundaries = ("input", "norm")
    channel_axis: ClassVar[dict[str, int]] = {"input": 2, "norm": 2}


def dead() -> Tiny:
    model = seeded(Dead(), 5)
    assert isinstance(model, Dead)
    return model.kill()


def numb() -> Tiny:
    model = seeded(Numb(), 6)
    assert isinstance(model, Numb)
    return model.kill()


MODELS: dict[str, Callable[[], Tiny]] = {
    "chain": lambda: seeded(Chain(), 1),
    "relu": lambda: seeded(ReluChain(), 2),
    "nested": lambda: seeded(Nested(), 3),
    "around": lambda: seeded(Around(), 4),
    "fork": lambda: seeded(Fork(), 5),
    "gate": lambda: seeded(Gate(), 6),
    "residual": lambda: seeded(Residual(), 7),
    "tokens": lambda: seeded(Tokens(), 8),
    "weights": lambda: seeded(Weights(), 9),
    "channels_last": lambda: seeded(ChannelsLast(), 10),
    "vector": lambda: seeded(Vector(), 11),
    "everything": lambda: seeded(Everything(), 19),
    "pooled": lambda: seeded(Pooled(), 12),
    "causal": lambda: seeded(Causal(), 14),
    "two layers": lambda: seeded(TwoLayers(), 20),
    "signal": lambda: seeded(Signal(), 15),
    "volume": lambda: seeded(Volume(), 16),
    "nested sparse": lambda: seeded(NestedSparse(), 17),
    "tokens sparse": lambda: seeded(TokensSparse(), 18),
    "dead": dead,
    "circular": lambda: seeded(Circular(), 13),
}
"""Every tiny model with its seeded weights, by the name the tests print."""


@cache
def tiny(name: str) -> Tiny:
    """One of ``MODELS``, built once; nobody may change it."""
    return MODELS[name]()


@cache
def captured(name: str) -> sgfi.TensorGraph:
    """The engine's graph of one of ``MODELS``, captured once for every test that needs it."""
    import sgfi  # here alone: the oracle does without the engine

    return sgfi.capture(tiny(name), tiny(name).inputs(2, seed=4))
