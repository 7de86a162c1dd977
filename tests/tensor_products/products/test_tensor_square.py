import math

import pytest
import torch
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.reps import Irreps
from equigeo.tensor_products import TensorSquare
from equigeo.testing import assert_equivariant
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_same,
    double_precision,
    in_double,
    irreps,
    random,
)

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
normalizations = st.sampled_from([None, "component", "norm", "none"])


def assert_equals_e3nn(square: TensorSquare, reference: o3.TensorSquare) -> None:
    assert str(square.irreps_out) == str(reference.irreps_out)
    square.load_state_dict(reference.state_dict())
    x = random(3, reference.irreps_in.dim)
    got = square(square.irreps_in1.with_layout("mul_ir").to_layout(x, square.layout))
    assert_same(square.irreps_out.to_layout(got, "mul_ir"), reference(x))


@settings(max_examples=15)
@given(irreps, normalizations)
def test_any_irreps_give_what_e3nn_gives(irreps_in, normalization):
    text = str(Irreps(irreps_in).simplify())
    reference = in_double(o3.TensorSquare, text, None, None, normalization)
    for layout in LAYOUTS:
        square = in_double(TensorSquare, text, None, None, normalization, layout=layout)
        assert_equals_e3nn(square, reference)


@settings(max_examples=15)
@given(irreps, irreps, normalizations)
def test_any_weighted_irreps_give_what_e3nn_gives(irreps_in, irreps_out, normalization):
    first, made = (str(Irreps(given).simplify()) for given in (irreps_in, irreps_out))
    reference = in_double(o3.TensorSquare, first, made, None, normalization)
    for layout in LAYOUTS:
        square = in_double(TensorSquare, first, made, None, normalization, layout=layout)
        assert_equals_e3nn(square, reference)


def test_published_factors_of_a_squared_vector():
    factors = [path.path_weight for path in TensorSquare("1o").instructions]
    # one or two units of 2.2e-16, that of numbers below two
    assert factors == pytest.approx([math.sqrt(1 / 5), math.sqrt(5 / 2)], abs=4.5e-16)


def test_a_filter_keeps_what_e3nn_keeps():
    reference = in_double(o3.TensorSquare, "2x1o+3x2e", None, ["0e", "1o"])
    assert_equals_e3nn(in_double(TensorSquare, "2x1o+3x2e", None, ["0e", "1o"]), reference)


@both_layouts
@pytest.mark.parametrize("irreps_out", [None, "2x0e+1e+1o+2x2e"])
def test_is_equivariant_under_rotations_and_reflections(layout, irreps_out):
    with double_precision():
        square = TensorSquare("2x0o+3x1o+1x2e", irreps_out, layout=layout)
    assert_equivariant(square, inputs=[random(4, square.irreps_in1.dim)])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("1x",), "irreps_in: irreps '1x' cannot be read"),
        (("1o", "1x"), "irreps_out: irreps '1x' cannot be read"),
        (("1o", "2e", ["2e"]), "filter_ir_out must be None where irreps_out is given"),
        (("1o", None, None, "unit"), "irrep_normalization must be one of"),
    ],
)
def test_illegal_arguments_are_named(args, message):
    with pytest.raises(ValueError, match=message):
        TensorSquare(*args)


def test_unfit_inputs_are_refused():
    with pytest.raises(ValueError, match=r"x must be \(\.\.\., 3\), got \(2, 4\)"):
        TensorSquare("1o")(torch.zeros(2, 4))
