"""Evaluators of products by paths: which op runs, equal results of all, and half precision."""

import copy

import pytest
import torch
from torch.func import functional_call

from equigeo import tensor_products as tp
from equigeo._core.tensors import record_program
from equigeo.ops import kernels_info
from equigeo.tensor_products import (
    ChannelwiseTensorProduct,
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
    TensorProduct,
    evaluators,
)
from equigeo.tensor_products.evaluators import MixedPaths, ScaledPaths
from equigeo.testing import tolerance
from tests.ops.op import Seen
from tests.tensor_products.path_helpers import both_layouts, inputs_of

COPYWISE, MIXED = {"copywise_product"}, {"fully_connected_product"}
IRREPS = ("5x0e+3x1o+1x2e", "2x0e+3x1o", "3x0e+2x1o+7x1e+1x2e+2x3e")
PATHS = [(1, 1, 0, "uuu", True), (1, 1, 1, "uuu", True), (0, 1, 2, "uvuv", True)]
BOTH = ("2x0e+3x1o", "1x0e+3x1o", "3x0e+3x1e+6x1o", PATHS)
EACH_ROW = {"shared_weights": False}
MATCHED = [(0, 0, 0, "uuw", True), (0, 0, 1, "uvw", True)]
SOME = [(0, 0, 0, "uuu", True), (0, 0, 1, "uuu", False)]
PRODUCTS = {
    "all pairs": (FullTensorProduct, IRREPS[:2], {}, COPYWISE),
    "one by one": (ElementwiseTensorProduct, ("5x1o+3x2e", "5x1e+3x1o"), {}, COPYWISE),
    "both, weights of every row": (TensorProduct, BOTH, EACH_ROW, COPYWISE),
    "both, own weights": (TensorProduct, BOTH, {}, COPYWISE),
    "mixed, weights of every row": (FullyConnectedTensorProduct, IRREPS, EACH_ROW, MIXED),
    "mixed, own weights": (FullyConnectedTensorProduct, IRREPS, {}, COPYWISE),
    "matched and mixed": (TensorProduct, ("3x1o", "3x1o", "2x0e+4x2e", MATCHED), {}, COPYWISE),
    "summed without weights": (
        TensorProduct, ("3x1o", "3x1o", "1x0e", [(0, 0, 0, "uuw", False)]), {}, COPYWISE,
    ),
    "degrees beyond registers": (
        FullyConnectedTensorProduct, ("2x7o", "1x1o", "3x6e"), EACH_ROW, set(),
    ),
    "paths with and without weights": (
        TensorProduct, ("3x1o", "3x1o", "3x0e+3x1e", SOME), {}, set(),
    ),
}  # fmt: skip
every_product = pytest.mark.parametrize("name", [*PRODUCTS])


def build(name, layout="mul_ir"):
    kind, args, options, _ = PRODUCTS[name]
    return kind(*args, layout=layout, **options)


def derivatives(product, inputs):
    """The product and its first and second derivatives, along fixed directions."""
    inputs = [value.detach().requires_grad_() for value in inputs]
    leaves = [*inputs, *product.parameters()]
    made = [product(*inputs)]
    for _ in range(2):
        total = sum((x * torch.linspace(-1, 1, x.numel()).to(x).view_as(x)).sum() for x in made)
        made = torch.autograd.grad(total, leaves, create_graph=True, materialize_grads=True)
        yield made
    yield [product(*inputs)]


@every_product
@both_layouts
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_ops_and_the_reference_agree_in_two_orders_of_gradients(name, layout, dtype):
    product = build(name, layout).to(dtype)
    inputs = inputs_of(product, 5, dtype=dtype)
    plain = copy.deepcopy(product)
    plain.compiled = None
    for got, want in zip(derivatives(product, inputs), derivatives(plain, inputs), strict=True):
        for mine, theirs in zip(got, want, strict=True):
            scale = max(1.0, float(theirs.detach().abs().max()))
            torch.testing.assert_close(mine / scale, theirs / scale, **tolerance(dtype, terms=100))


@every_product
@both_layouts
def test_the_op_that_is_named_evaluates_the_product(name, layout):
    product = build(name, layout)
    with Seen() as seen:
        product(*inputs_of(product, 3, dtype=torch.float32))
    assert set(seen.names) == PRODUCTS[name][-1]


@every_product
def test_named_op_evaluates_half_precision_in_single(name):
    product = build(name)
    inputs = inputs_of(product, 3, dtype=torch.float32)
    want = product(*inputs)
    with Seen() as seen:
        got = product.bfloat16()(*(x.bfloat16() for x in inputs))
    assert set(seen.names) == PRODUCTS[name][-1]
    # Both factors, weights and results are rounded by 2^-9: 2^-7 of sums of sizes of up to ten.
    torch.testing.assert_close(got.float(), want, rtol=0, atol=0.08)


@every_product
def test_a_row_does_not_depend_on_its_batch(name):
    product = build(name)
    inputs = inputs_of(product, 75, dtype=torch.float32)
    whole = product(*inputs)
    for part in (slice(0, 0), slice(0, 1), slice(3, 40)):
        some = product(*(x[part] for x in inputs))
        torch.testing.assert_close(some, whole[part], **tolerance(torch.float32, terms=100))


