from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.interop import reorder, reorder_weights, sort_features, sort_irreps, to_e3nn
from equigeo.nn import Linear
from equigeo.reps import Irreps
from equigeo.tensor_products import (
    ChannelwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
    TensorSquare,
)
from equigeo.testing import tolerance
from tests.draws import random
from tests.wrong_inputs import refused

irreps = st.lists(
    st.tuples(st.integers(0, 3), st.tuples(st.integers(0, 3), st.sampled_from([1, -1]))), max_size=6
).map(Irreps)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, **tolerance(a.dtype, 256))


def test_the_two_orders():
    both = "2e+2o+1e+1o+0e+0o"
    assert str(sort_irreps(both, "e3nn")[0]) == "1x0o+1x0e+1x1o+1x1e+1x2o+1x2e"
    assert str(sort_irreps(both, "natural")[0]) == "1x0e+1x0o+1x1o+1x1e+1x2e+1x2o"


@given(irreps, st.sampled_from(["e3nn", "natural"]))
def test_sorting_moves_features_with_their_terms_and_keeps_ties(given_irreps, order):
    sorted_irreps, positions = sort_irreps(given_irreps, order)
    assert sorted(positions) == list(range(len(given_irreps.terms)))
    assert [given_irreps.terms[k] for k in positions] == list(sorted_irreps.terms)
    ties = [(given_irreps.terms[k][1], k) for k in positions]
    assert all(a[1] < b[1] for a, b in pairwise(ties) if a[0] == b[0])
    x = torch.arange(given_irreps.dim)
    y = sort_features(x, given_irreps, order)
    for new, old in enumerate(positions):
        assert y[sorted_irreps.slices()[new]].equal(x[given_irreps.slices()[old]])


def moved(x, irreps, order):
    return x if order is None else sort_features(x, irreps, order)


ORDERS = list(
    product(["mul_ir", "ir_mul"], ["e3nn", "natural", None], ["output", "instruction", None])
)


def test_a_reordered_product_is_the_same_map_of_moved_features():
    terms = "2x1e+3x1o+1x0e", "2x0o+1x1o+2x0e", "2x1e+2x0o+1x1o+2x0e"
    for layout, order, weight_order in ORDERS:
        ours = FullyConnectedTensorProduct(*terms, layout=layout).double()
        changed = reorder(ours, irreps_order=order, weight_order=weight_order)
        x, y = random(5, ours.irreps_in1.dim), random(5, ours.irreps_in2.dim, seed=1)
        out = changed(moved(x, ours.irreps_in1, order), moved(y, ours.irreps_in2, order))
        close(out, moved(ours(x, y), ours.irreps_out, order))
        weight = reorder_weights(ours.weight, ours, irreps_order=order, weight_order=weight_order)
        assert changed.weight.equal(weight)
        if weight_order is None:
            assert changed.weight.equal(ours.weight)


def test_a_reordered_square_is_the_same_map_of_moved_features():
    for layout, order, weight_order in ORDERS:
        ours = TensorSquare("2x1e+3x1o+1x0e", "2x1e+2x0o+1x1o+2x0e", layout=layout).double()
        changed = reorder(ours, irreps_order=order, weight_order=weight_order)
        x = random(5, ours.rep_in.dim)
        out = changed(moved(x, ours.rep_in, order))
        close(out, moved(ours(x), ours.rep_out, order))
    with pytest.raises(ValueError, match=r"another order of terms: convert the module before"):
        to_e3nn(reorder(TensorSquare("2x1o+1x1e"), irreps_order="natural"))


def test_a_reordered_linear_is_the_same_map_of_moved_features():
    for layout, order, weight_order in ORDERS:
        terms = "2x1e+3x0e+1x0o", "2x0e+3x1e+1x0e+2x0o"
        linear = Linear(*terms, biases=True, layout=layout).double()
        torch.nn.init.normal_(linear.bias)
        changed = reorder(linear, irreps_order=order, weight_order=weight_order)
        x = random(5, linear.irreps_in.dim)
        out = changed(moved(x, linear.irreps_in, order))
        close(out, moved(linear(x), linear.irreps_out, order))
    rows = Linear(*terms).double()
    columns = reorder(rows, layout="ir_mul")
    out = columns(rows.irreps_in.to_layout(x, "ir_mul"))
    close(columns.irreps_out.to_layout(out, "mul_ir"), rows(x))
    assert columns.weight.equal(rows.weight)


def test_weights_by_output_are_those_of_mace_and_by_instruction_those_of_nequip():
    arguments = ("4x0e+4x1o", "0e+1o+2e", "0e+1o+2e")
    mace = ChannelwiseTensorProduct(*arguments, weight_order="output").double()
    nequip = ChannelwiseTensorProduct(*arguments, weight_order="instruction").double()
    x, y = random(6, mace.irreps_in1.dim), random(6, mace.irreps_in2.dim, seed=1)
    w = random(6, nequip.weight_numel, seed=2)
    as_mace = reorder(nequip, weight_order="output")
    assert as_mace.instructions == mace.instructions
    close(as_mace(x, y, reorder_weights(w, nequip, weight_order="output")), nequip(x, y, w))
    assert reorder(as_mace, weight_order="instruction").instructions == nequip.instructions
    assert not reorder_weights(w, nequip, weight_order="output").equal(w)


def test_outputs_that_a_class_sorts_can_be_sorted_otherwise():
    full = FullTensorProduct("0e+1o", "0e+0o").double()
    natural = reorder(full, irreps_order="natural")
    x, y = random(5, 4), random(5, 2, seed=1)
    close(
        natural(x, sort_features(y, "0e+0o", "natural")),
        sort_features(full(x, y), full.irreps_out, "natural"),
    )
    assert str(natural.irreps_out) == "1x0e+1x0o+1x1o+1x1e"


def test_bad_arguments_are_named():
    linear = Linear("1x0e", "1x0e")
    refused('order must be "e3nn" or "natural"', sort_irreps, "0e", "parity")
    refused(r"features of .* are \(\.\.\., 1\), got \(2,\)", sort_features, torch.zeros(2), "0e")
    refused("weight_order must be", reorder, linear, weight_order="sorted")
    refused(r"weight must be \(\.\.\., 1\), got \(3,\)", reorder_weights, torch.zeros(3), linear)
    refused(r"cannot convert torch\.nn", reorder, torch.nn.Linear(1, 1), error=TypeError)
