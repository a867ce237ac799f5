"""The method a second time, naively: dense Jacobians, DFT matrices, one solve per group of bins.

Nothing here is shared with the engine, and nothing here is fast. It follows the paper's Method and
its appendix "Supplementary Method Details" line by line (equation labels at the lines), in float64
and complex128, on models that state their own DAG (``analytic.Tiny``).

An oracle can be told to make known ``mistakes``, errors that an engine could plausibly make. The
tests assert that the engine differs from every one of them: the comparison can fail.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tests.analytic import Tiny

FLOOR = 1e-30
"""The paper's epsilon in the relative ridge."""

MISTAKES = {
    "no channel mean": "seeds are y_u (terminal: y_T C_T / |S|): the 1/C_u is dropped everywhere",
    "children averaged in fit": "R_v is divided by the number of children, in calibration only",
    "children averaged in inversion": "R_v is divided by the number of children, in inversion only",
    "children averaged": "R_v is divided by the number of children in both: only a gauge",
    "ridge per frequency": "every bin has a ridge of its own",
    "ridge over groups": "the ridge averages groups, not stored bins",
    "ridge counts the goal": "the ridge adds the goal's power to the source's",
    "parseval weights": "bins weigh as often as they occur in the full spectrum",
    "centred": "moments are covariances, as if there were an intercept",
    "conjugate": "the map is applied to the conjugate convention (S^T for S)",
    "residual divided": "the pulled-back residual is (H_u - J y0) / C_u",
    "residual from seed": "the residual is H_u / C_u - J y0",
    "true child in residual": "online inversion compares J y0 with the true activation H_u",
    "all channels for selected": "the terminal seed is y_T / C_T, not y_T / |S|",
    "coordinates divide": "the terminal seed is y_T / (|S| |Q|)",
    "mask after seed only": "the residual at the terminal reads the unmasked H_T",
    "true children online": "online calibration uses the true children after all",
    "true children online in source": "online calibration uses the true children in R_v",
    "true children online in residual": "online calibration uses the true children in C_v",
    "correction fits the state": "D_v is regressed on H_v, not on H_v - y0",
    "nested kept": "an upstream candidate stays in the frontier",
    "nested held": "boundaries between v and its frontier are held at their forward value",
    "raw per node": "raw divides by C_u at every boundary it passes",
    "residual beyond the query": "causal maps see the residual at positions after the last queried one",
    "kernel backwards": "causal kernels read earlier positions instead of later ones",
}

PartitionLike = str | Tensor


# --------------------------------------------------------------------------- the DAG


@torch.no_grad()
def evaluate(model: Tiny, x: Tensor) -> dict[str, Tensor]:
    """Every named tensor of the model on ``x`` (B, ...)."""
    values = {"input": x}
    for name, step in model.steps().items():
        values[name] = step.fn(*(values[i] for i in step.inputs))
    return values


def downstream(model: Tiny, v: str) -> set[str]:
    """Names strictly downstream of ``v``."""
    reached: set[str] = set()
    for name, step in model.steps().items():
        if any(i == v or i in reached for i in step.inputs):
            reached.add(name)
    return reached


def local_map(model: Tiny, values: Mapping[str, Tensor], v: str, u: str, held: frozenset[str]):
    """``f_{u<-v,x}``: recompute what is downstream of ``v``; the rest keeps its forward value."""
    moving = downstream(model, v) - held

    def run(h: Tensor) -> Tensor:
        now = dict(values)
        now[v] = h
        for name, step in model.steps().items():
            if name in moving:
                now[name] = step.fn(*(now[i] for i in step.inputs))
        return now[u]

    return run


def dense_jacobian(model: Tiny, x: Tensor, v: str, u: str, held: frozenset[str] = frozenset()) -> Tensor:
    """``J_{u<-v}`` sample by sample, (B, |u|, |v|)."""
    rows = []
    for sample in x.split(1):
        values = evaluate(model, sample)
        run = local_map(model, values, v, u, held)
        j = torch.autograd.functional.jacobian(run, values[v], vectorize=True)
        rows.append(j.reshape(values[u].numel(), values[v].numel()))
    return torch.stack(rows)


