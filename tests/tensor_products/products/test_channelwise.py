"""Channelwise products and convolutions equal e3nn's products, path by path."""

from functools import partial
from typing import Any

import pytest
import torch
from e3nn import o3
from hypothesis import given, settings

from equigeo.graphs import EdgeIndex
from equigeo.tensor_products import ChannelwiseConv, ChannelwiseTensorProduct
from equigeo.testing import tolerance
from tests.draws import double_precision, in_double
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    both_layouts,
    inputs_of,
    irreps,
)
from tests.wrong_inputs import refused

EXAMPLE = ("4x0e+4x1o", "0e+1o+2e", "0e+1o+2e")
ODD = ("3x1e+2x0e+3x1o", "0e+1o+2e", "1o+0e+1e+0o")
"""Terms of the output are in another order than the paths that make them."""


def as_message_passing_builds_it(
    irreps_in1: Any, irreps_in2: Any, targets: Any, *, sort: bool, **options: Any
) -> o3.TensorProduct:
    """Build the product of e3nn inside MACE, where instructions are sorted, or NequIP."""
    kept = [ir for mul, ir in o3.Irreps(targets) if mul > 0]
    made, instructions = [], []
    for i, (mul, ir1) in enumerate(o3.Irreps(irreps_in1)):
        for j, (_, ir2) in enumerate(o3.Irreps(irreps_in2)):
            for ir in ir1 * ir2:
                if ir in kept:
                    instructions.append((i, j, len(made)))
                    made.append((mul, ir))
    out, places, _ = o3.Irreps(made).sort()
    instructions = [(i, j, places[k], "uvu", True) for i, j, k in instructions]
    if sort:
        instructions.sort(key=lambda instruction: instruction[2])
    return o3.TensorProduct(irreps_in1, irreps_in2, out, instructions, **options)


@both_layouts
@pytest.mark.parametrize("order", ["output", "instruction"])
@settings(max_examples=8)
@given(irreps, irreps, irreps)
def test_products_equal_those_of_mace_and_nequip(layout, order, in1, in2, targets):
    options = {"sort": order == "output", "shared_weights": False}
    reference = in_double(as_message_passing_builds_it, in1, in2, targets, **options)
    options = {"weight_order": order, "layout": layout}
    product = in_double(ChannelwiseTensorProduct, in1, in2, targets, **options)
    assert_equals_e3nn(product, reference)


@pytest.mark.parametrize("normalization", [("norm", "path"), ("none", "none")])
def test_normalizations_equal_those_of_e3nn(normalization):
    names = ("irrep_normalization", "path_normalization")
    options = dict(zip(names, normalization, strict=True), sort=True, shared_weights=False)
    reference = in_double(as_message_passing_builds_it, *ODD, **options)
    assert_equals_e3nn(in_double(ChannelwiseTensorProduct, *ODD, *normalization), reference)


@both_layouts
def test_orders_of_weights_differ_by_a_permutation_of_blocks(layout):
    sorted_, plain = (
        in_double(ChannelwiseTensorProduct, *ODD, weight_order=order, layout=layout)
        for order in ("output", "instruction")
    )
    slots = [path.i_out for path in plain.instructions]
    assert [path.i_out for path in sorted_.instructions] == sorted(slots) != slots
    x, y, weight = inputs_of(plain, 4)
    blocks = dict(zip(slots, plain.weight_views(weight), strict=True))
    moved = torch.cat([blocks[slot].flatten(1) for slot in sorted(slots)], dim=1)
    assert_same(sorted_(x, y, moved), plain(x, y, weight))
    assert not torch.allclose(sorted_(x, y, weight), plain(x, y, weight))


@both_layouts
def test_leading_axes_broadcast(layout):
    product = in_double(ChannelwiseTensorProduct, *EXAMPLE, layout=layout)
    x, y, weight = inputs_of(product, 4)
    assert_same(product(x[:1], y, weight)[2], product(x[0], y[2], weight[2]))
    assert_same(product(x, y, weight[0])[3], product(x[3], y[3], weight[0]))


def test_the_second_input_meets_the_table_once_for_all_channels():
    few, many = (ChannelwiseTensorProduct(f"{mul}x1o", "1o", "0e+1e+2e") for mul in (8, 128))
    assert few.multiply_adds() == 3 * 3 * 9 + 8 * 3 * 9
    assert many.multiply_adds() == 3 * 3 * 9 + 128 * 3 * 9


