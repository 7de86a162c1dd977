"""Full, elementwise and fully connected products and squares against those of e3nn."""

from functools import partial

import pytest
import torch
from e3nn import o3
from hypothesis import given, settings
from hypothesis import strategies as st

from equigeo.reps import Irreps
from equigeo.tensor_products import (
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
    TensorSquare,
)
from equigeo.testing import assert_equivariant
from tests.draws import in_double, random
from tests.tensor_products.path_helpers import (
    LAYOUTS,
    assert_equals_e3nn,
    assert_same,
    both_layouts,
    count_paths,
    degrees_and_parities,
    irrep_normalizations,
    irreps,
    path_normalizations,
)
from tests.wrong_inputs import refused

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


def signal_product(
    lmax: int, keep: Irreps | None = None, method: str = "sparse"
) -> FullTensorProduct:
    return FullTensorProduct(Irreps.signal(lmax), Irreps.signal(lmax), keep, method=method)


@both_layouts
@both_methods
@settings(max_examples=8)
@given(irreps, irreps, irrep_normalizations)
def test_full_products_equal_those_of_e3nn(method, layout, in1, in2, normalization):
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
def test_full_products_filter_irreps(keep, method):
    asked = [o3.Irrep("1e"), o3.Irrep("1o")] if keep == "1e+1o" else keep
    asked = [o3.Irrep("1e")] if isinstance(keep, o3.Irreps) else asked
    reference = in_double(o3.FullTensorProduct, "2x0e+1o+0e", "1o+1e", asked)
    assert_equals_e3nn(
        in_double(FullTensorProduct, "2x0e+1o+0e", "1o+1e", keep, method=method), reference
    )


@pytest.mark.parametrize("lmax", PATHS)
def test_numbers_of_paths_are_the_published_ones(lmax):
    for paths, kind, keep in (
        (PATHS, "all", None),
        (PATHS_EVEN, "even", Irreps.signal(2 * lmax)),
        (PATHS_ODD, "odd", Irreps.signal(2 * lmax, -1)),
    ):
        found = len(signal_product(lmax, keep).instructions)
        assert found == paths[lmax] == count_paths(lmax, kind)
    assert signal_product(lmax).irreps_out.dim == (lmax + 1) ** 4


@pytest.mark.parametrize("lmax", DENSE)
def test_numbers_of_multiply_adds_are_the_published_ones(lmax):
    even, odd = Irreps.signal(2 * lmax), Irreps.signal(2 * lmax, -1)
    truncated = Irreps([*Irreps.signal(lmax).terms, *Irreps.signal(lmax, -1).terms])
    for table, keep, method in (
        (DENSE, None, "dense"),
        (DENSE_EVEN, even, "dense"),
        (NONZEROS, None, "sparse"),
        (NONZEROS_EVEN, even, "sparse"),
        (NONZEROS_ODD, odd, "sparse"),
        (NONZEROS_TRUNCATED, truncated, "sparse"),
    ):
        assert signal_product(lmax, keep, method).multiply_adds() == table[lmax]


def test_sparse_products_are_deterministic_and_hold_no_zeros():
    assert FullTensorProduct("3x1o", "5x1o", method="sparse").multiply_adds() == 15 * (3 + 6 + 11)
    product, x, y = signal_product(3), random(64, 16), random(64, 16, seed=1)
    assert product(x, y).equal(product(x, y))
    assert_same(product(x, y), signal_product(3, method="dense")(x, y))
    assert product.compiled.stored.for_dtype(torch.float32).values.all()
    assert [*product.state_dict()] == ["weight", "output_mask"]


def test_ir_mul_is_kept_and_takes_no_terms_that_would_be_merged_or_split():
    assert str(FullTensorProduct("1o+2x1o", "0e").irreps_in1) == "3x1o"
    merged = FullTensorProduct("0e+2x0e+0x1o+1o", "0e", layout="ir_mul")
    assert str(merged.irreps_in1) == "3x0e+1x1o"
    message = 'irreps_in1 must be "3x1o" in the layout "ir_mul"'
    refused(message, FullTensorProduct, "1o+2x1o", "0e", layout="ir_mul")
    message = r'irreps_in2 must be "5x1e\+5x1e" in the layout "ir_mul"'
    refused(message, ElementwiseTensorProduct, "5x1o+5x1e", "10x1e", layout="ir_mul")
    scalars = ElementwiseTensorProduct("5x1o+5x1e", "10x0e", layout="ir_mul")
    assert str(scalars.irreps_in2) == "5x0e+5x0e"
    assert ElementwiseTensorProduct("5x1o+5x1e", "10x1e", ["0e", "0o"]).multiply_adds() == 10 * 9
    product = FullyConnectedTensorProduct("2x1o", "1o", "2x1e", layout="ir_mul")
    assert product.rep_in[0] == Irreps("2x1o", "ir_mul")
    assert product.rep_out == Irreps("2x1e", "ir_mul")


FULL, EACH, ALL = FullTensorProduct, ElementwiseTensorProduct, FullyConnectedTensorProduct
COO = partial(FULL, method="coo")