def test_tables_of_a_recorder_are_not_kept():
    product = ChannelwiseTensorProduct("2x0e + 2x1o", "0e + 1o", "2x0e + 2x1o")
    x, y, weight = torch.randn(5, 8), torch.randn(5, 4), torch.randn(5, product.weight_numel)
    names, tables = zip(*product.named_buffers(), strict=True)

    def call(*given):
        return functional_call(product, dict(zip(names, given[3:], strict=True)), given[:3])

    record_program(call, (x, y, weight, *tables))
    copied = copy.deepcopy(product)  # impossible where a recorder's tensors were left behind
    assert torch.equal(copied(x, y, weight), product(x, y, weight))


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


@both_layouts
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_scaled_map_is_the_coupled_one_to_second_gradients(problem, layout, rows):
    ours = product(problem, layout)
    assert isinstance(ours.compiled, ScaledPaths)
    operands = (ours.irreps_in1, ours.irreps_in2, ours.irreps_out)
    coupled = MixedPaths(ours.instructions, operands).double()
    leaves = [*(x.requires_grad_() for x in inputs_of(ours, rows)), ours.weight]
    results = []
    for paths in (ours.compiled, coupled):
        out = paths.evaluate(*leaves, torch.Size([rows]))
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
        results.append([out, *first, *second])
    for got, want in zip(*results, strict=True):
        scale = (float(want.detach().abs().max()) if want.numel() else 1.0) or 1.0
        torch.testing.assert_close(got / scale, want / scale, **tolerance(torch.float64, 64))


def test_matrices_are_made_of_few_rows_with_many_scalars(monkeypatch):
    ours = product("many scalars", "mul_ir")
    x, y = torch.randn(40, ours.irreps_in1.dim).double(), torch.randn(40, 17).double()
    matrices = ours.compiled.matrices
    assert matrices.takes(x, ours.weight) == (kernels_info()["cpu"] is not None)
    want = ours(x, y)
    monkeypatch.setattr(evaluators, "MOST_NUMBERS", 40 * matrices.numbers - 1)
    assert not matrices.takes(x, ours.weight)
    torch.testing.assert_close(ours(x, y), want, **tolerance(torch.float64, 17 * 5))
    monkeypatch.undo()
    assert not product("scalars", "mul_ir").compiled.matrices.takes(x[:, :17], ours.weight)
    assert not matrices.takes(x.bfloat16(), ours.weight.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert not matrices.takes(x, ours.weight)


def test_scaled_map_needs_no_kernel_and_other_inputs_are_coupled():
    ours = product("scalar", "mul_ir")
    x, y = torch.randn(4, ours.irreps_in1.dim).double(), torch.randn(4, 1).double()
    want = ours(x, y)
    ours.compiled = None
    torch.testing.assert_close(ours(x, y), want)
    for second in ("0e+1o", "1o"):
        ours = FullyConnectedTensorProduct("2x0e+2x1o", second, "2x0e+2x1o")
        assert not isinstance(ours.compiled, ScaledPaths)


SHARED = {"shared_weights": True}
LAYERS = {
    "fully connected": lambda: tp.FullyConnectedTensorProduct("8x0e+4x1o", "0e+1o", "4x0e+4x1o"),
    "full": lambda: tp.FullTensorProduct("3x0e+2x1o", "0e+1o"),
    "square": lambda: tp.TensorSquare("4x0e+4x1o", "4x0e+4x1e"),
    "channelwise": lambda: tp.ChannelwiseTensorProduct("4x0e+4x1o", "0e+1o", "4x0e+4x1o", **SHARED),
    "matrix": lambda: tp.MatrixTensorProduct(2, 2, 2),
    "vector signal": lambda: tp.VectorSignalTensorProduct(2, 2, 2),
    "gaunt by paths": lambda: tp.GauntTensorProduct(2, 2, 2, method="paths"),
    "gaunt by grids": lambda: tp.GauntTensorProduct(2, 2, 2),
    "curl": lambda: tp.CurlTensorProduct(2, 2, 2, method="paths"),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_results_in_bfloat16_are_those_of_single_precision_rounded_once(make):
    layer, draw = make().bfloat16(), torch.Generator().manual_seed(0)
    square = isinstance(layer, tp.TensorSquare)
    reps = [layer.irreps_in1] if square else [layer.irreps_in1, layer.irreps_in2]
    inputs = [torch.randn(20, rep.dim, generator=draw).bfloat16() for rep in reps]
    got = layer(*inputs)
    want = copy.deepcopy(layer).float()(*(x.float() for x in inputs))
    assert got.dtype == torch.bfloat16
    # The last bit is decided otherwise where float32 itself rounds otherwise.
    lost = 1e-5 * float(want.detach().abs().max())
    torch.testing.assert_close(got.float(), want, rtol=torch.finfo(got.dtype).eps, atol=lost)
