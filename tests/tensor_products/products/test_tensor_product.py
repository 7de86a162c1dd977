from typing import Any

import pytest
import torch
from e3nn import o3
from hypothesis import given
from torch.utils._python_dispatch import TorchDispatchMode

from equigeo.reps import Irreps
from equigeo.tensor_products import Instruction, TensorProduct
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    in_double,
    inputs_of,
    path_arguments,
    random,
)
from tests.wrong_inputs import refused

layouts = pytest.mark.parametrize("layout", LAYOUTS)

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


def all_modes(**options: Any) -> TensorProduct:
    return in_double(TensorProduct, *ALL_MODES, **options)


@given(path_arguments())
def test_any_instructions_give_what_e3nn_gives(arguments):
    args, options = arguments
    reference = in_double(o3.TensorProduct, *args, **options)
    for layout in LAYOUTS:
        assert_equals_e3nn(in_double(TensorProduct, *args, **options, layout=layout), reference)


@layouts
@pytest.mark.parametrize("shared", [True, False])
def test_all_connections_together_give_what_e3nn_gives(layout, shared):
    reference = in_double(o3.TensorProduct, *ALL_MODES, shared_weights=shared)
    assert_equals_e3nn(all_modes(shared_weights=shared, layout=layout), reference)


def test_a_term_that_no_path_reaches_is_zero_and_masked():
    product = all_modes()
    place = product.irreps_out.slices()[4]
    z = product(*inputs_of(product, 3))
    assert not z[:, place].any()
    assert not product.output_mask[place].any()
    assert z[:, product.output_mask.bool()].all()
    assert int(product.output_mask.sum()) == product.irreps_out.dim - 9


@layouts
@pytest.mark.parametrize("shared", [True, False])
def test_leading_axes_broadcast(layout, shared):
    product = all_modes(layout=layout, shared_weights=shared)
    x, y, *weight = inputs_of(product, 4)
    columns = [value[:, None] for value in weight]
    table = product(x[:, None], y[None], *columns)
    assert table.shape == (4, 4, product.irreps_out.dim)
    for n in range(4):
        rows = [value[n] for value in weight]
        assert_same(table[n], product(x[n], y, *rows))
        assert_same(table[n, 1], product(x[n], y[1], *rows))