def candidates(model: Tiny, boundaries: Sequence[str], v: str) -> set[str]:
    """Boundaries that a path from ``v`` meets first."""
    children: set[str] = set()
    open_ = {v}
    for name, step in model.steps().items():
        if any(i in open_ for i in step.inputs):
            (children if name in boundaries else open_).add(name)
    return children


def frontier(model: Tiny, boundaries: Sequence[str], target: str, v: str, keep_nested: bool = False) -> list[str]:
    """Deepest non-overlapping children of ``v`` on paths to the target (app:notation_axes)."""
    useful = {b for b in boundaries if b == target or target in downstream(model, b)}
    children = candidates(model, [b for b in boundaries if b in useful], v) & useful
    below = {u: downstream(model, u) for u in children}
    return [u for u in boundaries if u in children and (keep_nested or not any(w in below[u] for w in children))]


# --------------------------------------------------------------------------- the spectrum


@lru_cache
def dft(sizes: tuple[int, ...]) -> Tensor:
    """The orthonormal real DFT as a matrix (stored bins, positions), the last axis halved."""
    bins = stored_bins(sizes)
    spots = list(itertools.product(*(range(n) for n in sizes)))
    scale = 1 / math.sqrt(math.prod(sizes))
    rows = [[cmath.exp(-2j * math.pi * phase(k, n, sizes)) * scale for n in spots] for k in bins]
    return torch.tensor(rows, dtype=torch.complex128)


@lru_cache
def inverse_dft(sizes: tuple[int, ...]) -> Tensor:
    """W (positions, stored bins) with ``irfftn(Y) = Re(W Y)``.

    A stored bin whose last index is neither 0 nor Nyquist stands for itself and its mirror, so it
    counts twice; at 0 and Nyquist it counts once, and the real part drops what is not symmetric.
    """
    spectrum = dft(sizes).conj().T
    twice = [1 if k[-1] == 0 or 2 * k[-1] == sizes[-1] else 2 for k in stored_bins(sizes)]
    return spectrum * torch.tensor(twice, dtype=torch.complex128)


