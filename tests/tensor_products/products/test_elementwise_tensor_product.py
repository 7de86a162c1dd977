import pytest
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.tensor_products import ElementwiseTensorProduct
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    degrees_and_parities,
    in_double,
)
from tests.wrong_inputs import refused

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)

irrep_lists = st.lists(
    st.tuples(degrees_and_parities, degrees_and_parities), min_size=1, max_size=6
)


@settings(max_examples=15)
@given(irrep_lists, st.sampled_from([None, "component", "norm", "none"]))
def test_any_irreps_give_what_e3nn_gives(pairs, normalization):
    in1, in2 = ([(1, pair[side]) for pair in pairs] for side in (0, 1))
    reference = in_double(o3.ElementwiseTensorProduct, in1, in2, None, normalization)
    product = in_double(ElementwiseTensorProduct, in1, in2, None, normalization)
    assert str(product.irreps_in1) == str(reference.irreps_in1)
    assert str(product.irreps_in2) == str(reference.irreps_in2)
    assert_equals_e3nn(product, reference)
    aligned = in_double(ElementwiseTensorProduct, *product.rep_in, None, normalization)
    assert aligned.instructions == product.instructions


@both_layouts
def test_a_filter_keeps_what_e3nn_keeps(layout):
    args = ("5x1o+3x2e", "5x1e+3x1o", ["0o", "1o"])
    reference = in_double(o3.ElementwiseTensorProduct, *args)
    assert_equals_e3nn(in_double(ElementwiseTensorProduct, *args, layout=layout), reference)


def test_terms_are_split_until_they_align():
    product = ElementwiseTensorProduct("5x1o+5x1e", "10x1e", ["0e", "0o"])
    assert [str(irreps) for irreps in product.rep_in] == ["5x1o+5x1e", "5x1e+5x1e"]
    assert str(product.irreps_out) == "5x0o+5x0e"
    assert product.multiply_adds() == 10 * 9


def test_outputs_keep_the_order_of_the_inputs():
    product = ElementwiseTensorProduct("2x1o+0e", "2x1o+0e")
    assert str(product.irreps_out) == "2x0e+2x1e+2x2e+1x0e"


def test_terms_that_would_be_split_are_refused_in_the_other_layout():
    with pytest.raises(ValueError, match=r'irreps_in2 must be "5x1e\+5x1e" in the layout "ir_mul"'):
        ElementwiseTensorProduct("5x1o+5x1e", "10x1e", layout="ir_mul")
    scalars = ElementwiseTensorProduct("5x1o+5x1e", "10x0e", layout="ir_mul")
    assert str(scalars.irreps_in2) == "5x0e+5x0e"


def test_wrong_arguments_raise():
    refused(
        "equally many irreps, got 3 and 2 in 3x1o and 2x1o",
        ElementwiseTensorProduct,
        "3x1o",
        "2x1o",
    )
    refused("irreps_in1: irreps 'vector' cannot be read", ElementwiseTensorProduct, "vector", "1o")