@pytest.mark.parametrize(
    ("make", "args", "message"),
    [
        (FULL, ("1o", "1q"), "irreps_in2: irreps '1q' cannot be read"),
        (COO, ("1o", "1o"), 'method must be "dense" or "sparse", got .coo.'),
        (FULL, ("1o", "1o", ["1q"]), r"filter_ir_out must hold irreps such as .*got \['1q'\]"),
        (FULL, ("1o", "1o", [1]), r"filter_ir_out must hold irreps such as .*got \[1\]"),
        (FULL, ("1o", "1o", None, "unit"), "irrep_normalization must be one of"),
        (EACH, ("3x1o", "2x1o"), "equally many irreps, got 3 and 2 in 3x1o and 2x1o"),
        (EACH, ("vector", "1o"), "irreps_in1: irreps 'vector' cannot be read"),
        (ALL, ("x1o", "1o", "1e"), "irreps_in1: irreps 'x1o' cannot be read"),
        (ALL, ("1o", "x1o", "1e"), "irreps_in2: irreps 'x1o' cannot be read"),
        (ALL, ("1o", "1o", "x1o"), "irreps_out: irreps 'x1o' cannot be read"),
        (TensorSquare, ("1x",), "irreps_in: irreps '1x' cannot be read"),
        (TensorSquare, ("1o", "1x"), "irreps_out: irreps '1x' cannot be read"),
        (
            TensorSquare,
            ("1o", "2e", ["2e"]),
            "filter_ir_out must be None where irreps_out is given",
        ),
        (TensorSquare, ("1o", None, None, "unit"), "irrep_normalization must be one of"),
    ],
)
def test_illegal_arguments_raise(make, args, message):
    refused(message, make, *args)


irrep_lists = st.lists(
    st.tuples(degrees_and_parities, degrees_and_parities), min_size=1, max_size=6
)


@settings(max_examples=15)
@given(irrep_lists, irrep_normalizations)
def test_elementwise_products_equal_those_of_e3nn(pairs, normalization):
    in1, in2 = ([(1, pair[side]) for pair in pairs] for side in (0, 1))
    reference = in_double(o3.ElementwiseTensorProduct, in1, in2, None, normalization)
    product = in_double(ElementwiseTensorProduct, in1, in2, None, normalization)
    assert str(product.irreps_in1) == str(reference.irreps_in1)
    assert str(product.irreps_in2) == str(reference.irreps_in2)
    assert_equals_e3nn(product, reference)
    aligned = in_double(ElementwiseTensorProduct, *product.rep_in, None, normalization)
    assert aligned.instructions == product.instructions


@both_layouts
def test_elementwise_products_filter_irreps(layout):
    args = ("5x1o+3x2e", "5x1e+3x1o", ["0o", "1o"])
    reference = in_double(o3.ElementwiseTensorProduct, *args)
    assert_equals_e3nn(in_double(ElementwiseTensorProduct, *args, layout=layout), reference)


PUBLISHED = ("2x0e+3x1o", "4x0e+5x1o", "6x0e+7x1o+2x1e")


@settings(max_examples=15)
@given(irreps, irreps, irreps, irrep_normalizations, path_normalizations, st.booleans())
def test_fully_connected_products_equal_those_of_e3nn(in1, in2, out, irrep, path, shared):
    options = {"shared_weights": shared}
    args = (in1, in2, out, irrep, path)
    reference = in_double(o3.FullyConnectedTensorProduct, *args, **options)
    for layout in LAYOUTS:
        product = in_double(FullyConnectedTensorProduct, *args, **options, layout=layout)
        assert_equals_e3nn(product, reference)


def test_fully_connected_products_take_variances():
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


def test_unfit_inputs_raise():
    product = FullyConnectedTensorProduct(*PUBLISHED, internal_weights=False)
    x, y = torch.zeros(2, product.irreps_in1.dim), torch.zeros(2, product.irreps_in2.dim)
    refused(r"weight must be \(\.\.\., 322\), got \(321,\)", product, x, y, torch.zeros(321))
    refused(r"weight \(\.\.\., 322\) is missing", product, x, y)
    refused(r"x must be \(\.\.\., 3\), got \(2, 4\)", TensorSquare("1o"), torch.zeros(2, 4))


def assert_square_equals_e3nn(square: TensorSquare, reference: o3.TensorSquare) -> None:
    assert str(square.irreps_out) == str(reference.irreps_out)
    square.load_state_dict(reference.state_dict())
    x = random(3, reference.irreps_in.dim)
    got = square(square.irreps_in1.with_layout("mul_ir").to_layout(x, square.layout))
    assert_same(square.irreps_out.to_layout(got, "mul_ir"), reference(x))


@settings(max_examples=30)
@given(irreps, st.none() | irreps, irrep_normalizations)
def test_square_products_equal_those_of_e3nn(irreps_in, irreps_out, normalization):
    first = str(Irreps(irreps_in).simplify())
    made = None if irreps_out is None else str(Irreps(irreps_out).simplify())
    filters = [None] if made is not None else [None, ["0e", "1o"]]
    for keep in filters:
        reference = in_double(o3.TensorSquare, first, made, keep, normalization)
        for layout in LAYOUTS:
            square = in_double(TensorSquare, first, made, keep, normalization, layout=layout)
            assert_square_equals_e3nn(square, reference)


@both_layouts
@pytest.mark.parametrize("irreps_out", [None, "2x0e+1e+1o+2x2e"])
def test_squares_are_equivariant(layout, irreps_out):
    square = in_double(TensorSquare, "2x0o+3x1o+1x2e", irreps_out, layout=layout)
    assert_equivariant(square, inputs=[random(4, square.irreps_in1.dim)])
