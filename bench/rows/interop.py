"""Models of other libraries accelerated, beside the same models as they are.

Each library has an environment of its own, in which ``make bench-mace`` and its like run these
rows. Molecules are small: 36 atoms, where a call costs as much as the work in it.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from bench.peers import AS_IT_IS, Layer, Library, drawn, jit_mode, with_compiled
from bench.products import random_graph
from bench.row import OURS, Problem, Row, library, needs, require
from equigeo.interop import accelerate
from equigeo.interop.optional import require_e3nn
from tests.interop.interatomic import (
    MODELS,
    SPACING,
    Atoms,
    mace,
    mace_hessian,
    mace_hessian_of_copies,
)

MOLECULES, TRAINED_MOLECULES, CELLS = 4, 32, 3
ELEMENTS = ("C", "H", "O")
OPTIONS: dict[str, dict[str, Any]] = {"nequip": {"num_features": 32}, "mace": {}}
IRREPS, SPHERE, RADIAL = "64x0e+16x1o", "0e+1o", 32  # of the tests of e3tools
NEIGHBOURS = 16
ENVIRONMENTS = {"allegro": "nequip"}  # of libraries in that of another
NETWORKS = ("gate_points_2101", "v2103", "v2106")


def accelerated(model: nn.Module) -> nn.Module:
    found = copy.deepcopy(model)
    report = accelerate(found)
    if report.kept:
        raise RuntimeError(f"every module must be replaced, got {report}")
    return found


def two_of(name: str, frozen: bool = False, **options: Any) -> list[nn.Module]:
    """A model as it is, and accelerated; MACE's cannot be copied."""
    build, _ = MODELS[name]
    models = [build(torch.float32, **options) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    accelerate(models[1], frozen=frozen)
    return models


def molecular(name: str) -> Callable[[], list[nn.Module]]:
    return partial(two_of, name, elements=ELEMENTS, **OPTIONS[name])


def beside(
    make: Callable[[], list[nn.Module]], call: Callable[[nn.Module], Any], module: str
) -> Problem:
    """Calls of an accelerated model and of the model as it is."""
    require(module, f"make bench-{ENVIRONMENTS.get(module, module)}")
    before, after = make()
    calls = [torch.enable_grad()(partial(call, model)) for model in (after, before)]
    return Problem(library(calls[0], []), {module: library(calls[1], [], wanted=OURS)})


def together(energy: Tensor, forces: Tensor) -> Tensor:
    """Energy and forces as one vector: energies of atoms may cancel."""
    return torch.cat([energy.reshape(-1), forces.flatten()]).detach()


def energy_and_forces(name: str) -> Problem:
    _, evaluate = MODELS[name]
    atoms = Atoms.ethanol(MOLECULES, torch.float32)
    return beside(molecular(name), lambda m: together(*evaluate(m, atoms)), name)


def crystal(name: str, frozen: bool) -> Problem:
    """Energy and forces of 108 atoms of copper."""
    _, evaluate = MODELS[name]
    atoms = Atoms.copper(CELLS, torch.float32)
    return beside(partial(two_of, name, frozen), lambda m: evaluate(m, atoms), name)


def calculator(made: Any, numbers: tuple[int, int] = (29, 29)) -> Library:
    """Energy, forces and stress of 108 atoms by a calculator for ASE."""
    from ase.build import bulk

    atoms = bulk("Cu", "fcc", SPACING, cubic=True).repeat(CELLS)
    atoms.numbers[::2], atoms.numbers[1::2] = numbers
    atoms.rattle(0.05, seed=0)

    def call() -> tuple[Tensor, ...]:
        made.calculate(atoms, ["energy", "forces", "stress"], ["positions"])
        found = (made.results[key] for key in ("energy", "forces", "stress"))
        return tuple(torch.as_tensor(x, dtype=torch.float32) for x in found)

    return library(torch.enable_grad()(call), [], wanted=OURS)


def pretrained(name: str) -> Problem:
    """A model of SevenNet frozen, beside itself."""
    require("sevenn", "make bench-sevenn")
    from sevenn.calculator import SevenNetCalculator

    before, after = (SevenNetCalculator(name, device="cpu") for _ in range(2))
    accelerate(after.model, frozen=True)
    return Problem(replace(calculator(after), wanted=None), {"sevenn": calculator(before)})


def calculators() -> Problem:
    """A model of MACE frozen, beside itself and symmetrix-xl, which compiles a library for it."""
    require("mace", "make bench-mace")
    from mace.calculators import MACECalculator
    from mace.modules import ScaleShiftMACE

    options: dict[str, Any] = {"atomic_inter_scale": 1.0, "atomic_inter_shift": 0.0}
    with mock.patch("mace.modules.MACE", ScaleShiftMACE):
        exact = mace(torch.float64, elements=("Cu", "Zn"), **options)
    models = [copy.deepcopy(exact).float() for _ in range(2)]
    accelerate(models[1], frozen=True)
    made = [MACECalculator(models=[m], device="cpu", default_dtype="float32") for m in models]
    before, after = (calculator(each, (30, 29)) for each in made)
    other = needs("symmetrix", "make bench-mace", partial(symmetrix, exact))
    return Problem(replace(after, wanted=None), {"mace": before, "symmetrix-xl": other})


def symmetrix(model: nn.Module) -> Library:
    from symmetrix.calculator import Symmetrix
    from symmetrix.cli.extract_mace import main as extract

    with TemporaryDirectory() as folder:
        given, made = (str(Path(folder, name)) for name in ("model.pt", "model.json"))
        torch.save(model, given)
        with mock.patch.object(sys, "argv", ["", "-m", given, "-o", made]):
            extract()
        return calculator(Symmetrix(made, dtype="float32"), (30, 29))


def training_step(name: str) -> Problem:
    """Forces and gradients by all parameters of a loss on energy and forces."""
    _, evaluate = MODELS[name]
    atoms = Atoms.ethanol(TRAINED_MOLECULES, torch.float32)

    def step(model: nn.Module) -> tuple[Tensor, ...]:
        energy, forces = evaluate(model.train(), atoms)
        loss = (energy - 1).square() / TRAINED_MOLECULES + forces.square().mean()
        found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        # An accelerated layer may keep its parameters in another order.
        return forces, torch.cat([x.flatten() for x in found if x is not None]).sort().values

    return beside(molecular(name), step, name)


def hessian() -> Problem:
    """Second derivatives of one molecule, forward over reverse, beside MACE's own loop."""
    require("mace", "make bench-mace")
    atoms, (before, after) = Atoms.ethanol(1, torch.float32), molecular("mace")()
    loop = library(torch.enable_grad()(lambda: mace_hessian(before, atoms)), [], wanted=OURS)
    ours = library(torch.enable_grad()(lambda: mace_hessian_of_copies(after, atoms)), [])
    return Problem(ours, {"mace": loop})


def example(name: str) -> Problem:
    """Networks of e3nn's examples as they are there: 50 copies of each irrep, three layers."""
    o3 = require_e3nn()
    from tests.interop.library_stand_ins import stand_in_scatter  # which imports e3nn

    stand_in_scatter(sys.modules.__setitem__)
    atoms = Atoms.ethanol(MOLECULES, torch.float32)
    options: dict[str, Any] = {"max_radius": 4.75, "num_neighbors": 8.0, "num_nodes": 9.0}
    kinds = nn.functional.one_hot(atoms.kinds, 3).float()
    ones = torch.ones(len(kinds), 1)
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

    def evaluate(model: nn.Module) -> Tensor:
        positions = atoms.positions.clone().requires_grad_()
        energy = model({"pos": positions, **data}).sum()
        return together(energy, -torch.autograd.grad(energy, positions)[0])

    return beside(lambda: [model, accelerated(model)], evaluate, "e3nn")


def conv(separable: bool) -> nn.Module:
    """A gated convolution with a skip, products with all weights or channel by channel."""
    from e3tools.nn import ConvBlock, SeparableConvBlock

    return (SeparableConvBlock if separable else ConvBlock)(IRREPS, IRREPS, SPHERE, RADIAL)


def transformer(separable: bool) -> nn.Module:
    """Attention of four heads whose keys and values are convolutions, norms and a perceptron."""
    from e3nn.o3 import Irreps
    from e3tools.nn import Conv, SeparableConv, TransformerBlock

    irreps, kind = Irreps(IRREPS), SeparableConv if separable else Conv
    return TransformerBlock(irreps, irreps, Irreps(SPHERE), RADIAL, num_heads=4, conv=kind)


BLOCKS: dict[str, Callable[[], nn.Module]] = {
    "ConvBlock": partial(conv, False),
    "SeparableConvBlock": partial(conv, True),
    "TransformerBlock": partial(transformer, False),
    "TransformerBlock, separable": partial(transformer, True),
}


def built(name: str, mode: str = "script") -> nn.Module:
    """A block of e3tools with the weights of this name, which no mode of e3nn changes."""
    torch.manual_seed(0)
    with jit_mode(mode):
        return BLOCKS[name]().eval().requires_grad_(False)


def block(name: str, nodes: int) -> Problem:
    """Both as they are and compiled; compiled, products of e3nn are those that are not scripted."""
    require("e3tools", "make bench-e3tools")
    graph = random_graph(nodes, NEIGHBOURS)
    pairs = torch.stack([graph.source, graph.target])
    as_it_is, plain = built(name), built(name, "eager")
    plain.load_state_dict(as_it_is.state_dict(), strict=False)

    def layer(block: nn.Module) -> Layer:
        return lambda x, edge, sphere: block(x, pairs, edge, sphere)

    inputs = drawn((nodes, 112), (graph.num_edges, RADIAL), (graph.num_edges, 4))
    modes = {AS_IT_IS: layer(as_it_is), "compile": with_compiled(layer(plain))["compile"]}
    ours = Library(with_compiled(layer(accelerated(as_it_is))), inputs)
    return Problem(ours, {"e3tools": Library(modes, inputs, OURS)})


def rows() -> list[Row]:
    makes: dict[str, Callable[[], Problem]] = {}
    for name in OPTIONS:
        makes[f"{name}, four ethanol molecules"] = partial(energy_and_forces, name)
        makes[f"{name}, training step, 32 molecules"] = partial(training_step, name)
    makes |= {f"e3nn {name}": partial(example, name) for name in NETWORKS}
    makes["mace, Hessian of 9 atoms"] = hessian
    for name in MODELS:
        makes[f"{name}, 108 atoms of copper"] = partial(crystal, name, frozen=False)
        makes[f"{name}, 108 atoms of copper, frozen"] = partial(crystal, name, frozen=True)
    for name in ("7net-0", "7net-l3i5"):
        makes[f"sevenn {name}, 108 atoms with stress, frozen"] = partial(pretrained, name)
    makes["mace, 108 atoms with stress, frozen, calculators"] = calculators
    found = [(f"{name}", make, ("forward",)) for name, make in makes.items()]
    found += [
        (f"e3tools {name}, {nodes} nodes", partial(block, name, nodes), ("forward", "both"))
        for name in BLOCKS
        for nodes in (8, 128)
    ]
    small = "Compiled, calls of ops take longer on few edges than code generated for e3nn."
    names = (re.split("[ ,]", problem)[0] for problem, _, _ in found)
    return [
        Row(
            "interop.accelerate", *row, why=small if name == "e3tools" else "",
            libraries=() if name == "e3nn" else (ENVIRONMENTS.get(name, name),),
        )
        for row, name in zip(found, names, strict=True)
    ]  # fmt: skip
