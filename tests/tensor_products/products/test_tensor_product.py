"""Products by instructions equal those of e3nn, and so do the modules that hold one."""

import copy

import pytest
import torch
from e3nn import o3
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo.graphs import EdgeIndex
from equigeo.reps import Irreps
from equigeo.tensor_products import (
    ChannelwiseConv,
    ChannelwiseTensorProduct,
    Instruction,
    PathProduct,
    Product,
    TensorProduct,
    TensorSquare,
)
from equigeo.tensor_products.products.path_product import HeldProduct
from equigeo.tensor_products.signals.signal_product import SignalProduct
from equigeo.testing import tolerance
from tests.draws import in_double, random
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    both_layouts,
    inputs_of,
    path_arguments,
)
from tests.wrong_inputs import refused

ALL_MODES = (
    "3x0e+2x1o+3x1e",
    "3x1o+2x0e",
    "5x0e+3x1o+2x1o+6x1e+3x1e+2x0o",
    [
        (1, 0, 0, "uvw", True, 2.0),
        (0, 0, 1, "uvu", True),
        (0, 0, 1, "uvv", True),
        (0, 0, 1, "uuu", True),
        (0, 1, 0, "uvw", True),
        (1, 1, 2, "uvu", False),
        (1, 1, 2, "uvv", False, 0.5),
        (1, 0, 3, "uvuv", True),
        (0, 1, 0, "uvw", True),
        (2, 0, 1, "uvu<v", True),
        (2, 0, 1, "uvu<v", False),
        (2, 0, 1, "uuu", False),
        (2, 0, 1, "u<vw", True),
        (2, 0, 5, "uuw", True),
    ],
)
"""Every connection, into shared terms; the fifth term of the output is never reached."""


@given(path_arguments())
def test_any_instructions_give_what_e3nn_gives(arguments):
    args, options = arguments
    reference = in_double(o3.TensorProduct, *args, **options)
    for layout in LAYOUTS:
        assert_equals_e3nn(in_double(TensorProduct, *args, **options, layout=layout), reference)


@both_layouts
@pytest.mark.parametrize("shared", [True, False])
def test_all_connections_together_give_what_e3nn_gives(layout, shared):
    reference = in_double(o3.TensorProduct, *ALL_MODES, shared_weights=shared)
    assert_equals_e3nn(
        in_double(TensorProduct, *ALL_MODES, shared_weights=shared, layout=layout), reference
    )


def test_a_term_that_no_path_reaches_is_zero_and_masked():
    product = in_double(TensorProduct, *ALL_MODES)
    place = product.irreps_out.slices()[4]
    z = product(*inputs_of(product, 3))
    assert not z[:, place].any()
    assert not product.output_mask[place].any()
    assert z[:, product.output_mask.bool()].all()
    assert int(product.output_mask.sum()) == product.irreps_out.dim - 9


@both_layouts
@pytest.mark.parametrize("shared", [True, False])
def test_leading_axes_broadcast(layout, shared):
    product = in_double(TensorProduct, *ALL_MODES, layout=layout, shared_weights=shared)
    x, y, *weight = inputs_of(product, 4)
    columns = [value[:, None] for value in weight]
    table = product(x[:, None], y[None], *columns)
    assert table.shape == (4, 4, product.irreps_out.dim)
    for n in range(4):
        rows = [value[n] for value in weight]
        assert_same(table[n], product(x[n], y, *rows))
        assert_same(table[n, 1], product(x[n], y[1], *rows))


class LargestTensor(TorchDispatchMode):
    numel = 0  # of the largest result of any operation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numel = max(self.numel, result.numel())
        return result


@both_layouts
@pytest.mark.parametrize("mode", ["uvw", "uvu", "uvuv", "u<vw"])
def test_no_product_of_all_channels_and_all_components_arises(mode, layout):
    mul, batch = 8, 16
    mul_out = {"uvuv": mul * mul}.get(mode, mul)
    path = [(0, 0, 0, mode, True)]
    product = TensorProduct(f"{mul}x3o", f"{mul}x3o", f"{mul_out}x1e", path, layout=layout).double()
    inputs = inputs_of(product, batch)
    with LargestTensor() as largest:
        product(*inputs)
    assert largest.numel <= batch * mul * 7 * 7
    assert largest.numel < batch * mul * mul * 7 * 7 / 4


