import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo import tensor_products as tp
from equigeo.graphs import EdgeIndex
from equigeo.ops.runtime.declare import declared, reference_of
from equigeo.testing import tolerance
from tests.ops.path_tables import CHANNELWISE, COPYWISE
from tests.ops.path_tables import MIXED as MIXED_TABLES

pytestmark = pytest.mark.kernels

PRODUCT = tp.ChannelwiseTensorProduct("3x0e+2x1o", "0e+1o", "0e+1o").double()
CONV = tp.ChannelwiseConv("3x0e+2x1o", "0e+1o", "0e+1o").double()
EDGES = EdgeIndex.from_edges(torch.tensor([[0, 2, 1, 1], [1, 0, 1, 3]]), 3, 4)
MIXED = tp.FullyConnectedTensorProduct(
    "3x0e+2x1o", "0e+1o", "0e+1o", shared_weights=False, internal_weights=False
).double()
PAIRS = tp.ElementwiseTensorProduct("3x0e+2x1o", "3x0e+2x1o").double()
CALLS = {
    "channelwise_product": (PRODUCT, PRODUCT, 4),
    "channelwise_conv": (lambda x, y, w: CONV((x, None), EDGES, y, w, num_nodes=4), PRODUCT, 3),
    "copywise_product": (PAIRS, PAIRS, 4),
    "fully_connected_product": (MIXED, MIXED, 4),
}
every_call = pytest.mark.parametrize("name", CALLS)


class Seen(TorchDispatchMode):
    """Names of the ops of this package that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "equigeo":
            self.names.append(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))


def inputs(name: str) -> list[Tensor]:
    _, product, rows = CALLS[name]
    shapes = [(rows, product.irreps_in1.dim), (4, product.irreps_in2.dim)]
    if product.weight_numel:
        shapes.append((4, product.weight_numel))
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def first(name: str, *given: Tensor) -> tuple[Tensor, ...]:
    """Gradients along a direction that depends on the inputs."""
    out = CALLS[name][0](*given)
    return torch.autograd.grad(out.square().sum(), given, create_graph=True)


@every_call
def test_third_derivatives_agree_with_finite_differences(name):
    assert torch.autograd.gradgradcheck(lambda *x: first(name, *x), inputs(name), fast_mode=True)


@every_call
def test_one_op_has_all_second_derivatives(name):
    given = inputs(name)
    out = CALLS[name][0](*given)
    grad = torch.randn_like(out).requires_grad_()
    gradients = torch.autograd.grad(out, given, grad, create_graph=True)
    with Seen() as seen:
        torch.autograd.grad(sum(g.sum() for g in gradients), [grad, *given])
    assert seen.names == [f"{name}_double_backward"]


def flags() -> Iterator[tuple[bool, ...]]:
    yield from ((k & 1 > 0, k & 2 > 0, k & 4 > 0, k & 8 > 0) for k in range(16))


TABLES_OF = {
    "channelwise_product": (CHANNELWISE["odd"], (CHANNELWISE["odd"].ir_mul,)),
    "copywise_product": (COPYWISE["pairs"], ()),
    "fully_connected_product": (MIXED_TABLES["mul_ir"], ()),
}


@pytest.mark.parametrize("wanted", list(flags()), ids=str)
@pytest.mark.parametrize("name", TABLES_OF)
def test_results_that_are_not_wanted_are_empty(name, wanted):
    table, layout = TABLES_OF[name]
    dims = (table.dim_out, table.dim_x, table.dim_y, table.dim_weight)
    point = [torch.randn(5, dim, dtype=torch.float64) for dim in dims]
    rest = (table.paths, table.entries, table.values.double(), *layout)
    tangents = [torch.randn_like(x) for x in point[1:]]
    for given in itertools.product([False, True], repeat=3):
        along = [t if is_given else None for t, is_given in zip(tangents, given, strict=True)]
        arguments = (*point, *along, *rest, *wanted)
        found = declared(f"{name}_double_backward")(*arguments)
        composed = reference_of(f"{name}_double_backward")(*arguments)
        for mine, theirs, at, is_wanted in zip(found, composed, point, wanted, strict=True):
            assert mine.shape == theirs.shape == (at.shape if is_wanted else (0, 0))
            assert_close(mine, theirs, **tolerance(torch.float64, terms=100))


UNWEIGHTED = {
    "channelwise_product": (CHANNELWISE["unweighted"], (CHANNELWISE["unweighted"].ir_mul,)),
    "copywise_product": (COPYWISE["natural"], ()),
}


@pytest.mark.parametrize("name", UNWEIGHTED)
def test_a_tangent_of_missing_weights_is_refused(name):
    table, layout = UNWEIGHTED[name]
    dims = (table.dim_out, table.dim_x, table.dim_y)
    point = [torch.ones(2, dim) for dim in dims]
    rest = (table.paths, table.entries, table.values.float(), *layout, *[True] * 4)
    op = getattr(torch.ops.equigeo, f"{name}_double_backward")
    with pytest.raises(RuntimeError, match="weight_tangent must be None where there are no"):
        op(*point, None, None, None, torch.ones(2, 1), *rest)
