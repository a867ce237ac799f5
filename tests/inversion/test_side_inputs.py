"""Inverses at inputs with side inputs, against those of a model into which each sample's own are built."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

import sgfi
from sgfi.errors import QueryError
from sgfi.inversion import bind
from sgfi.inversion.side_inputs import samples_alike
from sgfi.natural import Recent
from tests.graph.test_arguments import Gated, float64


class Own(nn.Module):
    """The gated model with one sample's gate and label built in."""

    def __init__(self, model: Gated, gate: Tensor, label: Tensor) -> None:
        super().__init__()
        self.model, self.gate, self.given = model, gate, label

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x, self.gate, self.given)  # both broadcast over the batch


def case() -> tuple[Gated, dict[str, Tensor]]:
    torch.manual_seed(0)
    inputs = {"x": float64((3, 4)), "gate": float64((3, 5), 1), "label": torch.tensor([0, 2, 1])}
    inputs["gate"][2], inputs["label"][2] = inputs["gate"][0], 0  # the first and the last go together
    return Gated().double().eval(), inputs


@pytest.mark.parametrize("jacobian", ["point", "path"])
def test_the_natural_inverse_takes_each_sample_with_its_own(jacobian: str) -> None:
    model, inputs = case()
    prior = sgfi.prior([float64((40, 4), 9)])
    lens = sgfi.natural(sgfi.capture(model, inputs, invert="x"), prior, jacobian)
    queries = [sgfi.Query("second", 1), sgfi.Query("first", [0, 2])]
    together = sgfi.sweep(lens, inputs, queries)
    for index in range(3):
        own = Own(model, inputs["gate"][index : index + 1], inputs["label"][index : index + 1]).eval()
        x = inputs["x"][index : index + 1]
        alone = sgfi.sweep(sgfi.natural(sgfi.capture(own, x), prior, jacobian), x, queries)
        for answer, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(answer.value[index], expected.value[0])
            assert answer.share is not None and expected.share is not None
            torch.testing.assert_close(answer.share[index], expected.share[0])
            torch.testing.assert_close(answer.ridge[index], expected.ridge[0])  # type: ignore[index]


def test_maps_are_fitted_and_asked_with_side_inputs() -> None:
    model, inputs = case()
    graph = sgfi.capture(model, inputs, invert="x")
    gates, labels = float64((24, 5), 5), torch.arange(24) % 3
    batches = [{"x": float64((12, 4), i), "gate": gates[12 * i :][:12], "label": labels[:12]} for i in range(2)]
    plan = sgfi.plan(graph, "second", ["first", "second"])
    family = sgfi.calibrate(plan, batches)
    inverse = sgfi.invert(family, inputs, channels=[1], terminal=float64((3, 2), 4))
    for index in range(3):
        own = bind(family, {name: inputs[name][index : index + 1] for name in ("gate", "label")})
        alone = sgfi.invert(own, inputs["x"][index : index + 1], channels=[1], terminal=float64((3, 2), 4)[index:][:1])
        torch.testing.assert_close(inverse.value[index], alone.value[0])
    fixed = sgfi.capture(Own(model, gates[:1], labels[:1]).eval(), inputs["x"])
    same = [{**batch, "gate": gates[:1].expand(12, -1), "label": labels[:1].expand(12)} for batch in batches]
    expected = sgfi.calibrate(
        sgfi.plan(fixed, "model.second", ["model.first", "model.second"]), [batch["x"] for batch in batches]
    )
    ours = sgfi.calibrate(plan, same)
    torch.testing.assert_close(
        sgfi.invert(bind(ours, {"gate": gates[:1], "label": labels[:1]}), inputs["x"]).value,
        sgfi.invert(expected, inputs["x"]).value,
    )


def test_a_family_with_side_inputs_is_saved_and_loaded(tmp_path: object) -> None:
    model, inputs = case()
    graph = sgfi.capture(model, inputs, invert="x")
    family = sgfi.calibrate(sgfi.plan(graph, "second", ["first", "second"]), [inputs])
    sgfi.save(family, f"{tmp_path}/maps")
    other = sgfi.capture(model, {name: value.flip(0) for name, value in inputs.items()}, invert="x")
    again = sgfi.load(f"{tmp_path}/maps", other)
    torch.testing.assert_close(sgfi.invert(again, inputs).value, sgfi.invert(family, inputs).value)


