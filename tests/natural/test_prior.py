"""Priors: the cosine prior against its definition, and what every kind promises."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from sgfi.errors import DataError, SgfiError
from sgfi.natural import cosine
from sgfi.natural.channels import ChannelPrior, embedding_prior
from sgfi.natural.covariance import Prior
from sgfi.natural.grid import GridPrior, ring_numbers
from sgfi.natural.prior import from_tensors, prior


def _grids(count: int = 30, shape: tuple[int, ...] = (2, 5, 6)) -> Tensor:
    return torch.randn(count, *shape, dtype=torch.float64).cumsum(-1).cumsum(-2) + 1


def _fitted() -> dict[str, Prior]:
    tokens, vectors = torch.randn(20, 5, 4, dtype=torch.float64), torch.randn(20, 7, dtype=torch.float64)
    return {
        "grid": prior([_grids()]),
        "channels last": prior([_grids().movedim(1, -1)], channel_axis=-1),
        "signal": prior([_grids(30, (3, 9))], kind="grid"),
        "volume": prior([_grids(9, (2, 3, 4, 3))]),
        "tokens": prior([tokens @ torch.randn(4, 4, dtype=torch.float64)]),
        "vector": prior([vectors]),
    }


@pytest.mark.parametrize("name", ["grid", "channels last", "signal", "volume", "tokens", "vector"])
def test_every_prior_is_one_symmetric_positive_definite_matrix(name: str) -> None:
    fitted = _fitted()[name]
    size, dense = math.prod(fitted.shape), fitted.dense()
    unit = torch.eye(size, dtype=torch.float64).reshape(size, *fitted.shape)
    assert torch.linalg.eigvalsh(dense).min() > 0
    torch.testing.assert_close(fitted(unit).reshape(size, size), dense, rtol=0, atol=1e-12)
    roots = fitted.root(unit).reshape(size, size)
    torch.testing.assert_close(roots, roots.mT, rtol=0, atol=1e-12)
    torch.testing.assert_close(roots @ roots, dense, rtol=0, atol=1e-11)
    torch.testing.assert_close(fitted.variance.flatten(), dense.diagonal(), rtol=1e-12, atol=0)
    stacked = torch.randn(2, 3, *fitted.shape, dtype=torch.float64)
    torch.testing.assert_close(fitted.apply(stacked).flatten(2), stacked.flatten(2) @ dense)
    torch.testing.assert_close(fitted.whiten(fitted.root(stacked)), stacked)
    energy = (stacked.flatten(2) @ torch.linalg.inv(dense) * stacked.flatten(2)).sum(2)
    torch.testing.assert_close(fitted.energy(stacked), energy)
    assert fitted.mean.shape == fitted.shape


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_long_axes_are_transformed_without_a_matrix(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, power = torch.randn(3, size, dtype=torch.float64), torch.rand(2, size, dtype=torch.float64)
    basis = cosine.matrix(size, torch.float64, x.device)
    monkeypatch.setattr(cosine, "LONG", 0)
    monkeypatch.setattr(cosine, "matrix", None)
    torch.testing.assert_close(cosine.analyse(x, 1), x @ basis.mT, rtol=0, atol=1e-13)
    torch.testing.assert_close(cosine.synthesise(x, 1), x @ basis, rtol=0, atol=1e-13)
    torch.testing.assert_close(cosine.variance(power), power @ basis.square(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["grid", "channels last", "signal", "volume"])
def test_priors_of_long_axes_are_those_of_short_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosine, "LONG", 4)  # some axes by a matrix, some by an FFT
    test_every_prior_is_one_symmetric_positive_definite_matrix(name)


def test_a_second_of_sound_has_a_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of 16,000 x 16,000 double numbers takes two GiB."""
    monkeypatch.setattr(cosine, "matrix", None)
    sound = torch.randn(4, 1, 16_000).cumsum(-1)
    fitted = prior([sound], kind="grid")
    assert fitted(sound).isfinite().all() and fitted.variance.shape == (1, 16_000)


