"""Several threads at once on one family, one natural inverse and one folder: the answers of one thread alone."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor, nn

import sgfi
from robustness import subject
from robustness.campaign import Effort, Row, Tally

WORKERS = 4


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.read, self.mix, self.out = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.read(x).unflatten(-1, (2, 4)).transpose(1, 2)
        y = nn.functional.scaled_dot_product_attention(y, y, y).transpose(1, 2).flatten(2)
        return self.out(self.mix(y).tanh())


def run(effort: Effort) -> list[Row]:
    with subject.scratch() as folder:
        return [
            _row(effort, "a calibrated family", subject.family(), _pictures()),
            _row(effort, "a streamed family, checked at first use", _streamed(folder), _pictures()),
            _row(effort, "a natural inverse", sgfi.natural(subject.graph(), _prior(), jacobian="path"), _pictures()),
            _row(effort, "a natural inverse through attention", _attention(), _tokens()),
        ]


def _prior() -> object:
    return sgfi.prior([subject.inputs(8)])


def _streamed(folder: Path) -> sgfi.MapFamily:
    return sgfi.load(sgfi.save(subject.family(), folder / "maps"), subject.graph(), verify=False, stream=True)


def _attention() -> sgfi.NaturalInverse:
    torch.manual_seed(0)
    graph = sgfi.capture(Attention().eval(), torch.randn(2, 5, 4))
    return sgfi.natural(graph, sgfi.prior([torch.randn(16, 5, 4)]), jacobian="point")


def _pictures() -> list[tuple[Tensor, sgfi.Query]]:
    return [(subject.inputs(2, seed), sgfi.Query("three", channels=[seed % 4])) for seed in range(8)]


def _tokens() -> list[tuple[Tensor, sgfi.Query]]:
    return [(torch.randn(2, 5, 4), sgfi.Query("mix", channels=[seed])) for seed in range(8)]


def _row(effort: Effort, name: str, estimator: sgfi.Estimator, questions: list[tuple[Tensor, sgfi.Query]]) -> Row:
    """Each question asked by every thread, in another order; flags of the process are as before."""
    tally = Tally(f"threads on {name}", effort.seed_of(name))

    def ask(index: int) -> Tensor:
        x, query = questions[index]
        return sgfi.sweep(estimator, x, [query])[0].value

    expected = [ask(index) for index in range(len(questions))]
    flags = _flags()
    with ThreadPoolExecutor(WORKERS) as pool:
        asked = [index % len(questions) for index in range(effort.count(400, least=2 * WORKERS))]
        answers = [(index, pool.submit(ask, index)) for index in asked]
        for index, answer in answers:
            tally.tried()
            _judge(tally, f"question {index}", lambda answer=answer: answer.result(timeout=120), expected[index])
    if _flags() != flags:
        tally.fail("silent difference", f"flags of the process changed from {flags} to {_flags()}")
    return tally.row()


def _judge(tally: Tally, description: str, answer: Callable[[], Tensor], expected: Tensor) -> None:
    try:
        found = answer()
    except TimeoutError:
        tally.fail("hang", description)
    except Exception as error:
        tally.fail("traceback", f"{description}: {type(error).__name__}: {str(error)[:200]}")
    else:
        distance = float((found - expected).norm() / expected.norm())
        tally.measure(distance, f"largest relative difference {distance:.1e}")
        if not distance < 1e-5:
            tally.fail("silent difference", f"{description}: {distance:.1e}")


def _flags() -> tuple[object, ...]:
    """What a thread might leave changed."""
    cuda = torch.backends.cuda
    return (
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.math_sdp_enabled(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
    )
