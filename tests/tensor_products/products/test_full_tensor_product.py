import pytest
import torch
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.reps import Irreps
from equigeo.tensor_products import FullTensorProduct
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    in_double,
    irreps,
    random,
)

both_layouts = pytest.mark.parametrize("layout", LAYOUTS)
both_methods = pytest.mark.parametrize("method", ["dense", "sparse"])

DENSE = {1: 100, 2: 1225, 3: 7056, 4: 27225, 5: 81796, 6: 207025}
DENSE_EVEN = {1: 73, 2: 798, 3: 4326, 4: 16071, 5: 47047, 6: 116844}
NONZEROS = {1: 27, 2: 244, 3: 1132, 4: 3741, 5: 9691, 6: 21762}
NONZEROS_EVEN = {1: 21, 2: 162, 3: 708, 4: 2229, 5: 5605, 6: 12322}
NONZEROS_ODD = {1: 6, 2: 82, 3: 424, 4: 1512, 5: 4086, 6: 9440}
NONZEROS_TRUNCATED = {1: 16, 2: 137, 3: 611, 4: 2052, 5: 5265, 6: 11896}
PATHS = {1: 6, 2: 19, 3: 44, 4: 85, 5: 146}
PATHS_EVEN = {1: 5, 2: 14, 3: 30, 4: 55, 5: 91}
PATHS_ODD = {1: 1, 2: 5, 3: 14, 4: 30, 5: 55}


def natural(lmax: int) -> Irreps:
    """Outputs of even paths between signals."""
    return Irreps.signal(lmax)


def pseudo(lmax: int) -> Irreps:
    """Outputs of odd paths between signals."""
    return Irreps.signal(lmax, parity=-1)


def signal_product(
    lmax: int, keep: Irreps | None = None, method: str = "sparse"
) -> FullTensorProduct:
    return FullTensorProduct(Irreps.signal(lmax), Irreps.signal(lmax), keep, method=method)


@both_layouts
@both_methods
@settings(max_examples=8)
@given(irreps, irreps, st.sampled_from([None, "component", "norm", "none"]))
def test_any_irreps_give_what_e3nn_gives(method, layout, in1, in2, normalization):
    in1, in2 = Irreps(in1).simplify(), Irreps(in2).simplify()
    reference = in_double(o3.FullTensorProduct, str(in1), str(in2), None, normalization)
    product = in_double(
        FullTensorProduct, str(in1), str(in2), None, normalization, method=method, layout=layout
    )
    assert_equals_e3nn(product, reference)


@both_methods
@pytest.mark.parametrize(
    "keep", [["0e", "1o"], [(2, 1)], "1e+1o", [o3.Irrep("1e")], o3.Irreps("1e")]
)
def test_a_filter_keeps_what_e3nn_keeps(keep, method):
    asked = [o3.Irrep("1e"), o3.Irrep("1o")] if keep == "1e+1o" else keep
    asked = [o3.Irrep("1e")] if isinstance(keep, o3.Irreps) else asked
    reference = in_double(o3.FullTensorProduct, "2x0e+1o+0e", "1o+1e", asked)
    assert_equals_e3nn(
        in_double(FullTensorProduct, "2x0e+1o+0e", "1o+1e", keep, method=method), reference
    )


@pytest.mark.parametrize("lmax", PATHS)
def test_published_numbers_of_paths(lmax):
    assert len(signal_product(lmax).instructions) == PATHS[lmax]
    assert len(signal_product(lmax, natural(2 * lmax)).instructions) == PATHS_EVEN[lmax]
    assert len(signal_product(lmax, pseudo(2 * lmax)).instructions) == PATHS_ODD[lmax]
    assert signal_product(lmax).irreps_out.dim == (lmax + 1) ** 4


@pytest.mark.parametrize("lmax", DENSE)
def test_published_numbers_of_multiply_adds(lmax):
    full = signal_product(lmax)
    truncated = [*natural(lmax).terms, *pseudo(lmax).terms]
    assert signal_product(lmax, method="dense").multiply_adds() == DENSE[lmax]
    assert signal_product(lmax, natural(2 * lmax), "dense").multiply_adds() == DENSE_EVEN[lmax]
    assert full.multiply_adds() == NONZEROS[lmax]
    assert signal_product(lmax, natural(2 * lmax)).multiply_adds() == NONZEROS_EVEN[lmax]
    assert signal_product(lmax, pseudo(2 * lmax)).multiply_adds() == NONZEROS_ODD[lmax]
    assert signal_product(lmax, Irreps(truncated)).multiply_adds() == NONZEROS_TRUNCATED[lmax]


def test_work_grows_with_the_pairs_of_channels():
    assert FullTensorProduct("3x1o", "5x1o", method="sparse").multiply_adds() == 15 * (3 + 6 + 11)


def test_the_sparse_product_gives_the_same_bits_again():
    product = signal_product(3)
    x, y = random(64, 16), random(64, 16, seed=1)
    assert product(x, y).equal(product(x, y))
    assert_same(product(x, y), signal_product(3, method="dense")(x, y))


def test_sparse_tables_hold_no_zeros():
    product = signal_product(3)
    assert product.compiled.stored.for_dtype(torch.float32).values.all()
    assert [*product.state_dict()] == ["weight", "output_mask"]


def test_irreps_that_would_be_merged_are_refused_in_the_other_layout():
    assert str(FullTensorProduct("1o+2x1o", "0e").irreps_in1) == "3x1o"
    assert (
        str(FullTensorProduct("0e+2x0e+0x1o+1o", "0e", layout="ir_mul").irreps_in1) == "3x0e+1x1o"
    )
    with pytest.raises(ValueError, match='irreps_in1 must be "3x1o" in the layout "ir_mul"'):
        FullTensorProduct("1o+2x1o", "0e", layout="ir_mul")


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (("1o", "1q"), {}, "irreps_in2: irreps '1q' cannot be read"),
        (("1o", "1o"), {"method": "coo"}, 'method must be "dense" or "sparse", got \'coo\''),
        (("1o", "1o", ["1q"]), {}, r"filter_ir_out must hold irreps such as .*got \['1q'\]"),
        (("1o", "1o", [1]), {}, r"filter_ir_out must hold irreps such as .*got \[1\]"),
        (("1o", "1o", None, "unit"), {}, "irrep_normalization must be one of"),
    ],
)
def test_illegal_arguments_are_named(args, options, message):
    with pytest.raises(ValueError, match=message):
        FullTensorProduct(*args, **options)