def test_the_grid_prior_is_the_sum_over_cosines() -> None:
    fitted = prior([_grids()])
    assert isinstance(fitted, GridPrior)
    rows = []
    for size in (5, 6):
        rows.append(
            torch.tensor(
                [
                    [
                        math.cos(math.pi * k * (n + 0.5) / size) * math.sqrt((1 if k == 0 else 2) / size)
                        for n in range(size)
                    ]
                    for k in range(size)
                ],
                dtype=torch.float64,
            )
        )
    whole = torch.zeros(2, 30, 2, 30, dtype=torch.float64)
    for k in range(5):
        for l in range(6):
            wave = torch.outer(rows[0][k], rows[1][l]).flatten()
            whole += torch.einsum("cd,p,q->cpdq", fitted.covariances[6 * k + l], wave, wave)
    torch.testing.assert_close(fitted.dense(), whole.reshape(60, 60), rtol=0, atol=1e-11)


def test_borders_reflect_and_do_not_wrap_around() -> None:
    """Opposite borders of a smooth prior hardly correlate; an FFT's would, like neighbours."""
    line = torch.randn(400, 1, 32, dtype=torch.float64).cumsum(-1)
    dense = prior([line - line.mean(-1, keepdim=True)], kind="grid").dense()
    correlation = dense / torch.outer(dense.diagonal(), dense.diagonal()).sqrt()
    assert correlation[0, 1] > 0.8
    assert correlation[0, -1] < 0


def test_equal_radius_means_equal_matrix() -> None:
    fitted = prior([_grids(30, (2, 6, 6))])
    assert isinstance(fitted, GridPrior)
    table = fitted.covariances.reshape(6, 6, 2, 2)
    torch.testing.assert_close(table, table.transpose(0, 1), rtol=1e-12, atol=1e-14)


def test_rings_count_every_frequency_once_in_order_of_radius() -> None:
    group, rings = ring_numbers((9, 7))
    radius = cosine.radii((9, 7)).flatten()[1:]
    assert len(group) == 62 and group.bincount().min() > 0
    assert (rings.diff() > 0).all() and rings[0] >= radius.min() and rings[-1] <= radius.max()


def test_statistics_of_the_samples_come_back() -> None:
    """Of samples of a known grid prior: mean, total variance and the covariance of averages."""
    known = prior([_grids()])
    assert isinstance(known, GridPrior)
    samples = known.mean + known.draw(4000, known.mean, seed=3)
    again = prior([samples])
    assert isinstance(again, GridPrior)
    torch.testing.assert_close(again.colour, known.colour, rtol=0, atol=0.15)
    torch.testing.assert_close(again.level, known.level, rtol=0.1, atol=0.05)
    torch.testing.assert_close(again.dense(), known.dense(), rtol=0, atol=0.15 * float(known.dense().max()))
    torch.testing.assert_close(again.variance.sum(), known.variance.sum(), rtol=0.05, atol=0)


@pytest.mark.parametrize("shape", [(300, 3), (60, 5, 3), (60, 3, 5, 6)])
def test_channels_may_have_units_of_their_own(shape: tuple[int, ...]) -> None:
    """Years, a share and an income in one input: each keeps its deviation; a change of units changes nothing else."""
    x, axis = torch.randn(shape, dtype=torch.float64), prior([torch.randn(shape)]).channel_axis
    units = torch.tensor([1.0, 100.0, 1e4], dtype=torch.float64)
    units = units.reshape([3 if own == axis else 1 for own in range(1, len(shape))])
    plain, scaled = prior([x]), prior([x * units + units])
    deviation = scaled.variance.sqrt() / units
    torch.testing.assert_close(deviation, torch.ones(shape[1:], dtype=torch.float64), rtol=0.25, atol=0)
    changes = torch.randn(4, *shape[1:], dtype=torch.float64)
    torch.testing.assert_close(scaled(changes / units) / units, plain(changes), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(300, 3), (60, 5, 3), (60, 3, 5, 6)])
