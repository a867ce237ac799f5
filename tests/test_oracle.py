"""The oracle against torch.fft, finite differences, stationarity and closed-form facts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.analytic import MODELS, Circular, Dead, Line, Tiny, numb, seeded, tiny
from tests.oracle import (
    Axes,
    Setting,
    calibrated,
    candidates,
    dense_jacobian,
    dft,
    downstream,
    evaluate,
    frontier,
    groups_of,
    inverse_dft,
    local_map,
    mask,
    wiener,
)

SIZES = [(4,), (5,), (4, 4), (5, 5), (5, 6), (6, 5), (1, 4), (3, 4, 5)]


def close(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> bool:
    return bool((a - b).abs().max() <= tolerance * b.abs().max().clamp_min(1e-12))


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


# ------------------------------------------------------------------- the models say what they do


@pytest.mark.parametrize("name", MODELS)
def test_steps_agree_with_forward(name: str) -> None:
    model = tiny(name)
    x = model.inputs(3)
    seen: dict[str, Tensor] = {}

    def keep(path: str):
        def hook(_module, _args, out: Tensor) -> None:
            seen[path] = out.clone()  # a copy: the next module may work in place

        return hook

    hooks = [
        module.register_forward_hook(keep(path)) for path, module in model.named_modules() if path in model.boundaries
    ]
    output = model(x)
    for hook in hooks:
        hook.remove()
    values = evaluate(model, x)
    assert model.target in seen or close(values[model.target], output)
    for path, tensor in seen.items():
        assert close(values[path], tensor), path
    assert set(model.channel_axis) == set(model.boundaries) <= set(values)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chain", {"input": ["act1"], "act1": ["conv2"], "conv2": ["conv3"]}),
        ("nested", {"input": ["v"], "v": ["add"], "w": ["add"], "add": ["last"]}),
        ("around", {"input": ["v"], "v": ["u"], "w": ["last"], "u": ["last"]}),
        ("nested sparse", {"input": ["last"], "w": ["last"]}),
        ("fork", {"input": ["v"], "v": ["a", "b"], "a": ["out"], "b": ["out"]}),
        (
            "residual",
            {
                "input": ["stem"],
                "stem": ["block1"],
                "block1": ["block2"],
                "block2.conv1": ["block2"],
            },
        ),
        ("weights", {"input": ["embed"], "embed": ["proj"], "soft": ["proj"]}),
    ],
)
def test_frontiers_by_hand(name: str, expected: dict[str, list[str]]) -> None:
    model = tiny(name)
    frontiers = {v: frontier(model, model.boundaries, model.target, v) for v in model.boundaries[:-1]}
    assert frontiers == expected


def test_a_shallower_target_changes_a_frontier_only_where_it_must() -> None:
    model = tiny("nested")
    assert candidates(model, model.boundaries, "v") == {"w", "add"}
    assert frontier(model, model.boundaries, "add", "v") == ["add"]
    assert frontier(model, model.boundaries, "w", "v") == ["w"]


@pytest.mark.parametrize(
    ("name", "v", "u"), [("nested", "v", "add"), ("gate", "a", "out"), ("tokens", "embed", "block")]
)
def test_dense_jacobian_by_finite_differences(name: str, v: str, u: str) -> None:
    model = tiny(name)
    x = model.inputs(1)
    values = evaluate(model, x)
    run = local_map(model, values, v, u, frozenset())
    direction = gaussian(*values[v].shape, seed=3)
    step = 1e-5
    with torch.no_grad():
        slope = (run(values[v] + step * direction) - run(values[v] - step * direction)) / (2 * step)
    assert close(dense_jacobian(model, x, v, u)[0] @ direction.flatten(), slope.flatten(), 1e-7)


def test_a_segment_holds_what_is_not_downstream() -> None:
    """In ``a * gate`` the derivative to ``a`` sees a constant gate, though both come from ``v``."""
    model = tiny("gate")
    assert "gate" not in downstream(model, "a")
    x = model.inputs(1)
    values = evaluate(model, x)
    gate = torch.sigmoid(values["gate"])
    tangent = gaussian(*values["a"].shape)
    by_hand = torch.nn.functional.conv2d(
        torch.nn.functional.pad(tangent * gate, (1, 1, 1, 1), mode="circular"),
        model.get_parameter("out.weight"),
    )
    assert close(dense_jacobian(model, x, "a", "out")[0] @ tangent.flatten(), by_hand.flatten())


# ------------------------------------------------------------------- the spectrum


@pytest.mark.parametrize("sizes", SIZES)
def test_dft_matrix_is_rfftn(sizes: tuple[int, ...]) -> None:
    x = gaussian(*sizes)
    assert close(dft(sizes) @ x.flatten().to(torch.complex128), fft(x).flatten())


def fft(x: Tensor) -> Tensor:
    return torch.fft.rfftn(x, norm="ortho")


@pytest.mark.parametrize("sizes", SIZES)
def test_inverse_matrix_is_irfftn_also_off_the_symmetric_spectra(sizes: tuple[int, ...]) -> None:
    like = fft(gaussian(*sizes))
    y = torch.complex(gaussian(*like.shape, seed=1), gaussian(*like.shape, seed=2))
    back = torch.fft.irfftn(y, s=sizes, norm="ortho")
    assert close((inverse_dft(sizes) @ y.flatten()).real, back.flatten())


@pytest.mark.parametrize(("channel", "shape"), [(1, (3, 4, 5)), (3, (4, 5, 3)), (2, (5, 3)), (1, (4,)), (1, (4, 1, 1))])
def test_axes_go_there_and_back(channel: int, shape: tuple[int, ...]) -> None:
    axes, t = Axes(channel, shape), gaussian(2, *shape)
    assert torch.equal(axes.tensor(axes.matrix(t)), t)
    assert close(axes.signal(axes.spectrum(t)), t)
    assert axes.flat == (math.prod(shape) == shape[channel - 1])
    assert axes.spectrum(t).is_complex() != axes.flat


def test_mask_keeps_chosen_entries_and_no_others() -> None:
    t = gaussian(2, 3, 4, 5)
    kept = mask(t, Axes(1, (3, 4, 5)), [0, 2], [(1, 4), (3, 0)])
    by_hand = torch.zeros_like(t)
    for c in (0, 2):
        by_hand[:, c, 1, 4], by_hand[:, c, 3, 0] = t[:, c, 1, 4], t[:, c, 3, 0]
    assert torch.equal(kept, by_hand)
    last = mask(gaussian(1, 5, 4), Axes(2, (5, 4)), [3], [(2,)])
    assert last.count_nonzero() == 1 and last[0, 2, 3] != 0


# ------------------------------------------------------------------- the closed form


@pytest.mark.parametrize("operator", ["full", "diagonal", "gamma"])
@pytest.mark.parametrize("partition", ["singleton", "shared", torch.tensor([0, 1, 1, 0, 2, 2])])
def test_the_map_is_where_the_objective_stands_still(operator: str, partition) -> None:
    """The gradient of eq:wiener_objective, written out as a sum over bins and samples, is zero."""
    axes, ridge = Axes(1, (3, 2, 4)), 0.05
    x, h = axes.spectrum(gaussian(7, 3, 2, 4, seed=1)), axes.spectrum(gaussian(7, 3, 2, 4, seed=2))
    gains = wiener(x, h, partition, operator, ridge, axes)
    shift = ridge * (x.abs() ** 2).mean()
    groups = groups_of("shared" if operator == "gamma" else partition, axes.bins)
    for g in groups:
        assert all(torch.equal(gains[f], gains[g[0]]) for f in g)
        values = gains[g[0]] if operator == "full" else gains[g[0]].diagonal()
        values = values.clone().requires_grad_()
        m = values if operator == "full" else torch.diag(values)
        misfit = sum(((x[:, f] @ m.T - h[:, f]).abs() ** 2).sum() for f in g) / (len(g) * len(x))
        objective = misfit + shift * (m.abs() ** 2).sum()
        (slope,) = torch.autograd.grad(objective, values)
        assert slope.abs().max() < 1e-12
        if operator != "full":
            assert torch.equal(gains[g[0]], torch.diag(gains[g[0]].diagonal()))


def test_a_zero_source_gives_a_zero_map() -> None:
    axes = Axes(1, (3, 4))
    h = axes.spectrum(gaussian(5, 3, 4))
    assert torch.equal(wiener(torch.zeros_like(h), h, "singleton", "full", 0.01, axes), torch.zeros(3, 3, 3))


def coloured(count: int, covariance: Tensor) -> Tensor:
    """Gaussian samples (N, C), moved so that their second moment is exactly ``covariance``."""
    q, _ = torch.linalg.qr(gaussian(count, len(covariance)))
    values, vectors = torch.linalg.eigh(covariance)
    root = vectors @ torch.diag(values.sqrt()) @ vectors.T
    return math.sqrt(count) * q @ root


def test_one_linear_layer_with_a_gaussian_source() -> None:
    """z = A h, h ~ (0, S): R = M h with M = A^T A / C, so G = S M (M S M + l)^-1 and D likewise."""
    a, ridge = gaussian(4, 3, seed=1), 0.03
    b = gaussian(3, 3, seed=2)
    s = b @ b.T + 0.2 * torch.eye(3, dtype=torch.float64)
    maps = calibrated(Line(a), coloured(40, s), ridge=ridge).maps["input"]
    eye, pull = torch.eye(3, dtype=torch.float64), a.T @ a
    m = pull / 4
    shift = ridge * (m @ s @ m).diagonal().mean()
    g = s @ m @ torch.linalg.inv(m @ s @ m + shift * eye)
    assert close(maps[0][0], g)
    left = eye - g @ m  # h - y0 = left h
    error = left @ s @ left.T
    shift = ridge * (pull @ error @ pull).diagonal().mean()
    d = error @ pull @ torch.linalg.inv(pull @ error @ pull + shift * eye)
    assert close(maps[1][0], d)


def test_a_circular_convolution_gives_the_wiener_filter_of_every_frequency() -> None:
    """H' -> K H' at each bin, so G(w) = S M (M S M + l)^-1 with M = K* K / C, from the kernel."""
    model, ridge = seeded(Circular(), 3), 0.02
    x = model.inputs(9)
    weight = model.get_parameter("conv.weight").detach()  # (3, 2, 3, 3)
    h = torch.fft.rfftn(x, dim=(2, 3), norm="ortho").flatten(2)  # (N, C, F)
    transfer = torch.zeros(len(h[0, 0]), 3, 2, dtype=torch.complex128)
    for f, (k1, k2) in enumerate((a, b) for a in range(4) for b in range(3)):
        for i in range(3):
            for j in range(3):
                angle = 2 * math.pi * (k1 * (i - 1) / 4 + k2 * (j - 1) / 5)
                transfer[f] += weight[:, :, i, j] * complex(math.cos(angle), math.sin(angle))
    m = transfer.mH @ transfer / 3
    s = torch.einsum("ncf,ndf->fcd", h, h.conj()) / len(x)
    heard = m @ s @ m
    shift = ridge * heard.diagonal(dim1=1, dim2=2).real.mean()
    eye = torch.eye(2, dtype=torch.complex128)
    by_hand = torch.stack([s[f] @ m[f] @ torch.linalg.inv(heard[f] + shift * eye) for f in range(len(s))])
    assert close(calibrated(model, x, ridge=ridge).maps["input"][0], by_hand)


def test_an_orthogonal_layer_is_inverted_by_its_transpose() -> None:
    """R = h / C, so without ridge G = C and any terminal state z comes back as C Q^T z / C."""
    q, _ = torch.linalg.qr(gaussian(5, 5, seed=4))
    model = Line(q)
    terminal = gaussian(2, 5, seed=5)
    errors = []
    for ridge in (1e-2, 1e-4, 1e-6, 1e-8):
        fitted = calibrated(model, model.inputs(30), ridge=ridge, stages=1)
        inverse = fitted.invert(model.inputs(2, seed=9), terminal=terminal)["input"]
        errors.append((inverse - terminal @ q).abs().max().item())
    assert errors[-1] < 1e-5 and sorted(errors, reverse=True) == errors
    assert close(fitted.maps["input"][0][0], 5 * torch.eye(5, dtype=torch.float64), 1e-5)


@pytest.mark.parametrize("children", ["true", "online"])
def test_a_dead_channel_stays_zero(children: str) -> None:
    model = tiny("dead")
    fitted = calibrated(model, model.inputs(6), children=children)
    states = fitted.invert(model.inputs(2, seed=2))
    assert isinstance(model, Dead)
    assert all(t.isfinite().all() for t in states.values())
    for channel in (model.silent, model.unheard):
        assert (fitted.maps["act1"][0][:, :, channel] == 0).all() == (channel == model.unheard)
    assert not states["act1"][:, model.silent].any()
    assert states["act1"][:, model.unheard].any()  # recovered from its correlation with the others


def test_a_segment_that_hears_nothing_gives_zero() -> None:
    model = numb()
    states = calibrated(model, model.inputs(6)).invert(model.inputs(2, seed=2))
    assert not states["input"].any() and states["fc1"].any()


# ------------------------------------------------------------------- what a comparison cannot see


def worst(model: Tiny, a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    return max(((a[n] - b[n]).norm() / b[n].norm()).item() for n in model.boundaries)


@pytest.mark.parametrize(
    ("name", "mistake", "same"),
    [
        ("chain", "no channel mean", True),
        ("fork", "no channel mean", False),
        ("chain", "residual divided", True),
        ("fork", "residual divided", False),
        ("fork", "children averaged", True),
        ("fork", "children averaged in fit", False),
        ("fork", "children averaged in inversion", False),
    ],
)
def test_the_relative_ridge_hides_a_constant_factor_on_a_source(name: str, mistake: str, same: bool) -> None:
    """A node's source times a constant, in fit and inversion alike, leaves every state as it was.

    So a lone child cannot tell 1/C_u from 1, and the number of children is a gauge altogether:
    such errors show only where children of unequal width meet, or where one walk divides alone.
    """
    model = tiny(name)
    x, y = model.inputs(6), model.inputs(2, seed=2)
    right = calibrated(model, x).invert(y, channels=[0, 2])
    wrong = calibrated(model, x, mistakes=frozenset({mistake})).invert(y, channels=[0, 2])
    gap = worst(model, wrong, right)
    assert gap < 1e-10 if same else gap > 1e-3


def test_an_unknown_mistake_is_refused() -> None:
    with pytest.raises(AssertionError):
        Setting(mistakes=frozenset({"spelt wrong"}))


def test_more_stages_fit_the_calibration_set_better() -> None:
    """Each stage is a regression of what is left, and the error falls."""
    model = tiny("vector")
    x = model.inputs(25)
    left = []
    for stages in (1, 2, 3, 4):
        states = calibrated(model, x, stages=stages, children="true").invert(x, target="fc1")
        left.append((states["input"] - x).norm().item())
    assert left == sorted(left, reverse=True) and left[-1] < left[0]
