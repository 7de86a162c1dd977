"""What e3nn's ``gate_points`` networks import from libraries that are not needed here."""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.interop.e3nn_modules import float64, random
from tests.interop.library_stand_ins import EDGES, NODES, edges


def scatter(src: Tensor, index: Tensor, dim: int = 0, dim_size: int | None = None) -> Tensor:
    """Sum rows, as ``torch_scatter.scatter`` along the first axis."""
    size = int(index.max()) + 1 if dim_size is None else dim_size
    return src.new_zeros(size, *src.shape[1:]).index_add(dim, index, src)


def radius_graph(x: Tensor, r: float, batch: Tensor, max_num_neighbors: int = 32) -> Tensor:
    """Find neighbours, as ``torch_cluster.radius_graph``."""
    near = (torch.cdist(x, x) < r) & (batch[:, None] == batch)
    return near.fill_diagonal_(False).nonzero().T


def stand_in_scatter(set_module: Callable[[str, Any], object]) -> None:
    """Pretend that both libraries are there."""
    for name, function in (("torch_scatter", scatter), ("torch_cluster", radius_graph)):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)  # PyTorch Geometric asks whether there is one
        setattr(module, function.__name__, function)
        set_module(name, module)


POINTS_CONVOLUTIONS: dict[str, tuple[list[str], tuple[Any, ...]]] = {
    "gate_points_2101": (["sc", "lin1", "lin2"], (3, 1, 8)),
    "gate_points_2102": (["sc", "lin1", "lin2"], (3, 1, 8)),
    "v2103.points_convolution": (["sc", "lin1", "lin2", "lin3"], ([3, 8],)),
    "v2106.points_convolution": (["sc", "lin1", "lin2", "alpha"], ([3, 8],)),
}
"""Inner products by version, and how its radial network is given."""


def points_convolution(
    version: str = "v2106.points_convolution",
    irreps: str = "4x0e+4x0o+2x1o+2x1e",
    node_attr: str = "2x0e",
    edge_attr: str = "0e+1o+2e",
    irreps_out: str = "4x0e+3x1o+2x2e",
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Make a convolution of one of the networks, and arguments for it."""
    with pytest.MonkeyPatch.context() as patch:
        stand_in_scatter(partial(patch.setitem, sys.modules))
        cls = import_module(f"e3nn.nn.models.{version}").Convolution
    _, radial = POINTS_CONVOLUTIONS[version]
    with float64(), torch.random.fork_rng():
        torch.manual_seed(0)
        module = cls(irreps, node_attr, edge_attr, irreps_out, *radial, 3.0)
        for parameter in module.parameters():
            nn.init.normal_(parameter)
    source, target = edges()
    attributes = random(NODES, module.sc.irreps_in2.dim, seed=3)
    features = random(NODES, module.tp.irreps_in1.dim)
    return module, (
        features,
        attributes,
        source,
        target,
        random(EDGES, module.tp.irreps_in2.dim, seed=1),
        random(EDGES, 3, seed=2),
    )