def test_a_constant_channel_hardly_moves(shape: tuple[int, ...]) -> None:
    x, axis = torch.randn(shape), prior([torch.randn(shape)]).channel_axis
    x.select(axis, 1).fill_(0.1)
    fitted = prior([x])
    first, constant, last = fitted.variance.sqrt().unbind(axis - 1)
    assert constant.max() < 3e-3 and min(first.min(), last.min()) > 0.8
    assert fitted.energy(fitted.draw(2, fitted.mean)).isfinite().all()


def test_batches_may_be_ragged_one_shot_and_labelled() -> None:
    x = _grids()

    def stream() -> Iterator[tuple[Tensor, int]]:
        yield from ((part, 0) for part in x.split([1, 12, 17]))

    torch.testing.assert_close(prior(stream()).dense(), prior([x]).dense(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(prior(stream()).mean, prior([x]).mean)


def test_a_picture_on_a_finer_grid_has_the_same_statistics() -> None:
    """A smooth field sampled twice as finely: the carried prior agrees with a fitted one at low frequencies."""
    generator = torch.Generator().manual_seed(0)
    waves = torch.randn(500, 1, 6, 6, generator=generator, dtype=torch.float64)

    def field(size: int) -> Tensor:
        spectrum = torch.zeros(500, 1, size, size, dtype=torch.float64)
        spectrum[:, :, :6, :6] = waves * size
        return cosine.synthesise(spectrum, 2)

    coarse, fine = prior([field(16)]), prior([field(32)])
    carried = coarse.resized((1, 32, 32))
    assert isinstance(carried, GridPrior) and isinstance(fine, GridPrior)
    torch.testing.assert_close(carried.level, fine.level, rtol=0.01, atol=0)
    low = [32 * k + l for k in range(4) for l in range(4)]
    torch.testing.assert_close(carried.covariances[low], fine.covariances[low], rtol=0.05, atol=0)
    assert coarse.resized((1, 16, 16)).dense().equal(coarse.dense())


def test_a_prior_follows_a_change_of_channels() -> None:
    matrix, offset = torch.randn(2, 2, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    for x in (_grids(), _grids().mean((2, 3))):
        mapped = prior([x]).mapped(matrix, offset)
        blocks = torch.kron(matrix, torch.eye(x[0, 0].numel(), dtype=torch.float64))
        torch.testing.assert_close(mapped.dense(), blocks @ prior([x]).dense() @ blocks.mT)
        turned = (matrix @ prior([x]).mean.reshape(2, -1)).reshape(x[0].shape)
        torch.testing.assert_close(mapped.mean, turned + offset.reshape(-1, *[1] * (x.dim() - 2)))


def test_tokens_do_not_speak_for_each_other() -> None:
    fitted = _fitted()["tokens"]
    blocks = fitted.dense().reshape(5, 4, 5, 4)
    assert all(not blocks[p, :, q].any() for p in range(5) for q in range(5) if p != q)
    assert blocks[0, :, 0].equal(blocks[3, :, 3])
    assert fitted.resized((2, 4)).dense().shape == (8, 8)


def test_embeddings_weigh_as_often_as_they_occur() -> None:
    table, counts = torch.randn(5, 3, dtype=torch.float64), torch.tensor([3, 0, 1, 2, 4])
    fitted = embedding_prior(table, 6, counts)
    corpus = table.repeat_interleave(counts, 0)
    torch.testing.assert_close(fitted.mean[0], corpus.mean(0))
    torch.testing.assert_close(fitted.covariance, corpus.mT.cov(correction=0), rtol=0, atol=1e-5)
    assert fitted.shape == (6, 3)


@pytest.mark.parametrize("name", ["grid", "channels last", "tokens", "vector"])
def test_priors_are_stored_as_tensors(name: str) -> None:
    fitted = _fitted()[name]
    again = from_tensors({key: tensor.clone() for key, tensor in fitted.tensors().items()})
    assert type(again) is type(fitted) and again.shape == fitted.shape
    assert again.dense().equal(fitted.dense()) and again.mean.equal(fitted.mean)


def test_draws_have_the_priors_covariance_and_a_seed() -> None:
    fitted = _fitted()["tokens"]
    draws = fitted.draw(20000, fitted.mean, seed=4)
    empirical = draws.flatten(1).mT.cov()
    torch.testing.assert_close(empirical, fitted.dense(), rtol=0, atol=0.05 * float(fitted.dense().max()))
    assert fitted.draw(2, fitted.mean, 1).equal(fitted.draw(2, fitted.mean, 1))
    assert not fitted.draw(2, fitted.mean, 1).equal(fitted.draw(2, fitted.mean, 2))


@pytest.mark.parametrize(
    ("batches", "kind", "words"),
    [
        (torch.zeros(3, 2), None, "iterable"),
        ([], None, "at least two"),
        ([torch.randn(1, 4)], None, "at least two"),
        ([torch.randn(4)], None, "floating"),
        ([torch.zeros(4, 3, dtype=torch.int64)], None, "floating"),
        (["a"], None, "floating"),
        ([torch.full((4, 3), torch.nan)], None, "finite"),
        ([torch.randn(4, 3), torch.randn(4, 2)], None, "one shape"),
        ([torch.randn(4, 3)], "picture", "kind"),
        ([torch.randn(4, 3)], "grid", "grid"),
        ([torch.randn(4, 3, 5)], "vector", "vector"),
        ([torch.randn(4, 3, 1, 1)], None, "two positions"),
        ([torch.ones(4, 3)], None, "vary"),
        ([torch.ones(4, 3, 2, 2)], None, "vary"),
    ],
)
def test_unusable_batches_are_named(batches: object, kind: str | None, words: str) -> None:
    with pytest.raises(SgfiError, match=words):
        prior(batches, kind=kind)  # type: ignore[arg-type]


def test_misuse_of_a_prior_is_named() -> None:
    fitted = _fitted()["grid"]
    with pytest.raises(SgfiError, match="last axes"):
        fitted.apply(torch.zeros(3, 3))
    with pytest.raises(SgfiError, match="channels"):
        fitted.resized((3, 5, 6))
    with pytest.raises(SgfiError, match="at most"):
        fitted.resized((2, 64, 64)).dense()
    with pytest.raises(SgfiError, match="tensors of a prior"):
        from_tensors({"colour": torch.zeros(1)})
    with pytest.raises(SgfiError, match="embedding table"):
        embedding_prior(torch.zeros(3), 2)
    with pytest.raises(SgfiError, match="counts"):
        embedding_prior(torch.randn(3, 2), 2, torch.ones(2))


def test_a_prior_keeps_a_tensors_dtype() -> None:
    fitted = _fitted()["grid"]
    assert fitted.apply(torch.randn(2, 5, 6)).dtype == torch.float32
    assert isinstance(_fitted()["vector"], ChannelPrior)
    assert prior([_grids().float()]).mean.dtype == torch.float32


def test_half_precision_is_summed_in_single() -> None:
    x = torch.randn(32, 3, 8, 8, generator=torch.Generator().manual_seed(2)).cumsum(2)
    half, single = prior([(x / 100).half()]), prior([(x / 100).half().float()])
    torch.testing.assert_close(half.variance, single.variance)
    assert half.mean.dtype == torch.float32
    assert prior([torch.randn(4, 1, 1500).bfloat16()], kind="grid", channel_axis=1).variance.isfinite().all()


def test_tables_counts_and_shapes_of_other_types_are_refused() -> None:
    table = torch.randn(5, 3)
    for wrong, counts in ((table.to_sparse(), None), (table, "abc"), (table, torch.full((5,), torch.nan))):
        with pytest.raises(DataError):
            embedding_prior(wrong, 4, counts)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="a shape like"):
        prior([_grids()]).resized(8)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(3, 6, 6), (5, 4)])
def test_what_a_prior_keeps_serves_callers_in_any_mode(shape: tuple[int, ...]) -> None:
    fitted = prior([torch.randn(20, *shape)])
    with torch.inference_mode():
        fitted.apply(torch.randn(2, *shape))
    given = torch.randn(2, *shape, requires_grad=True)
    fitted.apply(given).sum().backward()
    assert given.grad is not None and given.grad.any()