def test_module_owns_shared_weights_and_drops_unreached_targets():
    product = ChannelwiseTensorProduct(*EXAMPLE, shared_weights=True)
    assert isinstance(product.weight, torch.nn.Parameter)
    assert product(torch.ones(2, 16), torch.ones(2, 9)).shape == (2, 84)
    product = ChannelwiseTensorProduct("2x0e", "1o", "5x0e+7x3o")
    assert str(product.irreps_out) == ""
    assert product(torch.ones(3, 2), torch.ones(3, 3)).shape == (3, 0)


def test_unfit_arguments_are_refused():
    message = 'weight_order must be "output" or "instruction"'
    refused(message, ChannelwiseTensorProduct, *EXAMPLE, weight_order="nequip")
    refused("irreps_out: irreps '1' cannot be read", ChannelwiseTensorProduct, "1o", "1o", "1")
    product = ChannelwiseTensorProduct(*EXAMPLE)
    x, y = torch.zeros(3, 16), torch.zeros(3, 9)
    refused(r"weight \(\.\.\., 28\) is missing", product, x, y)
    refused(r"weight must be \(\.\.\., 28\), got \(3, 27\)", product, x, y, torch.zeros(3, 27))
    refused("leading axes must broadcast", product, x, y, torch.zeros(2, 28))


F64 = torch.float64
CLOSE = tolerance(F64, 1000)  # ten edges of a node, ten paths and products of nine components
# As many paths as the model in which a library once had one wrong gradient out of 23.
NEQUIP = ("8x0o+8x0e+8x1o+8x1e+8x2e", "0e+1o+2e", "0o+0e+1o+1e+2o+2e")


OTHER = EdgeIndex.from_edges(torch.zeros(2, 4, dtype=torch.int64), 2, 2)
BEYOND = torch.full((2, 4), 9)


def graph(nodes=9, edges=40, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(nodes - 2, (2, edges), generator=generator)  # two nodes stay alone


def features(conv, nodes, edges, dtype=F64, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(nodes, conv.irreps_in1.dim), (edges, conv.irreps_in2.dim)]
    shapes.append((edges, conv.weight_numel))
    return [torch.randn(*shape, dtype=dtype, generator=generator) for shape in shapes]


def by_messages(conv, x, edge_index, edge_attr, weights):
    """Gather, the product of e3nn and scatter, in mul_ir."""
    instructions = [tuple(i)[:5] for i in conv.instructions]
    irreps = [o3.Irreps(i) for i in (conv.irreps_in1, conv.irreps_in2, conv.irreps_out)]
    product = o3.TensorProduct(*irreps, instructions, shared_weights=False, internal_weights=False)
    messages = product(x[edge_index[0]], edge_attr, weights)
    return x.new_zeros(len(x), messages.shape[1]).index_add(0, edge_index[1], messages)


def assert_same_with_gradients(got, want, inputs, **close):
    """Compare results and two orders of gradients, relative to the largest entry of each."""
    direction = torch.linspace(-1, 1, got.numel(), dtype=F64).view_as(got)
    orders = []
    for out in (got, want):
        first = torch.autograd.grad((out * direction).sum(), inputs, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs)
        orders.append((out, *first, *second))
    for a, b in zip(*orders, strict=True):
        scale = b.detach().abs().max()
        torch.testing.assert_close(a / scale, b / scale, **close)


@pytest.mark.parametrize(
    "irreps",
    [NEQUIP, ("3x0e+5x1o+2x3e", "2x0e+1o+2e", "0e+1o+2e+1e"), ("16x0e+32x1o", "0e+1o", "0e+1o")],
    ids=str,
)
@double_precision()
def test_conv_equals_gather_product_and_scatter_with_gradients(irreps):
    conv, edge_index = ChannelwiseConv(*irreps), graph()
    inputs = [x.requires_grad_() for x in features(conv, 9, 40)]
    x, edge_attr, weights = inputs
    got = conv(x, edge_index, edge_attr, weights)
    want = by_messages(conv, x, edge_index, edge_attr, weights)
    assert_same_with_gradients(got, want, inputs, **CLOSE)


@pytest.mark.parametrize(
    "irreps", ["5x0e+4x1o", "16x0e+32x1o"], ids=["rows are padded", "rows are read in place"]
)
def test_layouts_differ_by_a_permutation(irreps):
    mul_ir, ir_mul = (
        ChannelwiseConv(irreps, "0e+2x1o", "0e+1o+1e", layout=layout) for layout in LAYOUTS
    )
    edge_index = graph()
    inputs = [value.requires_grad_() for value in features(mul_ir, 9, 40)]
    x, edge_attr, weights = inputs
    want = mul_ir.irreps_out.to_layout(mul_ir(x, edge_index, edge_attr, weights), "ir_mul")
    moved = mul_ir.irreps_in1.to_layout(x, "ir_mul")
    got = ir_mul(moved, edge_index, mul_ir.irreps_in2.to_layout(edge_attr, "ir_mul"), weights)
    assert_same_with_gradients(got, want, inputs, **CLOSE)


def test_edges_may_come_in_any_order_or_sorted_once():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = graph()
    x, edge_attr, weights = features(conv, 9, 40)
    want = conv(x, edge_index, edge_attr, weights)
    assert torch.equal(conv(x, EdgeIndex.from_edges(edge_index, 9, 9), edge_attr, weights), want)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2))
    got = conv(x, edge_index[:, order], edge_attr[order], weights[order])
    torch.testing.assert_close(got, want)
    assert not want[7:].any()  # nobody sends to the last two


