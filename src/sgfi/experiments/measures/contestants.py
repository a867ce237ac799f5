"""The methods that draw pictures in ``answers``: estimators, trained decoders and other libraries' methods, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

import sgfi
from sgfi.calibration.presets import preset_named
from sgfi.errors import QueryError, did_you_mean
from sgfi.evaluation.decoder import Decoder, Decoders, Training, train_decoder
from sgfi.evaluation.pictures import METHODS, NATURAL, Scene, pictures
from sgfi.experiments.cases import Case
from sgfi.experiments.ledger import digest
from sgfi.experiments.provenance import code_digest
from sgfi.inversion import Estimator, Query
from sgfi.language import tokenise
from sgfi.natural import Prior, embedding_prior, from_tensors
from sgfi.storage.files import write_tensors

MAPS, ADDITIVE, ALIGNED = "maps", "maps, additive gauge", "maps, aligned"
DECODER = "trained decoder"
ESTIMATORS = (*NATURAL, MAPS, ADDITIVE, ALIGNED, DECODER)


def prior_of(case: Case) -> Prior:
    """Of the calibration inputs, kept beside the families; for a language model of its embeddings, weighted by the
    calibration text."""
    table = case.loaded.vocabulary
    if table is None:
        facts = [case.loaded.provenance, case.calibration.digest, code_digest()]
        file = case.families / f"prior-{digest(facts)}.safetensors"
        if not file.is_file():
            write_tensors(file, sgfi.prior(case.calibration.batches).tensors(), {})
        return from_tensors(load_file(file))
    text = Path(case.calibration.path).read_text(encoding="utf-8", errors="replace")
    counts = torch.bincount(tokenise(case.loaded.tokenizer, text), minlength=len(table))
    return embedding_prior(table, case.loaded.input_shape[0], counts)


class Contestants:
    """Every method of one case, made when it is first needed."""

    def __init__(self, case: Case, prior: Prior, methods: Sequence[str], targets: Sequence[str]) -> None:
        known = [*ESTIMATORS, *METHODS]
        for name in methods:
            if name not in known:
                raise QueryError(f"methods among {known}", repr(name), did_you_mean(name, known) or "Choose some.")
        self.case, self.prior, self.targets = case, prior, tuple(targets)
        self.estimator: Callable[[str], Estimator] = cache(self._estimator)

    def values(self, method: str, queries: Sequence[Query], x: Tensor) -> list[Tensor]:
        """(B, *input) a query."""
        if method in ESTIMATORS:
            return [inverse.value for inverse in sgfi.sweep(self.estimator(method), x, queries)]
        graph = self.case.plan.graph
        return list(pictures(method, Scene.of(graph, x, self.prior, queries, self.case.loaded.model)))

    def identity(self, method: str) -> str:
        """The method's name with a digest of how it is set up."""
        if method in NATURAL:
            return f"{method} {digest(self.estimator(method).describe())}"
        if method in (MAPS, ADDITIVE, ALIGNED):
            return f"{method} {self._map_case(method).key}"
        return f"{method} {digest(vars(Training()))}" if method == DECODER else method

    def _estimator(self, name: str) -> Estimator:
        if name in NATURAL:
            return sgfi.natural(self.case.plan.graph, self.prior, **NATURAL[name])
        if name == DECODER:
            graph = self.case.plan.graph
            names = [graph.nodes.canonical(target) for target in self.targets]
            return Decoders(graph, self.prior, {target: self._decoder(target) for target in names})
        family = self._map_case(name).family
        return family.in_gauge("additive") if name == ADDITIVE else family

    def _map_case(self, name: str) -> Case:
        if name != ALIGNED:
            return self.case
        return replace(self.case, plan=preset_named("aligned").refine(self.case.plan), options={"preset": "aligned"})

    def _decoder(self, target: str) -> Decoder:
        """Trained now, or read back."""
        case, graph, training = self.case, self.case.plan.graph, Training()
        facts = [graph.fingerprint, target, case.calibration.digest, self.prior.shape, vars(training), code_digest()]
        file = case.families / f"decoder-{digest(facts)}.safetensors"
        if file.is_file():
            decoder = Decoder(graph.nodes[target], self.prior.shape, training.width)
            decoder.load_state_dict(load_file(file))
            return decoder.eval().requires_grad_(False)
        decoder = train_decoder(graph, target, case.calibration.batches, self.prior, training)
        write_tensors(file, decoder.state_dict(), {})
        return decoder
