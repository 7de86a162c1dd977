"""Laws, precision, shapes and errors that all products of signals share."""

from functools import partial
from itertools import product as pairs

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.reps import Irreps
from equigeo.tensor_products import (
    CurlTensorProduct,
    GauntTensorProduct,
    MatrixTensorProduct,
    VectorSignalTensorProduct,
)
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import random
from tests.tensor_products.path_helpers import inputs_of
from tests.tensor_products.signal_helpers import block, close, couple, fejer, signal, signals
from tests.tier import tier
from tests.wrong_inputs import refused

F64 = torch.float64
MAKES = {
    "gaunt by grid": GauntTensorProduct,
    "gaunt by Fourier series": partial(GauntTensorProduct, method="fourier"),
    "gaunt by paths": partial(GauntTensorProduct, method="paths"),
    "curl by grid": CurlTensorProduct,
    "curl by paths": partial(CurlTensorProduct, method="paths"),
    "matrix": MatrixTensorProduct,
    "matrix of both parities": partial(MatrixTensorProduct, parity="both"),
    "quaternion": VectorSignalTensorProduct,
    "cross": partial(VectorSignalTensorProduct, scalars=False),
}
every_product = pytest.mark.parametrize("name", MAKES)
every_basis = pytest.mark.parametrize("basis", ["component", "integral", "norm"])
METHODS = {GauntTensorProduct: ["grid", "fourier", "paths"], CurlTensorProduct: ["grid", "paths"]}
every_kind = pytest.mark.parametrize("kind", METHODS)
PARITIES = list(pairs((1, -1), repeat=2))
SIDES = [(2, 2, 4), (3, 1, 2), (1, 2, 2), (2, 1, 1)]
LAWS = tier(list(zip(SIDES, PARITIES, strict=True)), list(pairs(SIDES, PARITIES)))


@pytest.mark.parametrize("name", sorted(MAKES.keys() - {"matrix"}))  # which has no parity
@pytest.mark.parametrize(("degrees", "parities"), LAWS, ids=str)
def test_products_are_equivariant_under_reflections(name, degrees, parities):
    options = dict(zip(("parity1", "parity2"), parities, strict=True))
    product = MAKES[name](*degrees, **({} if "matrix" in name else options))
    if "gaunt" in name or "curl" in name:
        parity = parities[0] * parities[1] * (-1 if "curl" in name else 1)
        assert product.irreps_out == Irreps.signal(degrees[2], parity)
    inputs = inputs_of(product, 3)
    assert_equivariant(product, inputs=inputs)
    wrong = Irreps([(mul, (l, -p)) for mul, (l, p) in product.irreps_out])
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_equivariant(product, product.rep_in, wrong, inputs=inputs)


@every_kind
@every_basis
@pytest.mark.parametrize("degrees", [(1, 2), (3, 1), (3, 0), (2, 2)], ids=str)
def test_products_are_sums_of_paths_cut_off_above(kind, basis, degrees):
    x, y = signal(degrees[0], 3, name="x"), signal(degrees[1], 3, name="y")
    for method, lmax_out in pairs(METHODS[kind], range(sum(degrees) + 1)):
        product = kind(*degrees, lmax_out, method, basis)
        want = torch.zeros(3, (lmax_out + 1) ** 2, dtype=F64)
        for l1, l2, l3 in pairs(*(range(lmax + 1) for lmax in (*degrees, lmax_out))):
            want[:, block(l3)] += product.coefficient(l1, l2, l3) * couple(l1, l2, l3, x, y)
        scale = product.coefficient(2, 2, 3) or want.abs().max()
        assert (product(x, y) - want).abs().max() <= 1e-13 * scale, (method, lmax_out)


@every_kind
@every_basis
def test_methods_agree(kind, basis):
    for lmax in range(1, 9):
        for lmax_out in {2 * lmax, lmax}:
            made = [kind(lmax, lmax, lmax_out, method, basis) for method in METHODS[kind]]
            *others, paths = (product(*signals(made[0], 5)) for product in made)
            assert all(close(other, paths, 1e-13) for other in others), (lmax, lmax_out)


@every_product
@pytest.mark.parametrize("degrees", [(3, 3, 6), (8, 8, 8)], ids=str)
def test_float32_products_are_as_accurate_as_float32(name, degrees):
    product = MAKES[name](*degrees)
    x, y = inputs_of(product, 4, dtype=torch.float32)
    got = product(x, y)
    assert got.dtype == torch.float32
    bound = tolerance(torch.float32, terms=product.irreps_in1.dim)["rtol"]
    assert close(got.double(), product(x.double(), y.double()), bound)
    assert not product.state_dict()


