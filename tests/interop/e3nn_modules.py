"""Modules of e3nn in float64, and inputs for them."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from equigeo.interop import AccelerationReport, accelerate
from equigeo.interop.optional import require_e3nn
from tests.draws import double_precision, random

o3 = require_e3nn()

# Every connection, with and without weights, alone and with others in one output.
CONNECTIONS = [
    (0, 0, 0, "uvw", True, 2.0),
    (0, 0, 0, "uuw", True),
    (1, 0, 1, "uvu", True, 0.5),
    (1, 1, 1, "uuu", False, 3.0),
    (1, 2, 2, "uvuv", True),
    (0, 1, 3, "uvv", True),
    (0, 0, 4, "uuu", True),
    (0, 0, 4, "uvu<v", True),
    (0, 0, 5, "u<vw", True),
]


def mixed(**options: Any) -> Any:
    out = "4x0e+3x1o+6x1o+3x1e+3x0e+2x0e+2x2o"
    return o3.TensorProduct("3x0e+3x1o", "3x0e+3x1e+2x2e", out, CONNECTIONS, **options)


def uvu(**options: Any) -> Any:
    paths = [(0, 0, 0, "uvu", True), (0, 1, 2, "uvu", True), (1, 1, 1, "uvu", True)]
    paths += [(1, 0, 2, "uvu", True), (1, 1, 3, "uvu", True), (1, 1, 4, "uvu", True)]
    out = "4x0e+4x0e+4x1o+4x1e+4x2e"
    return o3.TensorProduct("4x0e+4x1o", "0e+1o", out, paths, **options)


FULLY = ("2x0e+3x1o+2x1e", "4x0e+2x1o+1x2e", "3x0e+2x1o+2x1e+1x2o")

BUILDERS: dict[str, Callable[[], Any]] = {
    "all connections": mixed,
    "norm, path": lambda: mixed(irrep_normalization="norm", path_normalization="path"),
    "none, none": lambda: mixed(irrep_normalization="none", path_normalization="none"),
    "variances": lambda: mixed(
        in1_var=[0.5, 2.0], in2_var=[1.0, 3.0, 0.25], out_var=[1.0, 2.0, 3.0, 1.0, 2.0, 0.5, 1.0]
    ),
    "channelwise": lambda: uvu(shared_weights=False, internal_weights=False),
    "external": lambda: uvu(internal_weights=False),
    "no paths": lambda: o3.TensorProduct("2x0e", "1x1o", "3x2e", []),
    "fully connected": lambda: o3.FullyConnectedTensorProduct(*FULLY),
    "fully connected, norm, path": lambda: o3.FullyConnectedTensorProduct(
        *FULLY, irrep_normalization="norm", path_normalization="path"
    ),
    "fully connected, variances": lambda: o3.FullyConnectedTensorProduct(
        *FULLY, in1_var=[2.0, 1.0, 1.0]
    ),
    "full": lambda: o3.FullTensorProduct("2x0e+1o+2x0e", "0o+2x1o+1x2e"),
    "full, filter": lambda: o3.FullTensorProduct(
        "2x0e+1o", "0o+2x1o", ["1e", "0e"], irrep_normalization="norm"
    ),
    "elementwise": lambda: o3.ElementwiseTensorProduct("5x1o + 5x1e", "10x1e"),
    "elementwise, filter": lambda: o3.ElementwiseTensorProduct(
        "5x1o + 5x2e", "10x1e", ["0e", "1o"], irrep_normalization="norm"
    ),
    "square": lambda: o3.TensorSquare("2x0e+3x1o+2x1e"),
    "square, filter": lambda: o3.TensorSquare("2x1o+1x2e", None, ["0e", "1o", "2e"], "norm"),
    "square, connected": lambda: o3.TensorSquare("2x0e+3x1o", "4x0e+1o+2x2e"),
    "square, external": lambda: o3.TensorSquare("3x1o+2e", "4x0e+2x2e", shared_weights=False),
    "linear": lambda: o3.Linear("4x0e+3x1o+2x0e", "5x0e+2x1o+1x2e+3x0e"),
    "linear, path": lambda: o3.Linear("4x0e+3x1o+2x0e", "5x0e+2x1o", path_normalization="path"),
    "linear, biases": lambda: o3.Linear("4x0e+3x1o+2x0e", "5x0e+2x1o+3x0e", biases=True),
    "linear, instructions": lambda: o3.Linear(
        "4x0e+3x0e", "4x0e+3x0e", instructions=[(1, 1), (0, 0)]
    ),
    "linear, external": lambda: o3.Linear("4x0e+3x1o", "5x0e+2x1o", shared_weights=False),
    "harmonics": lambda: o3.SphericalHarmonics("0e+1o+2e+3o+4e", True, "integral"),
    "harmonics, unsorted": lambda: o3.SphericalHarmonics([3, 1, 1, 0], False, "norm"),
    "harmonics, copies": lambda: o3.SphericalHarmonics("2x1o+0e+1o", False, "component"),
    "harmonics, pseudovector": lambda: o3.SphericalHarmonics("0e+1e+2e", False, "component"),
}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw parameters in float64, and leave the generator as it was."""
    with double_precision(), torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def build(name: str) -> Any:
    with seeded(1):
        module = BUILDERS[name]()
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter)
        return module


def accelerated_copy(theirs: nn.Module) -> tuple[Any, AccelerationReport]:
    ours = copy.deepcopy(theirs)
    return ours, accelerate(ours)


def inputs(module: Any, batch: int = 7) -> list[torch.Tensor]:
    """Arguments of a module of either library: features, and weights where they are external."""
    names = ("irreps_in", "irreps_in1", "irreps_in2")
    if any(cls.__name__ == "TensorSquare" for cls in type(module).__mro__):
        names = ("irreps_in1",)
    dims = [getattr(module, name).dim for name in names if hasattr(module, name)]
    values = [random(batch, dim, seed=dim) for dim in dims]
    if getattr(module, "weight_numel", 0) and not module.internal_weights:
        leading = () if module.shared_weights else (batch,)
        values.append(random(*leading, module.weight_numel, seed=1))
    return values


def derivatives(module: Any, arguments: Any) -> list[torch.Tensor]:
    """Values, and first and second gradients to all floating arguments and parameters."""
    leaves = [a for a in arguments if a.is_floating_point()] + list(module.parameters())
    for leaf in leaves:
        leaf.requires_grad_(True)
    out = module(*arguments)
    first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
    energy = sum((g * random(*g.shape, seed=7)).sum() for g in first)
    second = torch.autograd.grad(energy, leaves, allow_unused=True, materialize_grads=True)
    return [out, *first, *second]


def assert_same_derivatives(ours: Any, theirs: Any, arguments: Any, **close: float) -> None:
    """Compare values, gradients and second gradients of two modules."""
    found, expected = derivatives(ours, arguments), derivatives(theirs, arguments)
    for got, want in zip(found, expected, strict=True):
        torch.testing.assert_close(got, want, **close)