def test_targets_may_differ_from_sources_and_edges_be_missing():
    conv = ChannelwiseConv("4x0e", "0e", "0e")
    x, edge_attr, weights = features(conv, 3, 2)
    edge_index = torch.tensor([[0, 2], [4, 0]])
    out = conv(x, edge_index, edge_attr, weights, num_nodes=5)
    assert out.shape == (5, 4)
    assert out[[0, 4]].all()
    empty = conv(x, edge_index[:, :0], edge_attr[:0], weights[:0], num_nodes=5)
    assert torch.equal(empty, torch.zeros(5, 4, dtype=F64))


@double_precision()
def test_degrees_and_dtypes_that_the_op_does_not_take_go_by_messages():
    high = ChannelwiseConv("2x7o", "0e+1o", "7o+8e")
    assert high.product.compiled is None
    edge_index = graph()
    x, edge_attr, weights = features(high, 9, 40)
    torch.testing.assert_close(
        high(x, edge_index, edge_attr, weights),
        by_messages(high, x, edge_index, edge_attr, weights),
        **tolerance(torch.float32, terms=40),
    )
    low = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    x, edge_attr, weights = features(low, 9, 40)
    want = low(x, edge_index, edge_attr, weights)
    got = low.bfloat16()(x.bfloat16(), edge_index, edge_attr.bfloat16(), weights.bfloat16())
    torch.testing.assert_close(got.double(), want, **tolerance(torch.bfloat16, terms=40))


def test_shared_weights_belong_to_the_module_and_are_trained():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o", shared_weights=True)
    edge_index = graph()
    x, edge_attr, _ = features(conv, 9, 40, torch.float32)
    conv(x, edge_index, edge_attr).square().sum().backward()
    assert conv.weight.grad.abs().min() > 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edge_index": torch.zeros(2, 4)}, TypeError, "edge_index must be int64"),
        ({"edge_index": torch.zeros(4, 2).long()}, ValueError, r"edge_index must be \(2, edges\)"),
        ({"edge_index": OTHER}, ValueError, "edge_index joins 2 sources"),
        ({"edge_index": BEYOND}, ValueError, r"sources of edge_index must lie in \[0, 5\)"),
        ({"edge_index": torch.full((2, 4), -1)}, ValueError, r"must lie in \[0, 5\)"),
        ({"num_nodes": 1}, ValueError, r"targets of edge_index must lie in \[0, 1\)"),
        ({"num_nodes": -1}, ValueError, "num_targets must not be negative"),
        ({"x": torch.zeros(5, 16, dtype=F64)}, TypeError, "must have the dtype of x"),
        ({"x": torch.zeros(16)}, ValueError, r"x must be \(sources, components\)"),
        ({"edge_attr": torch.zeros(3, 4)}, ValueError, "edge_attr must have 4 rows, got 3"),
        ({"x": torch.zeros(5, 31)}, ValueError, r"x must be \(\.\.\., 16\), got \(5, 31\)"),
        ({"x": None}, TypeError, "x must be a Tensor, got None"),
        ({"edge_attr": torch.zeros(4, 3)}, ValueError, r"edge_attr must be \(\.\.\., 4\)"),
        ({"weights": torch.zeros(4, 15)}, ValueError, r"weights must be \(\.\.\., 16\)"),
        ({"weights": torch.zeros(3, 16)}, ValueError, r"weights must be \(4, 16\), got \(3, 16\)"),
        ({"weights": None}, ValueError, "is missing"),
    ],
    ids=str,
)
def test_bad_input_is_refused_with_one_clear_error(change, error, message):
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x, edge_attr, weights = features(conv, 5, 4, torch.float32)
    good = {"x": x, "edge_index": edge_index, "edge_attr": edge_attr, "weights": weights}
    conv(**good)
    refused(message, conv, error=error, **good | change)


