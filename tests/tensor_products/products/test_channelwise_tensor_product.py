from typing import Any

import pytest
import torch
from e3nn import o3
from hypothesis import given, settings

from equigeo.tensor_products import ChannelwiseTensorProduct
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    in_double,
    inputs_of,
    irreps,
)
from tests.wrong_inputs import refused

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)

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
def test_any_irreps_give_what_mace_and_nequip_give(layout, order, in1, in2, targets):
    reference = in_double(
        as_message_passing_builds_it,
        in1,
        in2,
        targets,
        sort=order == "output",
        shared_weights=False,
    )
    product = in_double(
        ChannelwiseTensorProduct, in1, in2, targets, weight_order=order, layout=layout
    )
    assert_equals_e3nn(product, reference)


@pytest.mark.parametrize("normalization", [("norm", "path"), ("none", "none")])
def test_normalizations_give_what_e3nn_gives(normalization):
    irrep, path = normalization
    reference = in_double(
        as_message_passing_builds_it,
        *ODD,
        sort=True,
        shared_weights=False,
        irrep_normalization=irrep,
        path_normalization=path,
    )
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


def test_shared_weights_are_owned():
    product = ChannelwiseTensorProduct(*EXAMPLE, shared_weights=True)
    assert isinstance(product.weight, torch.nn.Parameter)
    assert product(torch.ones(2, 16), torch.ones(2, 9)).shape == (2, 84)


def test_targets_that_no_path_reaches_make_no_term():
    product = ChannelwiseTensorProduct("2x0e", "1o", "5x0e+7x3o")
    assert str(product.irreps_out) == ""
    assert product(torch.ones(3, 2), torch.ones(3, 3)).shape == (3, 0)


def test_unfit_arguments_are_refused():
    with pytest.raises(ValueError, match='weight_order must be "output" or "instruction"'):
        ChannelwiseTensorProduct(*EXAMPLE, weight_order="nequip")
    refused("irreps_out: irreps '1' cannot be read", ChannelwiseTensorProduct, "1o", "1o", "1")
    product = ChannelwiseTensorProduct(*EXAMPLE)
    x, y = torch.zeros(3, 16), torch.zeros(3, 9)
    refused(r"weight \(\.\.\., 28\) is missing", product, x, y)
    refused(r"weight must be \(\.\.\., 28\), got \(3, 27\)", product, x, y, torch.zeros(3, 27))
    refused("leading axes must broadcast", product, x, y, torch.zeros(2, 28))