def test_paths_from_one_pair_of_terms_share_a_coupling():
    paths = [(0, 0, l, "uvu", True) for l in range(3)]
    product = TensorProduct("8x1o", "1o", "8x0e+8x1e+8x2e", paths)
    assert len(product.tables.state_dict()) == 0
    assert product.multiply_adds() == 3 * 3 * 9 + 8 * 3 * 9


@pytest.mark.parametrize("shared", [True, False])
def test_the_state_is_that_of_e3nn(shared):
    reference = in_double(o3.TensorProduct, *ALL_MODES, shared_weights=shared)
    product = in_double(TensorProduct, *ALL_MODES, shared_weights=shared)
    state = product.state_dict()
    assert [*state] == ["weight", "output_mask"]
    assert {name: state[name].shape for name in state} == {
        name: reference.state_dict()[name].shape for name in state
    }
    model = torch.nn.ModuleDict({"product": product})
    model.load_state_dict(torch.nn.ModuleDict({"product": reference}).state_dict(), strict=True)
    unfit = {**reference.state_dict(), "other": torch.zeros(1)}
    refused("Unexpected key", product.load_state_dict, unfit, error=RuntimeError)
    missing = reference.load_state_dict(state, strict=False).missing_keys
    assert all(name.startswith("_compiled_main_") for name in missing)


def test_simple_state_loads_strictly_both_ways():
    args = ("2x0e+3x1o", "0e", "2x0e+1x1o", [(0, 0, 0, "uvw", True), (1, 0, 1, "uvw", True)])
    reference, product = o3.TensorProduct(*args), TensorProduct(*args)
    reference.load_state_dict(product.state_dict(), strict=True)
    assert reference.weight.equal(product.weight)


def test_views_of_weights_are_those_of_e3nn():
    reference = in_double(o3.TensorProduct, *ALL_MODES)
    product = in_double(TensorProduct, *ALL_MODES)
    product.load_state_dict(reference.state_dict())
    views = [*product.weight_views()]
    for view, want in zip(views, reference.weight_views(), strict=True):
        assert view.equal(want)
    assert product.weight_view_for_instruction(7).equal(views[5])
    views[0].detach().zero_()
    assert not product.weight[: views[0].numel()].any()
    rows = random(3, product.weight_numel)
    free = in_double(TensorProduct, *ALL_MODES, shared_weights=False)
    assert free.weight_view_for_instruction(0, rows).shape == (3, 2, 3, 5)
    refused(r"instructions\[5\] has no weights", product.weight_view_for_instruction, 5)


def test_given_weights_replace_those_of_the_module():
    product = in_double(TensorProduct, *ALL_MODES)
    x, y = inputs_of(product, 3)
    assert_same(product(x, y, product.weight.detach()), product(x, y).detach())
    assert not product(x, y, 0 * product.weight)[:, product.irreps_out.slices()[0]].any()


def test_instructions_of_other_forms_are_read():
    tuples = [(0, 0, 0, "uvw", True, 4.0), (0, 0, 0, "uvw", True)]
    named = [o3._tensor_product._instruction.Instruction(0, 0, 0, "uvw", True, 4.0, (2, 2, 2))]
    own = [Instruction(0, 0, 0, "uvw", True)]
    product = TensorProduct("2x1o", "2x1o", "2x1e", tuples)
    assert TensorProduct("2x1o", "2x1o", "2x1e", named + own).instructions == product.instructions
    assert [path.path_shape for path in product.instructions] == [(2, 2, 2)] * 2
    assert tuple(product.instructions[0])[:5] == tuples[0][:5]
    x, y = o3.Irreps("2x0e+1o"), o3.Irreps("1o")
    product = TensorProduct(x, y, [(2, (1, -1))], [(0, 0, 0, "uvw", True)])
    assert product.irreps_in1 == Irreps("2x0e+1o")


UVW, COLUMNS = (0, 0, 0, "uvw", True), Irreps("1o", "ir_mul")