def test_a_bipartite_graph_has_sources_and_targets():
    conv = ChannelwiseConv("4x0e+4x1o", "0e+1o", "0e+1o")
    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2]])
    x, edge_attr, weights = features(conv, 5, 4, torch.float32)
    want = conv(x, edge_index, edge_attr, weights, num_nodes=3)
    target = torch.zeros(3, 7)  # counted, and not read
    for pair in ((x, target), [x, target], (x, None)):
        number = 3 if pair[1] is None else None
        found = conv(pair, edge_index, edge_attr, weights, num_nodes=number)
        torch.testing.assert_close(found, want, rtol=0, atol=0)
    edges = EdgeIndex.from_edges(edge_index, 5, 3)
    found = conv((x, target), edges, edge_attr, weights)
    torch.testing.assert_close(found, want, rtol=0, atol=0)
    found = conv(x, edge_index.numpy(), edge_attr, weights, num_nodes=3)
    torch.testing.assert_close(found, want, rtol=0, atol=0)
    for bad, message in (
        ((x,), "got 1 parts"),
        ((None, x), "must be .sources, targets."),
        ((), "0"),
    ):
        refused(message, conv, bad, edge_index, edge_attr, weights)
    message, rest = "num_nodes must be the 3 rows of targets, got 4", (edge_attr, weights)
    refused(message, conv, (x, target), edge_index, *rest, num_nodes=4)
    refused("5 sources and 3 targets, but x has 5 rows", conv, (x, target[:2]), edges, *rest)


@pytest.mark.parametrize("irreps", [NEQUIP, ("2x7o", "0e+1o", "7o+8e")], ids=["op", "messages"])
def test_radial_layer_inside_equals_one_outside(irreps):
    inside = ChannelwiseConv(*irreps, num_hidden=5).double()
    outside = ChannelwiseConv(*irreps).double()
    edge_index = graph()
    x, edge_attr, _ = features(inside, 9, 40)
    hidden = torch.randn(40, 5, dtype=F64, generator=torch.Generator().manual_seed(3))
    inputs = [value.requires_grad_() for value in (x, edge_attr, hidden)]
    got = inside(x, edge_index, edge_attr, hidden)
    want = outside(x, edge_index, edge_attr, hidden @ inside.radial / 5**0.5)
    assert_same_with_gradients(got, want, [*inputs, inside.radial], **CLOSE)


def test_hidden_features_of_another_size_raise():
    make = partial(ChannelwiseConv, "4x0e", "0e", "0e")
    conv, edge_index = make(num_hidden=5), torch.zeros(2, 3, dtype=torch.int64)
    x, edge_attr, hidden = torch.zeros(2, 4), torch.zeros(3, 1), torch.zeros(3, 5)
    conv(x, edge_index, edge_attr, hidden)
    for wrong in (hidden[:, :4], hidden[:2], hidden[0]):
        refused(r"weights must be \(3, 5\)", conv, x, edge_index, edge_attr, wrong)
    refused("num_hidden must be at least 1, got 0", make, num_hidden=0)
    message = "shared_weights must be False where num_hidden is given"
    refused(message, make, num_hidden=5, shared_weights=True)