def stored_bins(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(n) for n in sizes[:-1]), range(sizes[-1] // 2 + 1)))


def phase(k: Sequence[int], n: Sequence[int], sizes: Sequence[int]) -> float:
    return sum(a * b / size for a, b, size in zip(k, n, sizes, strict=True))


@dataclass(frozen=True)
class Axes:
    """How one node's tensor (B, ...) is read as channels and positions, and as a spectrum."""

    channel: int
    shape: tuple[int, ...]
    """Shape without the batch."""

    @property
    def channels(self) -> int:
        return self.shape[self.channel - 1]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(n for i, n in enumerate(self.shape, start=1) if i != self.channel)

    @property
    def flat(self) -> bool:
        """No coordinates, or only singletons left over from pooling: no transform."""
        return math.prod(self.sizes) == 1

    def matrix(self, t: Tensor) -> Tensor:
        """(B, ...) -> (B, P, C), positions row-major over the coordinate axes in tensor order."""
        return t.movedim(self.channel, -1).reshape(len(t), -1, self.channels)

    def tensor(self, m: Tensor) -> Tensor:
        """(B, P, C) -> (B, ...)."""
        return m.reshape(len(m), *self.sizes, self.channels).movedim(-1, self.channel)

    def spectrum(self, t: Tensor) -> Tensor:
        """(B, ...) -> (B, F, C), complex unless there is nothing to transform."""
        m = self.matrix(t)
        if self.flat:
            return m
        return torch.einsum("fp,bpc->bfc", dft(self.sizes), m.to(torch.complex128))

    def signal(self, s: Tensor) -> Tensor:
        """(B, F, C) -> (B, ...), what irfftn returns."""
        m = s if self.flat else torch.einsum("pf,bfc->bpc", inverse_dft(self.sizes), s).real
        return self.tensor(m)

    @property
    def bins(self) -> int:
        return 1 if self.flat else len(stored_bins(self.sizes))

    @property
    def multiplicity(self) -> list[float]:
        """How often each stored bin occurs in the full spectrum."""
        if self.flat:
            return [1.0]
        last = self.sizes[-1]
        return [1.0 if k[-1] == 0 or 2 * k[-1] == last else 2.0 for k in stored_bins(self.sizes)]


# --------------------------------------------------------------------------- the closed form


def groups_of(partition: PartitionLike, bins: int) -> list[list[int]]:
    """The partition as lists of stored bins."""
    if isinstance(partition, Tensor):
        ids = partition.reshape(-1).tolist()
        assert len(ids) == bins
        return [[i for i in range(bins) if ids[i] == g] for g in sorted(set(ids))]
    if partition == "shared":
        return [list(range(bins))]
    assert partition == "singleton"
    return [[i] for i in range(bins)]


def wiener(
    source: Tensor,
    goal: Tensor,
    partition: PartitionLike,
    operator: str,
    ridge: float,
    axes: Axes,
    mistakes: frozenset[str] = frozenset(),
) -> Tensor:
    """The map (F, C, C) that takes source spectra (N, F, C) to goal spectra (eq:matrix_wiener)."""
    count, bins, width = source.shape
    if "centred" in mistakes:
        source, goal = source - source.mean(0), goal - goal.mean(0)
    auto = torch.zeros(bins, width, width, dtype=source.dtype)
    cross = torch.zeros_like(auto)
    for n in range(count):
        for f in range(bins):
            x, h = source[n, f], goal[n, f]
            auto[f] += torch.outer(x, x.conj()) / count  # eq:srr
            cross[f] += torch.outer(h, x.conj()) / count  # eq:shr
    if "conjugate" in mistakes:
        auto, cross = auto.conj(), cross.conj()
    power = torch.stack([auto[f].diagonal().real for f in range(bins)])  # (F, C)
    if operator == "gamma":
        partition = "shared"
    groups = groups_of(partition, bins)
    weight = axes.multiplicity if "parseval weights" in mistakes else [1.0] * bins
    shift = ridge * max(power.mean().item(), FLOOR)  # eq:relative_ridge
    if "ridge counts the goal" in mistakes:
        shift += ridge * goal.abs().square().mean().item()
    if "ridge over groups" in mistakes:
        shift = ridge * torch.stack([power[g].mean() for g in groups]).mean().item()
    result = torch.zeros_like(auto)
    for g in groups:
        total = sum(weight[f] for f in g)
        s_xx = sum(weight[f] * auto[f] for f in g) / total  # eq:grouped_spectral_moments
        s_hx = sum(weight[f] * cross[f] for f in g) / total
        own = ridge * max(power[g].mean().item(), FLOOR)
        by = own if "ridge per frequency" in mistakes else shift
        result[g] = solve(s_hx, s_xx, by, operator)
    return result


def solve(s_hx: Tensor, s_xx: Tensor, shift: float, operator: str) -> Tensor:
    """One group's matrix: S^HX (S^XX + shift I)^-1, or the best diagonal one."""
    if operator == "full":
        eye = torch.eye(len(s_xx), dtype=s_xx.dtype)
        return s_hx @ torch.linalg.inv(s_xx + shift * eye)
    assert operator in ("diagonal", "gamma")
    return torch.diag(s_hx.diagonal() / (s_xx.diagonal() + shift))


# --------------------------------------------------------------------------- causal maps


def reach_of(operator: str) -> int | None:
    """How many later positions a causal operator reads: 0, or k of ``causal+k``; None for any other operator."""
    if not operator.startswith("causal"):
        return None
    return int(operator.partition("+")[2] or 0)


def read(m: Tensor, p: int, reach: int, backwards: bool = False) -> Tensor:
    """What the state at position ``p`` is made of: (B, P, C) -> (B, (1 + reach) C), zero off the end."""
    spots = [p - k if backwards else p + k for k in range(reach + 1)]
    return torch.cat([m[:, q] if 0 <= q < m.shape[1] else torch.zeros_like(m[:, 0]) for q in spots], dim=1)


def causal_wiener(
    source: Tensor, goal: Tensor, partition: PartitionLike, reach: int, ridge: float, backwards: bool
) -> Tensor:
    """Real maps (P, C, (1 + reach) C) from source to goal, both (N, P, C): plain ridge regression by position."""
    positions = source.shape[1]
    seen = torch.stack([read(source, p, reach, backwards) for p in range(positions)], dim=1)  # (N, P, W)
    result = torch.zeros(positions, goal.shape[2], seen.shape[2], dtype=source.dtype)
    for g in groups_of(partition, positions):
        x, h = seen[:, g].flatten(0, 1), goal[:, g].flatten(0, 1)  # (N |g|, W), (N |g|, C)
        shift = ridge * max(x.square().mean().item(), FLOOR)  # each group's own, where vision has one for the node
        eye = torch.eye(x.shape[1], dtype=x.dtype)
        result[g] = (h.T @ x / len(x)) @ torch.linalg.inv(x.T @ x / len(x) + shift * eye)
    return result


# --------------------------------------------------------------------------- the two walks


@dataclass(frozen=True)
class Setting:
    """Everything that is declared before fitting."""

    partition: PartitionLike | Mapping[str, PartitionLike] = "singleton"
    operator: str | Mapping[str, str] = "full"
    ridge: float = 0.01
    children: str = "true"
    stages: int = 2
    mistakes: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        assert self.mistakes <= MISTAKES.keys(), self.mistakes - MISTAKES.keys()

    def of(self, node: str) -> tuple[PartitionLike, str]:
        parts, ops = self.partition, self.operator
        return (
            parts.get(node, "singleton") if isinstance(parts, Mapping) else parts,
            ops.get(node, "full") if isinstance(ops, Mapping) else ops,
        )


@dataclass
class Oracle:
    """A fitted family: for every node its maps, first G, then one correction per further stage."""

    model: Tiny
    setting: Setting
    maps: dict[str, list[Tensor]] = field(default_factory=dict)
    axes: dict[str, Axes] = field(default_factory=dict)

    def has(self, mistake: str) -> bool:
        return mistake in self.setting.mistakes

    def frontier(self, target: str, v: str) -> list[str]:
        """Children of ``v`` on paths to ``target``, over all of the model's boundaries."""
        return frontier(self.model, self.model.boundaries, target, v, self.has("nested kept"))

    def upstream(self, target: str) -> list[str]:
        """Fitted nodes on paths to the target, deepest first."""
        names = [b for b in self.model.boundaries if target in downstream(self.model, b)]
        return names[::-1]

    def jacobians(self, x: Tensor, target: str, v: str) -> dict[str, Tensor]:
        held = frozenset(self.model.boundaries) if self.has("nested held") else frozenset()
        kids = self.frontier(target, v)
        return {u: jacobian_of(self.model, x, v, u, held - {u}) for u in kids}

    def pull(self, js: Mapping[str, Tensor], seeds: Mapping[str, Tensor], like: Tensor) -> Tensor:
        """Sum of J* seed over the children (eq:local_mean_raw)."""
        total = sum(torch.einsum("buv,bu->bv", j, seeds[u].flatten(1)) for u, j in js.items())
        assert isinstance(total, Tensor)
        return total.reshape(like.shape)

    def misfit(
        self, js: Mapping[str, Tensor], states: Mapping[str, Tensor], y: Tensor, last: int | None = None
    ) -> Tensor:
        """J*(y_u - J y) summed over the children (eq:jvp_fc_source, eq:online_jvp_fc_source).

        ``last``: the residual counts up to this position only.
        """
        residuals = {}
        for u, j in js.items():
            state = states[u]
            if self.has("residual from seed"):
                state = state / self.axes[u].channels
            e = state.flatten(1) - torch.einsum("buv,bv->bu", j, y.flatten(1))
            residuals[u] = e / self.axes[u].channels if self.has("residual divided") else e
            if last is not None:
                upto = [(p,) for p in range(last + 1)]
                residuals[u] = mask(residuals[u].reshape(states[u].shape), self.axes[u], None, upto)
        return self.pull(js, residuals, y)

    def apply(self, v: str, k: int, source: Tensor) -> Tensor:
        """Map number ``k`` of node ``v`` on a source tensor (eq:local_operator)."""
        axes = self.axes[v]
        reach = reach_of(self.setting.of(v)[1])
        if reach is not None:
            m, back = axes.matrix(source), self.has("kernel backwards")
            rows = [read(m, p, reach, back) @ self.maps[v][k][p].T for p in range(m.shape[1])]
            return axes.tensor(torch.stack(rows, dim=1))
        return axes.signal(torch.einsum("fij,bfj->bfi", self.maps[v][k], axes.spectrum(source)))

    def mean_seed(self, u: str, state: Tensor) -> Tensor:
        """y_u / C_u (eq:mean_seed, eq:online_child_seed)."""
        return state if self.has("no channel mean") else state / self.axes[u].channels

    # ---- calibration

    def fit(self, x: Tensor, dx: Tensor | None = None) -> Oracle:
        """Fit every node on the inputs ``x`` (N, ...), deepest first; with ``dx`` on their tangents ``J dx``."""
        true = evaluate(self.model, x) if dx is None else pushed(self.model, x, dx)
        for name in self.model.boundaries:
            self.axes[name] = Axes(self.model.channel_axis[name], tuple(true[name].shape[1:]))
        repaired = {self.model.target: true[self.model.target]}
        for v in self.upstream(self.model.target):
            repaired[v] = self.fit_node(v, x, true, repaired)
        return self

    def fit_node(self, v: str, x: Tensor, true: Mapping[str, Tensor], repaired: Mapping[str, Tensor]) -> Tensor:
        """Fit ``v`` and return its repaired state on the calibration inputs."""
        online = self.setting.children == "online" and not self.has("true children online")
        in_source = online and not self.has("true children online in source")
        in_residual = online and not self.has("true children online in residual")
        js = self.jacobians(x, self.model.target, v)
        seen = repaired if in_source else true
        seeds = {u: self.mean_seed(u, seen[u]) for u in js}
        source = self.pull(js, seeds, true[v])
        if self.has("children averaged") or self.has("children averaged in fit"):
            source = source / len(js)
        self.maps[v] = []
        y = torch.zeros_like(true[v])
        for k in range(self.setting.stages):
            if k > 0:
                source = self.misfit(js, repaired if in_residual else true, y)
            left = true[v] if k > 0 and self.has("correction fits the state") else true[v] - y
            self.maps[v].append(self.regress(v, source, left))
            y = y + self.apply(v, k, source)
        return y

    def regress(self, v: str, source: Tensor, goal: Tensor) -> Tensor:
        axes = self.axes[v]
        partition, operator = self.setting.of(v)
        reach = reach_of(operator)
        if reach is not None:
            back = self.has("kernel backwards")
            return causal_wiener(axes.matrix(source), axes.matrix(goal), partition, reach, self.setting.ridge, back)
        return wiener(
            axes.spectrum(source),
            axes.spectrum(goal),
            partition,
            operator,
            self.setting.ridge,
            axes,
            self.setting.mistakes,
        )

    # ---- inversion

    def invert(
        self,
        x: Tensor,
        target: str | None = None,
        channels: Sequence[int] | None = None,
        coords: Sequence[tuple[int, ...]] | None = None,
        terminal: Tensor | None = None,
        stage: str = "final",
        directions: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """The state at the target and at every boundary upstream of it; ``directions`` (K, C) or (|Q|, K, C)."""
        target = target or self.model.target
        true = evaluate(self.model, x)
        axes = self.axes[target]
        whole = true[target] if terminal is None else terminal
        y_t = mask(whole, axes, channels, coords)  # eq:masked_terminal_seed
        if directions is not None:
            y_t, channels = onto_span(y_t, axes, coords, directions), range(directions.shape[-2])
        seed_t = y_t / self.divisor(axes, channels, coords)
        if stage == "raw":
            return self.backpropagate(x, target, y_t, seed_t)
        shown = whole if self.has("mask after seed only") else y_t
        states, against = {target: y_t}, {target: shown}
        for v in self.upstream(target):
            js = self.jacobians(x, target, v)
            seeds = {u: seed_t if u == target else self.mean_seed(u, states[u]) for u in js}
            source = self.pull(js, seeds, true[v])
            if self.has("children averaged") or self.has("children averaged in inversion"):
                source = source / len(js)
            y = self.apply(v, 0, source)
            for k in range(1, len(self.maps[v]) if stage == "final" else 1):
                compare = true if self.has("true child in residual") else against
                y = y + self.apply(v, k, self.misfit(js, compare, y, self.last(v, coords)))
            states[v] = against[v] = y
        return states

    def last(self, v: str, coords: Sequence[tuple[int, ...]] | None) -> int | None:
        """The position after which a causal node's residual no longer counts."""
        if coords is None or reach_of(self.setting.of(v)[1]) is None or self.has("residual beyond the query"):
            return None
        return max(position for (position,) in coords)

    def divisor(
        self,
        axes: Axes,
        channels: Sequence[int] | None,
        coords: Sequence[tuple[int, ...]] | None,
    ) -> float:
        """|S|, whatever the coordinates."""
        chosen = axes.channels if channels is None else len(channels)
        if self.has("no channel mean"):
            return chosen / axes.channels
        if self.has("all channels for selected"):
            return axes.channels
        if self.has("coordinates divide"):
            return chosen * (math.prod(axes.sizes) if coords is None else len(coords))
        return chosen

    def backpropagate(self, x: Tensor, target: str, y_t: Tensor, seed: Tensor) -> dict[str, Tensor]:
        """Raw: the terminal seed through the whole graph, every path, no repair on the way."""
        states = {target: y_t}
        for v in self.upstream(target):
            j = jacobian_of(self.model, x, v, target, frozenset())
            like = evaluate(self.model, x)[v]
            states[v] = self.pull({target: j}, {target: seed}, like)
            if self.has("raw per node"):
                states[v] = states[v] / self.axes[v].channels
        return states


def mask(
    t: Tensor,
    axes: Axes,
    channels: Sequence[int] | None,
    coords: Sequence[tuple[int, ...]] | None,
) -> Tensor:
    """P_{S,Q} t: unselected entries are zero, no axis is lost (eq:terminal_mask_projector)."""
    m = axes.matrix(t)
    keep = torch.zeros(m.shape[1:], dtype=torch.bool)
    spots = list(itertools.product(*(range(n) for n in axes.sizes)))
    for p, spot in enumerate(spots):
        for c in range(axes.channels):
            keep[p, c] = (coords is None or spot in coords) and (channels is None or c in channels)
    return axes.tensor(torch.where(keep, m, torch.zeros_like(m)))


_JACOBIANS: WeakKeyDictionary[Tiny, dict[tuple, Tensor]] = WeakKeyDictionary()


def onto_span(t: Tensor, axes: Axes, coords: Sequence[tuple[int, ...]] | None, directions: Tensor) -> Tensor:
    """At every position the orthogonal projection on the span of its rows, by the pseudo-inverse."""
    m = axes.matrix(t).clone()
    spots = list(itertools.product(*(range(n) for n in axes.sizes)))
    for number, spot in enumerate(spots if coords is None else coords):
        rows = directions if directions.dim() == 2 else directions[number]
        position = spots.index(tuple(spot))
        m[:, position] = m[:, position] @ (torch.linalg.pinv(rows) @ rows).mT
    return axes.tensor(m)


def jacobian_of(model: Tiny, x: Tensor, v: str, u: str, held: frozenset[str]) -> Tensor:
    """``dense_jacobian`` remembered by model, inputs and edge (the models here never change)."""
    known = _JACOBIANS.setdefault(model, {})
    key = (tuple(x.flatten().tolist()), v, u, held & between(model, v, u))
    if key not in known:
        known[key] = dense_jacobian(model, x, v, u, held)
    return known[key]


def between(model: Tiny, v: str, u: str) -> set[str]:
    """Names strictly between ``v`` and ``u``."""
    return {n for n in downstream(model, v) if u in downstream(model, n)}


def pushed(model: Tiny, x: Tensor, dx: Tensor) -> dict[str, Tensor]:
    """``J_{v<-input}(x) dx`` of every boundary, by dense Jacobians."""
    states = {"input": dx}
    for v in model.boundaries[1:]:
        j = jacobian_of(model, x, "input", v, frozenset())
        states[v] = torch.einsum("bvi,bi->bv", j, dx.flatten(1)).reshape(evaluate(model, x)[v].shape)
    return states


def calibrated(model: Tiny, x: Tensor, **setting) -> Oracle:
    """A fitted oracle; keywords are the fields of ``Setting``."""
    return Oracle(model, Setting(**setting)).fit(x)