@pytest.mark.parametrize(
    ("operands", "instruction", "message"),
    [
        (("1o", "1o", "3e"), UVW, r"asks for 3e, but 1o x 1o makes 0e, 1e, 2e"),
        (("1o", "1o", "1o"), UVW, r"instructions\[0\] asks for 1o"),
        (("2x1o", "1o", "3x1e"), (0, 0, 0, "uvu", True), "uvu needs mul_out = mul_in1"),
        (("2x1o", "1o", "2x1e"), (0, 0, 0, "uvv", True), "uvv needs mul_out = mul_in2"),
        (("2x1o", "1o", "2x1e"), (0, 0, 0, "uuu", True), "uuu needs mul_in1 = mul_in2"),
        (("2x1o", "2x1o", "2x1e"), (0, 0, 0, "uuw", False), "mul_out = 1 without weights"),
        (("2x1o", "2x1o", "2x1e"), (0, 0, 0, "uvuv", False), r"got .* 2 x 2 -> 2 without"),
        (("3x1o", "3x1o", "4x1e"), (0, 0, 0, "uvu<v", False), "uvu<v needs"),
        (("3x1o", "3x1o", "3x1e"), (0, 0, 0, "u<vw", False), "u<vw needs weights"),
        (("1o", "1o", "1e"), (0, 0, 0, "uvw", False), "uvw needs weights"),
        (("1o", "1o", "1e"), (0, 0, 0, "wvu", True), r"connection of \['uvw'.*got 'wvu'"),
        (("1o", "1o", "1e"), (1, 0, 0, "uvw", True), "term 1 of irreps_in1, which has 1"),
        (("1o", "1o", "1e"), (0, -1, 0, "uvw", True), "term -1 of irreps_in2"),
        (("1o", "1o", "1e"), (0, 0, 2, "uvw", True), "term 2 of irreps_out"),
        (("1o", "1o", "1e"), (*UVW, -1.0), "path_weight >= 0, got -1"),
        (("1o", "1o", "1e"), (*UVW, 1.0, (3,)), r"path_shape \(1, 1, 1\)"),
        (("1o", "1o", "1e"), UVW[:4], r"instructions\[0\] must be \(i_in1, i_in2"),
        (("1o", "1o", "1e"), (0, 0.5, 0, "uvw", True), r"instructions\[0\] must be"),
        (("1o", "1o", "1e"), None, r"instructions\[0\] must be .*got None"),
        (("1o", "1p", "1e"), UVW, "irreps_in2: irreps '1p' cannot be read"),
        ((COLUMNS, "1o", "1e"), UVW, "irreps_in1 has the layout 'ir_mul', the layer 'mul_ir'"),
    ],
    ids=str,
)
def test_illegal_instructions_raise(operands, instruction, message):
    refused(message, TensorProduct, *operands, [instruction])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"irrep_normalization": "integral"}, "irrep_normalization must be one of .*'norm'"),
        ({"path_normalization": "sum"}, "path_normalization must be one of"),
        ({"in1_var": [1.0, 2.0]}, "in1_var must hold 1 finite numbers"),
        ({"out_var": [-1.0]}, "out_var must hold"),
        ({"internal_weights": True, "shared_weights": False}, "internal_weights must be shared"),
        ({"layout": "ir"}, 'layout must be "mul_ir" or "ir_mul"'),
    ],
)
def test_illegal_options_raise(options, message):
    refused(message, TensorProduct, "1o", "1o", "1e", [UVW], **options)


def test_unfit_inputs_raise():
    product = in_double(TensorProduct, *ALL_MODES, shared_weights=False)
    x, y, weight = inputs_of(product, 3)
    refused(r"weight .* is missing", product, x, y)
    refused(r"x must be \(\.\.\., 18\)", product, x[:, 1:], y, weight)
    refused(rf"weight must be \(\.\.\., {product.weight_numel}\)", product, x, y, weight[:, 1:])
    refused("y must have the dtype of x", product, x, y.float(), weight, error=TypeError)
    refused("device", product, x, y.to("meta"), weight)
    refused("leading axes must broadcast", product, x, y[:2], weight)
    shared = in_double(TensorProduct, *ALL_MODES, internal_weights=False)
    refused(r"shared_weights is True, got \(3, ", shared, x, y, weight)
    single = TensorProduct(*ALL_MODES)
    refused("weight must have the dtype of x", single, x, y, error=TypeError)