class LargestTensor(TorchDispatchMode):
    """Numbers in the largest result of any operation."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.numel = max(self.numel, result.numel())
        return result


@layouts
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
    product = all_modes(shared_weights=shared)
    state = product.state_dict()
    assert [*state] == ["weight", "output_mask"]
    assert {name: state[name].shape for name in state} == {
        name: reference.state_dict()[name].shape for name in state
    }
    model = torch.nn.ModuleDict({"product": product})
    model.load_state_dict(torch.nn.ModuleDict({"product": reference}).state_dict(), strict=True)
    unfit = {**reference.state_dict(), "other": torch.zeros(1)}
    with pytest.raises(RuntimeError, match="Unexpected key"):
        product.load_state_dict(unfit)
    missing = reference.load_state_dict(state, strict=False).missing_keys
    assert all(name.startswith("_compiled_main_") for name in missing)


def test_a_simple_state_loads_strictly_both_ways():
    args = ("2x0e+3x1o", "0e", "2x0e+1x1o", [(0, 0, 0, "uvw", True), (1, 0, 1, "uvw", True)])
    reference, product = o3.TensorProduct(*args), TensorProduct(*args)
    reference.load_state_dict(product.state_dict(), strict=True)
    assert reference.weight.equal(product.weight)


def test_views_of_weights_are_those_of_e3nn():
    reference = in_double(o3.TensorProduct, *ALL_MODES)
    product = all_modes()
    product.load_state_dict(reference.state_dict())
    views = [*product.weight_views()]
    for view, want in zip(views, reference.weight_views(), strict=True):
        assert view.equal(want)
    assert product.weight_view_for_instruction(7).equal(views[5])
    views[0].detach().zero_()
    assert not product.weight[: views[0].numel()].any()
    rows = random(3, product.weight_numel)
    free = all_modes(shared_weights=False)
    assert free.weight_view_for_instruction(0, rows).shape == (3, 2, 3, 5)
    with pytest.raises(ValueError, match=r"instructions\[5\] has no weights"):
        product.weight_view_for_instruction(5)


def test_given_weights_replace_those_of_the_module():
    product = all_modes()
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


def test_irreps_of_e3nn_are_read():
    x, y = o3.Irreps("2x0e+1o"), o3.Irreps("1o")
    product = TensorProduct(x, y, [(2, (1, -1))], [(0, 0, 0, "uvw", True)])
    assert product.irreps_in1 == Irreps("2x0e+1o")


ILLEGAL = {
    "triangle": (
        ("1o", "1o", "3e", (0, 0, 0, "uvw", True)),
        r"asks for 3e, but 1o x 1o makes 0e, 1e, 2e",
    ),
    "parity": (("1o", "1o", "1o", (0, 0, 0, "uvw", True)), r"instructions\[0\] asks for 1o"),
    "uvu": (("2x1o", "1o", "3x1e", (0, 0, 0, "uvu", True)), "uvu needs mul_out = mul_in1"),
    "uvv": (("2x1o", "1o", "2x1e", (0, 0, 0, "uvv", True)), "uvv needs mul_out = mul_in2"),
    "uuu": (("2x1o", "1o", "2x1e", (0, 0, 0, "uuu", True)), "uuu needs mul_in1 = mul_in2"),
    "uuw": (("2x1o", "2x1o", "2x1e", (0, 0, 0, "uuw", False)), "mul_out = 1 without weights"),
    "uvuv": (("2x1o", "2x1o", "2x1e", (0, 0, 0, "uvuv", False)), r"got .* 2 x 2 -> 2 without"),
    "uvu<v": (("3x1o", "3x1o", "4x1e", (0, 0, 0, "uvu<v", False)), "uvu<v needs"),
    "u<vw": (("3x1o", "3x1o", "3x1e", (0, 0, 0, "u<vw", False)), "u<vw needs weights"),
    "uvw": (("1o", "1o", "1e", (0, 0, 0, "uvw", False)), "uvw needs weights"),
    "mode": (("1o", "1o", "1e", (0, 0, 0, "wvu", True)), r"connection of \['uvw'.*got 'wvu'"),
    "in1": (("1o", "1o", "1e", (1, 0, 0, "uvw", True)), "term 1 of irreps_in1, which has 1"),
    "in2": (("1o", "1o", "1e", (0, -1, 0, "uvw", True)), "term -1 of irreps_in2"),
    "out": (("1o", "1o", "1e", (0, 0, 2, "uvw", True)), "term 2 of irreps_out"),
    "weight": (("1o", "1o", "1e", (0, 0, 0, "uvw", True, -1.0)), "path_weight >= 0, got -1"),
    "shape": (("1o", "1o", "1e", (0, 0, 0, "uvw", True, 1.0, (3,))), r"path_shape \(1, 1, 1\)"),
    "short": (("1o", "1o", "1e", (0, 0, 0, "uvw")), r"instructions\[0\] must be \(i_in1, i_in2"),
    "type": (("1o", "1o", "1e", (0, 0.5, 0, "uvw", True)), r"instructions\[0\] must be"),
    "none": (("1o", "1o", "1e", None), r"instructions\[0\] must be .*got None"),
    "unread": (
        ("1o", "1p", "1e", (0, 0, 0, "uvw", True)),
        "irreps_in2: irreps '1p' cannot be read",
    ),
}


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_instruction_is_named(case):
    (in1, in2, out, instruction), message = ILLEGAL[case]
    with pytest.raises(ValueError, match=message):
        TensorProduct(in1, in2, out, [instruction])


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
def test_an_illegal_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        TensorProduct("1o", "1o", "1e", [(0, 0, 0, "uvw", True)], **options)


def test_irreps_of_another_layout_are_refused():
    with pytest.raises(ValueError, match="irreps_in1 has the layout 'ir_mul', the layer 'mul_ir'"):
        TensorProduct(Irreps("1o", "ir_mul"), "1o", "1e", [(0, 0, 0, "uvw", True)])


def test_unfit_inputs_are_refused():
    product = all_modes(shared_weights=False)
    x, y, weight = inputs_of(product, 3)
    refused(r"weight .* is missing", product, x, y)
    refused(r"x must be \(\.\.\., 18\)", product, x[:, 1:], y, weight)
    refused(rf"weight must be \(\.\.\., {product.weight_numel}\)", product, x, y, weight[:, 1:])
    refused("y must have the dtype of x", product, x, y.float(), weight, error=TypeError)
    refused("device", product, x, y.to("meta"), weight)
    refused("leading axes must broadcast", product, x, y[:2], weight)
    refused("weight must have the dtype of x", all_modes().float(), x, y, error=TypeError)
    shared = all_modes(internal_weights=False)
    refused(r"shared_weights is True, got \(3, ", shared, x, y, weight)
