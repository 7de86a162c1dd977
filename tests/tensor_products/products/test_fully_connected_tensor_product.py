import pytest
import torch
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.reps import Irreps
from equigeo.tensor_products import FullyConnectedTensorProduct
from tests.tensor_products.path_helpers import LAYOUTS, assert_equals_e3nn, in_double, irreps

PUBLISHED = ("2x0e+3x1o", "4x0e+5x1o", "6x0e+7x1o+2x1e")


@settings(max_examples=15)
@given(
    irreps,
    irreps,
    irreps,
    st.sampled_from([None, "component", "norm", "none"]),
    st.sampled_from([None, "element", "path", "none"]),
    st.booleans(),
)
def test_any_irreps_give_what_e3nn_gives(in1, in2, out, irrep, path, shared):
    options = {"shared_weights": shared}
    args = (in1, in2, out, irrep, path)
    reference = in_double(o3.FullyConnectedTensorProduct, *args, **options)
    for layout in LAYOUTS:
        product = in_double(FullyConnectedTensorProduct, *args, **options, layout=layout)
        assert_equals_e3nn(product, reference)


def test_variances_give_what_e3nn_gives():
    options = {"in1_var": [1.0, 3.0], "in2_var": [0.5, 2.0], "out_var": [1.0, 2.0, 4.0]}
    reference = in_double(o3.FullyConnectedTensorProduct, *PUBLISHED, **options)
    assert_equals_e3nn(in_double(FullyConnectedTensorProduct, *PUBLISHED, **options), reference)


def test_irreps_without_a_path_give_zeros():
    product = FullyConnectedTensorProduct("2x1o", "3x1o", "2x0e+1x1o+0x1e")
    assert [path.i_out for path in product.instructions] == [0, 2]
    assert product.output_mask.tolist() == [1, 1, 0, 0, 0]
    assert not product(torch.ones(2, 6), torch.ones(2, 9))[:, 2:].any()
    nothing = FullyConnectedTensorProduct("", "1o", "")
    assert nothing(torch.ones(2, 0), torch.ones(2, 3)).shape == (2, 0)


@pytest.mark.parametrize("name", ["irreps_in1", "irreps_in2", "irreps_out"])
def test_irreps_that_cannot_be_read_are_named(name):
    args = {"irreps_in1": "1o", "irreps_in2": "1o", "irreps_out": "1e", name: "x1o"}
    with pytest.raises(ValueError, match=f"{name}: irreps 'x1o' cannot be read"):
        FullyConnectedTensorProduct(**args)


def test_weights_of_the_wrong_length_are_refused():
    product = FullyConnectedTensorProduct(*PUBLISHED, internal_weights=False)
    x, y = torch.zeros(2, product.irreps_in1.dim), torch.zeros(2, product.irreps_in2.dim)
    with pytest.raises(ValueError, match=r"weight must be \(\.\.\., 322\), got \(321,\)"):
        product(x, y, torch.zeros(321))
    with pytest.raises(ValueError, match=r"weight \(\.\.\., 322\) is missing"):
        product(x, y)


def test_irreps_keep_their_layout():
    product = FullyConnectedTensorProduct("2x1o", "1o", "2x1e", layout="ir_mul")
    assert product.rep_in[0] == Irreps("2x1o", "ir_mul")
    assert product.rep_out == Irreps("2x1e", "ir_mul")