IRREPS = ("4x0e+4x1o", "0e+1o", "0e+1o")
HOLDERS = {
    "conv": lambda: ChannelwiseConv(*IRREPS),
    "conv with weights": lambda: ChannelwiseConv(*IRREPS, shared_weights=True),
    "radial": lambda: ChannelwiseConv(*IRREPS, num_hidden=3),
    "square": lambda: TensorSquare("4x0e+4x1o"),
    "square with weights": lambda: TensorSquare("4x0e+4x1o", "2x0e+2x1o"),
}


@pytest.mark.parametrize("name", [*HOLDERS])
def test_module_that_holds_a_product_has_its_state_and_is_no_product(name):
    module = HOLDERS[name]()
    assert isinstance(module.product, PathProduct)
    assert not isinstance(module, Product)
    saved = {"output_mask", "weight"} | ({"radial"} if name == "radial" else set())
    assert {*module.state_dict()} == saved
    assert {*dict(module.named_parameters())} <= {"weight", "radial"}
    assert module.weight_numel == module.product.weight_numel
    assert module.instructions == module.product.instructions
    assert module.multiply_adds() == module.product.multiply_adds() > 0
    buffers = copy.deepcopy(module).double().buffers()
    assert {x.dtype for x in buffers if x.is_floating_point()} == {torch.float64}


def test_conv_draws_and_loads_the_weights_of_a_product():
    torch.manual_seed(0)
    product = ChannelwiseTensorProduct(*IRREPS, shared_weights=True)
    torch.manual_seed(0)
    conv = ChannelwiseConv(*IRREPS, shared_weights=True)
    assert torch.equal(conv.weight, product.weight)
    other = ChannelwiseConv(*IRREPS, shared_weights=True)
    other.load_state_dict(product.state_dict(), strict=True)
    assert torch.equal(other.weight, product.weight)
    for view, theirs in zip(conv.weight_views(), product.weight_views(), strict=True):
        assert torch.equal(view, theirs)


def test_square_loads_the_state_of_e3nn_or_names_the_coupling_that_differs():
    square = TensorSquare("4x2e+4x1o", "2x0e+2x1o")
    reference = o3.TensorSquare("4x2e+4x1o", "2x0e+2x1o")
    state = reference.state_dict()
    square.load_state_dict(state, strict=True)
    assert torch.equal(square.weight, reference.weight)
    tables = [key for key in state if "_w3j_" in key]
    assert tables
    turned = {key: -value if key in tables else value for key, value in state.items()}
    refused("has the other sign", square.load_state_dict, turned, error=RuntimeError)


def test_shared_weights_serve_degrees_that_the_op_does_not_take():
    irreps = ("2x7o", "0e+1o", "7o+8e")
    conv, product = ChannelwiseConv(*irreps, shared_weights=True), ChannelwiseTensorProduct(*irreps)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, conv.irreps_in1.dim, generator=generator)
    edge_attr = torch.randn(4, 4, generator=generator)
    source, target = torch.tensor([0, 1, 2, 2]), torch.tensor([1, 1, 0, 2])
    edges = EdgeIndex.from_edges(torch.stack([source, target]), 3, 3)
    messages = product(x[source], edge_attr, conv.weight.expand(4, -1))
    want = torch.zeros(3, conv.irreps_out.dim).index_add(0, target, messages)
    got = conv(x, edges, edge_attr)
    torch.testing.assert_close(got, want, **tolerance(torch.float32, terms=10))


def test_bases_are_abstract_and_final_products_are_products_by_paths():
    for base in (Product, PathProduct, SignalProduct, HeldProduct):
        refused("abstract class", base, error=TypeError)
    assert issubclass(TensorProduct, PathProduct)
    assert not issubclass(ChannelwiseTensorProduct, TensorProduct)
