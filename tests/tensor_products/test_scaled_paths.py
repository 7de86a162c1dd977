"""Products with scalars: the same map as by paths that couple."""

import pytest
import torch

from equigeo.ops import kernels_info
from equigeo.tensor_products import FullyConnectedTensorProduct
from equigeo.tensor_products import evaluators as row_matrices
from equigeo.tensor_products.evaluators import MixedPaths, ScaledPaths
from equigeo.testing import tolerance
from tests.tensor_products.path_helpers import LAYOUTS

PROBLEMS = {
    "scalar": ("5x0e+3x1o+1x2e+2x1o", "0e", "3x0e+2x1o+4x2e+3x1o+0x1o"),
    "pseudoscalar": ("5x0e+3x1o+1x2e", "0o", "3x0o+2x1e+4x2o"),
    "missing": ("5x0e+0x1o", "0e", "2x1o+3x0e"),
    "scalars": ("5x0e+3x1o+1x2e+2x1o", "3x0e", "3x0e+2x1o+4x2e+3x1o+0x1o"),
    "few scalars": ("5x0e+3x1o", "2x0e", "9x0e+8x1o"),
    "many scalars": ("5x0e+3x1o+1x2e+2x1o", "17x0e", "3x0e+2x1o+4x2e+3x1o+0x1o"),
    "many scalars in terms": ("2x0e+3x1o+2x1o", "16x0e+18x0o+0x0e", "3x0e+2x1o+4x1e+1x0o"),
    "terms of scalars": ("2x0e+3x1o+2x1o", "2x0e+0o+0x0e+0e", "3x0e+2x1o+4x1e+1x0o"),
}


def product(problem, layout):
    return FullyConnectedTensorProduct(*PROBLEMS[problem], layout=layout).double()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_a_scaled_map_is_the_coupled_one_to_second_gradients(problem, layout, rows):
    ours = product(problem, layout)
    assert isinstance(ours.compiled, ScaledPaths)
    operands = (ours.irreps_in1, ours.irreps_in2, ours.irreps_out)
    coupled = MixedPaths(ours.instructions, operands).double()
    generator = torch.Generator().manual_seed(0)
    dims = (ours.irreps_in1.dim, ours.irreps_in2.dim)
    leaves = [
        torch.randn(rows, dim, generator=generator, dtype=torch.float64).requires_grad_()
        for dim in dims
    ] + [ours.weight]
    results = []
    for paths in (ours.compiled, coupled):
        out = paths.evaluate(*leaves, torch.Size([rows]))
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
        results.append([out, *first, *second])
    for got, want in zip(*results, strict=True):
        scale = float(want.detach().abs().max()) if want.numel() else 1.0
        bound = tolerance(torch.float64, 64)
        torch.testing.assert_close(got / (scale or 1.0), want / (scale or 1.0), **bound)


def test_matrices_are_made_of_few_rows_with_many_scalars(monkeypatch):
    ours = product("many scalars", "mul_ir")
    x, y = torch.randn(40, ours.irreps_in1.dim).double(), torch.randn(40, 17).double()
    matrices = ours.compiled.matrices
    assert matrices.takes(x, ours.weight) == (kernels_info()["cpu"] is not None)
    want = ours(x, y)
    monkeypatch.setattr(row_matrices, "MOST_NUMBERS", 40 * matrices.numbers - 1)
    assert not matrices.takes(x, ours.weight)
    torch.testing.assert_close(ours(x, y), want, **tolerance(torch.float64, 17 * 5))
    monkeypatch.undo()
    assert not product("scalars", "mul_ir").compiled.matrices.takes(x[:, :17], ours.weight)
    assert not matrices.takes(x.bfloat16(), ours.weight.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert not matrices.takes(x, ours.weight)


def test_it_is_evaluated_without_coupling_where_kernels_are_missing_too():
    ours = product("scalar", "mul_ir")
    x, y = torch.randn(4, ours.irreps_in1.dim).double(), torch.randn(4, 1).double()
    want = ours(x, y)
    ours.compiled = None
    torch.testing.assert_close(ours(x, y), want)


@pytest.mark.parametrize("second", ["0e+1o", "1o"])
def test_other_second_inputs_are_coupled(second):
    ours = FullyConnectedTensorProduct("2x0e+2x1o", second, "2x0e+2x1o")
    assert not isinstance(ours.compiled, ScaledPaths)