def test_a_look_at_one_sample_with_its_side_inputs() -> None:
    model, inputs = case()
    graph = sgfi.capture(model, inputs, invert="x")
    prior = sgfi.prior([float64((40, 4), 9)])
    first = {name: value[:1] for name, value in inputs.items()}
    seen = sgfi.look(graph, first, "second:1", prior)
    torch.testing.assert_close(seen.value, sgfi.invert(sgfi.natural(graph, prior), first, "second", 1).value)


def test_inputs_and_side_inputs_must_be_as_many() -> None:
    model, inputs = case()
    lens = sgfi.natural(sgfi.capture(model, inputs, invert="x"), sgfi.prior([float64((40, 4), 9)]))
    with pytest.raises(QueryError, match="as many side inputs"):
        sgfi.invert(lens, {**inputs, "gate": inputs["gate"][:2]}, "second")
    with pytest.raises(QueryError, match="none called 'gate'"):
        sgfi.invert(lens, {"x": inputs["x"], "label": inputs["label"]}, "second")


def test_a_terminal_for_each_query_is_told_from_one_for_each_sample() -> None:
    model, inputs = case()
    lens = sgfi.natural(sgfi.capture(model, inputs, invert="x"), sgfi.prior([float64((40, 4), 9)]))
    queries, state = [sgfi.Query("second", channel) for channel in (0, 1, 0)], float64((3, 2), 4)
    shared, each = (sgfi.sweep(lens, inputs, queries, terminal=t) for t in (state, torch.stack([state] * 3)))
    for a, b in zip(shared, each, strict=True):
        torch.testing.assert_close(a.value, b.value)
    for wrong in (torch.tensor(1.0), torch.ones(3), float64((2, 2)), float64((3, 2, 2))):
        with pytest.raises(QueryError, match="terminal"):
            sgfi.sweep(lens, inputs, queries, terminal=wrong.double())


class Looked(nn.Module):
    """A gate in half precision, and a table that is read at an id."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.table, self.second = nn.Linear(4, 5), nn.Embedding(7, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor, gate: Tensor, id: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x) + self.table(id)) * gate.float())


def looked(dtype: torch.dtype = torch.bfloat16) -> tuple[sgfi.NaturalInverse, dict[str, Tensor]]:
    torch.manual_seed(0)
    inputs = {"x": torch.randn(3, 4), "gate": torch.rand(3, 5).to(dtype), "id": torch.tensor([1, 6, 1])}
    inputs["gate"][2] = inputs["gate"][0]  # the first and the last go together
    graph = sgfi.capture(Looked().eval(), inputs, invert="x")
    return sgfi.natural(graph, sgfi.prior([torch.randn(40, 4)])), inputs


def test_side_inputs_in_half_precision_are_told_apart() -> None:
    (lens, inputs), (wide, rounded) = looked(), looked(torch.float32)
    rounded["gate"] = inputs["gate"].float()
    torch.testing.assert_close(sgfi.invert(lens, inputs, "second").value, sgfi.invert(wide, rounded, "second").value)
    assert [len(group) for group in samples_alike(lens.graph, *lens.graph.split(inputs))] == [2, 1]
    kept = replace(lens.on(lens.graph.bind({"gate": inputs["gate"][:1], "id": inputs["id"][:1]})), recent=Recent())
    expected = sgfi.invert(lens, inputs, "second").value[:1]
    torch.testing.assert_close(sgfi.invert(kept, inputs["x"][:1], "second").value, expected)


def test_what_is_bound_is_not_what_the_caller_writes_to_later() -> None:
    lens, inputs = looked()
    gate = inputs["gate"][:1].clone()
    own = bind(lens, {"gate": gate, "id": inputs["id"][:1]})
    before = sgfi.invert(own, inputs["x"][:1], "second")
    gate.zero_()
    torch.testing.assert_close(sgfi.invert(own, inputs["x"][:1], "second").value, before.value)


@pytest.mark.parametrize("id", [7, -1])
def test_an_id_that_the_model_does_not_have_is_refused(id: int) -> None:
    lens, inputs = looked()
    wrong = inputs | {"id": torch.tensor([1, id, 1])}
    message = r"side inputs \['gate', 'id'\] with indices that the model has"
    with pytest.raises(QueryError, match=message):
        sgfi.invert(lens, wrong, "second")
    program = lens.graph.bind({name: wrong[name] for name in ("gate", "id")}).program(("input",), ("second",))
    with pytest.raises(QueryError, match=message):
        program(wrong["x"])