@every_product
def test_leading_axes_broadcast(name):
    product = MAKES[name](1, 2, 2)
    x = random(5, 1, 3, product.irreps_in1.dim)
    y = random(4, 1, product.irreps_in2.dim, seed=1)
    z = product(x, y)
    dim = product.irreps_out.dim
    assert z.shape == (5, 4, 3, dim)
    bound = tolerance(F64, 36)  # 4 x 9 products of coefficients
    assert_close(z[1, 2, 0], product(x[1, 0, 0], y[2, 0]), **bound)
    assert product(x[:0], y).shape == (0, 4, 3, dim)


def saved_numbers(product: torch.nn.Module) -> int:
    """Numbers kept for the gradient of 50 samples, tables aside."""
    saved = {}
    tables = {table.data_ptr() for table in product.double().buffers()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in tables:
            saved[tensor.data_ptr()] = tensor.numel()
        return tensor

    inputs = [x.requires_grad_() for x in inputs_of(product, 50)]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        product(*inputs).sum()
    return sum(saved.values())


def test_nothing_of_the_size_of_the_grid_is_kept_for_the_gradient():
    assert saved_numbers(GauntTensorProduct(2, 2, 2, grid=(20, 20))) == 2 * 50 * 9
    fourier = saved_numbers(GauntTensorProduct(2, 2, 4, "fourier"))
    assert fourier > 2 * 50 * 81  # the count can see such things
    vectors = saved_numbers(VectorSignalTensorProduct(1, 1, 1, grid=(30, 30)))
    assert 50 * 8 * 4 <= vectors < 50 * 30 * 30


GAUNT, CURL, MATRIX = GauntTensorProduct, CurlTensorProduct, MatrixTensorProduct
BASIS, GRID = 'basis must be "component", "integral" or', 'grid is for the method "grid"'
EXACT = "grid must be exact for polynomials of degree 2, as 2 .* latitudes x 3 longitudes"


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (GAUNT, {"method": "fft"}, 'method must be "grid", "fourier" or "paths"'),
        (GAUNT, {"basis": "unit"}, BASIS),
        (GAUNT, {"method": "paths", "basis": "unit"}, BASIS),
        (GAUNT, {"parity2": 0}, "parity2 must be 1 or -1, got 0"),
        (GAUNT, {"method": "paths", "grid": (3, 3)}, GRID),
        (GAUNT, {"grid": (1, 3)}, EXACT),
        (GAUNT, {"grid": (2, 2)}, EXACT),
        (GAUNT, {"grid": fejer(1, 3)}, EXACT),
        (CURL, {"method": "fourier"}, 'method must be "grid" or "paths", got .fourier.'),
        (CURL, {"basis": "unit"}, BASIS),
        (CURL, {"parity1": 2}, "parity1 must be 1 or -1, got 2"),
        (CURL, {"method": "paths", "grid": (3, 3)}, GRID),
        (MATRIX, {"t": 0}, "t must be at least half of the largest degree 1, got 0"),
        (MATRIX, {"parity": "even"}, 'parity must be None or "both", got'),
        (MATRIX, {"normalization": "norm"}, 'normalization must be "none" or'),
        (VectorSignalTensorProduct, {"basis": "unit"}, BASIS),
        (VectorSignalTensorProduct, {"parity2": 0}, "parity2 must be 1 or -1, got 1 and 0"),
    ],
)
def test_wrong_options_raise(make, options, message):
    refused(message, make, 1, 1, 0, **options)
    refused("integer", MatrixTensorProduct, 2, 2, 2, 1.5, error=TypeError)


@every_product
def test_degrees_and_inputs_that_do_not_fit_raise(name):
    refused("degrees must not be negative, .* lmax1=-1", MAKES[name], -1, 1, 0)
    refused(r"nor lmax_out above lmax1 \+ lmax2, got .* lmax_out=3", MAKES[name], 1, 1, 3)
    refused("integer", MAKES[name], 1.0, 1, 1, error=TypeError)
    product = MAKES[name](1, 2, 3)
    x, y = inputs_of(product, 2)
    refused(rf"y must be \(\.\.\., {y.shape[1]}\), got \(2, {len(x[0])}", product, x, x)
    refused("y must have the dtype of x", product, x, y.float(), error=TypeError)
    refused("leading axes must broadcast", product, x, random(3, y.shape[1]))
