"""Small systems before and after ``accelerate``: energy and forces of four ethanol molecules.

36 atoms and 288 edges, where a call costs as much as the work in it. Models run in the environment
that has their library (``make test-interop`` makes them; ``gate_points`` needs e3nn alone)::

    python -m bench.small_systems gate_points_2101 v2103 v2106
    .venv-nequip/bin/python -m bench.small_systems nequip nequip-training
    .venv-mace/bin/python -m bench.small_systems mace mace-training mace-hessian

Energies and forces are compared before anything is timed. Then a model as it was and accelerated
take turns; with ``--frozen`` without gradients by parameters, as calculators of MACE run it.
``mace-training`` and ``nequip-training`` are steps of training on 32 molecules: gradients of all
parameters, which are compared, of squared errors of energies and forces.
``mace-hessian`` is of one molecule: all second derivatives by MACE's own loop over the forces,
against forward over reverse, as one evaluation of copies and as a loop of products.

Two clocks are recorded for each repetition: wall time, and processor time of the process. On a
shared machine, compare ratios of processor time at one thread. ``--output
bench/results/small_systems.json`` replaces the entries of these models in that file.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor, nn

from bench.recorder import Record, output_arguments
from equigeo.interop import accelerate
from equigeo.interop.optional import require_e3nn
from tests.interop.interatomic import (
    Atoms,
    evaluate_mace,
    evaluate_nequip,
    mace,
    mace_hessian,
    mace_hessian_of_copies,
    mace_hessian_product,
    nequip,
)
from tests.interop.library_stand_ins import stand_in_scatter

MOLECULES = 4
TRAINED_MOLECULES = 32
SAME = (
    2e-4  # relative, in float32: what two orders of summation may differ by in second derivatives
)
ELEMENTS = ("C", "H", "O")
CLOCKS: dict[str, Callable[[], float]] = {
    "wall": time.perf_counter,
    "processor": time.process_time,
}
Call = Callable[[], Any]


def nequip_calls(frozen: bool) -> dict[str, Call]:
    model = nequip(torch.float32, ELEMENTS, num_features=32).requires_grad_(not frozen)
    atoms = _molecules()
    return _before_and_after(model, lambda m: together(*evaluate_nequip(m, atoms)))


def mace_calls(frozen: bool) -> dict[str, Call]:
    models = _two_of_mace(frozen)
    atoms = _molecules()
    return {
        name: lambda m=model: together(*evaluate_mace(m, atoms)) for name, model in models.items()
    }


def together(energy: Tensor, forces: Tensor) -> tuple[Tensor]:
    """Energy and forces as one vector, of which the norm of a difference is a share.

    Energies of atoms may cancel: the rest is known no better than what forces do over a length.
    """
    return (torch.cat([energy.reshape(-1), forces.flatten()]),)


def training_calls(frozen: bool, name: str) -> dict[str, Call]:
    """A loss on energy and forces, the forces, and the gradients of the loss by all parameters."""
    if frozen:
        raise SystemExit(f"{name}-training is about gradients of parameters: without --frozen")
    atoms = _molecules(TRAINED_MOLECULES)
    evaluate = evaluate_mace if name == "mace" else evaluate_nequip

    def step(model: nn.Module) -> tuple[Tensor, ...]:
        energy, forces = evaluate(model, atoms)
        loss = (energy - 1).square() / TRAINED_MOLECULES + forces.square().mean()
        found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        # An accelerated layer may keep its parameters in another order.
        return loss, forces, torch.cat([x.flatten() for x in found if x is not None]).sort().values

    if name == "mace":
        return {key: partial(step, model.train()) for key, model in _two_of_mace(frozen).items()}
    return _before_and_after(nequip(torch.float32, ELEMENTS, num_features=32).train(), step)


def hessian_calls(frozen: bool) -> dict[str, Call]:
    atoms = Atoms.ethanol(1, torch.float32)
    models = _two_of_mace(frozen)
    before, after = models["before"], models["after"]

    def products() -> Tensor:
        units = torch.eye(atoms.positions.numel()).view(-1, *atoms.positions.shape)
        columns = torch.stack([mace_hessian_product(after, atoms, unit) for unit in units])
        return columns.view(*atoms.positions.shape, *atoms.positions.shape)

    return {
        "before": lambda: (mace_hessian(before, atoms),),
        "after": lambda: (mace_hessian_of_copies(after, atoms),),
        "after, product by product": lambda: (products(),),
        "after, loop of MACE": lambda: (mace_hessian(after, atoms),),
    }


def gate_points_calls(frozen: bool, name: str) -> dict[str, Call]:
    """Networks of e3nn's examples as they are there: 50 copies of each irrep, three layers."""
    o3 = require_e3nn()
    stand_in_scatter(sys.modules.__setitem__)
    atoms = _molecules()
    options: dict[str, Any] = {"max_radius": 4.75, "num_neighbors": 8.0, "num_nodes": 9.0}
    kinds = nn.functional.one_hot(atoms.kinds, 3).float()
    ones = torch.ones(len(kinds), 1)
    torch.manual_seed(0)
    if name == "gate_points_2101":
        hidden = o3.Irreps([(50, (l, p)) for l in range(3) for p in (-1, 1)])
        irreps = (o3.Irreps("3x0e"), hidden, o3.Irreps("0e"), None, o3.Irreps("0e+1o+2e"))
        network = import_module("e3nn.nn.models.gate_points_2101")
        basis = {"layers": 3, "number_of_basis": 10, "radial_layers": 1, "radial_neurons": 100}
        model = network.Network(*irreps, **basis, **options)
        # Its own search for neighbors finds an atom near itself, by rounding.
        network.radius_graph = lambda *_: atoms.edges
        data = {"x": kinds}
    else:
        network = import_module(f"e3nn.nn.models.{name}.gate_points_networks")
        model = network.NetworkForAGraphWithAttributes("3x0e", "0e", "0e", "0e", **options)
        edge_attr = torch.ones(atoms.edges.shape[1], 1)
        data = {"node_input": kinds, "node_attr": ones, "edge_attr": edge_attr}
        data["edge_index"] = atoms.edges
    data["batch"] = torch.arange(MOLECULES).repeat_interleave(len(kinds) // MOLECULES)

    def evaluate(m: nn.Module) -> tuple[Tensor]:
        positions = atoms.positions.clone().requires_grad_()
        energy = m({"pos": positions, **data}).sum()
        return together(energy, -torch.autograd.grad(energy, positions)[0])

    return _before_and_after(model.requires_grad_(not frozen), evaluate)


def _before_and_after(before: nn.Module, evaluate: Callable[[nn.Module], Any]) -> dict[str, Call]:
    after = copy.deepcopy(before)
    report = accelerate(after)
    if report.kept:
        raise SystemExit(f"every module must be replaced, got {report}")
    return {"before": lambda: evaluate(before), "after": lambda: evaluate(after)}


def _two_of_mace(frozen: bool) -> dict[str, nn.Module]:
    models = {name: mace(torch.float32, elements=ELEMENTS) for name in ("before", "after")}
    accelerate(models["after"])
    return {name: model.requires_grad_(not frozen) for name, model in models.items()}


def _molecules(copies: int = MOLECULES) -> Atoms:
    return Atoms.ethanol(copies, torch.float32)


CASES: dict[str, Callable[[bool], dict[str, Call]]] = {
    "nequip": nequip_calls,
    "mace": mace_calls,
    "mace-hessian": hessian_calls,
    "mace-training": partial(training_calls, name="mace"),
    "nequip-training": partial(training_calls, name="nequip"),
    **{
        name: partial(gate_points_calls, name=name)
        for name in ("gate_points_2101", "v2103", "v2106")
    },
}


def difference(got: tuple[Tensor, ...], want: tuple[Tensor, ...]) -> float:
    """Largest relative difference of results, by norm."""
    pairs = zip(got, want, strict=True)
    return max(float((a.detach() - b.detach()).norm() / b.detach().norm()) for a, b in pairs)


def measure(name: str, rounds: int, frozen: bool) -> dict[str, Any]:
    """Compare and time one case."""
    calls = CASES[name](frozen)
    want = calls["before"]()
    differences = {key: difference(call(), want) for key, call in calls.items() if key != "before"}
    if not max(differences.values()) < SAME:
        raise SystemExit(f"{name}: results must agree to {SAME}, got {differences}")
    seconds = _take_turns(calls, rounds)
    medians = {
        clock: {key: median(of_call[clock]) for key, of_call in seconds.items()} for clock in CLOCKS
    }
    return {
        "relative difference": differences,
        "seconds": seconds,
        "median seconds": medians,
        "quartiles": {
            key: {clock: quantiles(values, n=4)[::2] for clock, values in of_call.items()}
            for key, of_call in seconds.items()
        },
        "times as fast": {
            clock: {key: found["before"] / value for key, value in found.items() if key != "before"}
            for clock, found in medians.items()
        },
    }


def _take_turns(calls: dict[str, Call], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Seconds of each call by both clocks; two rounds before are not counted."""
    seconds: dict[str, dict[str, list[float]]] = {
        key: {clock: [] for clock in CLOCKS} for key in calls
    }
    for n in range(2 + rounds):
        for key, call in calls.items():
            starts = {clock: now() for clock, now in CLOCKS.items()}
            call()
            for clock, now in CLOCKS.items():
                if n >= 2:
                    seconds[key][clock].append(now() - starts[clock])
    return seconds


def _versions() -> dict[str, str]:
    found = {}
    for package in ("nequip", "mace-torch", "e3nn", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=CASES)
    parser.add_argument("--rounds", type=int, default=15, help="timed calls of each")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--frozen", action="store_true", help="no gradients by parameters")
    output_arguments(parser, series=True)
    options = parser.parse_args()
    record = Record(options.output, resume=options.resume)
    for name in options.names:
        for threads in options.threads:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # theirs
                torch.set_num_threads(threads)
                key = {"case": name, "threads": threads, "frozen": options.frozen}
                make = partial(measure, name, options.rounds, options.frozen)
                result = record.keep(key, make, **_versions())
            print(name, threads, json.dumps(result["times as fast"], indent=1))


if __name__ == "__main__":
    main()
