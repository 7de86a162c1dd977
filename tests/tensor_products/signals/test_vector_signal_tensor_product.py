import itertools
import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.reps import Irreps, wigner_3j
from equigeo.tensor_products import GauntTensorProduct, SphereGrid, VectorSignalTensorProduct
from equigeo.tensor_products.signals.methods import GridMethod, analysis
from equigeo.tensor_products.signals.vector_signals import cross_product, quaternion_product
from tests.tensor_products.path_helpers import inputs_of, random
from tests.tensor_products.signal_helpers import close, fejer
from tests.tensor_products.symbols import allowed

BASES = ["component", "integral", "norm"]
every_kind = pytest.mark.parametrize("scalars", [False, True], ids=["cross", "quaternion"])


def quaternion(x: Tensor, y: Tensor) -> Tensor:
    """Product of quaternions (..., 4), or cross product of vectors (..., 3)."""
    if x.shape[-1] == 3:
        return torch.linalg.cross(*torch.broadcast_tensors(x, y))
    (f, g), (vector1, vector2) = (x[..., :1], y[..., :1]), (x[..., 1:], y[..., 1:])
    scalar = f * g - (vector1 * vector2).sum(-1, keepdim=True)
    return torch.cat([scalar, f * vector2 + g * vector1 + quaternion(vector1, vector2)], -1)


def values(x: Tensor, irreps: Irreps, harmonics, basis: str, points: Tensor) -> Tensor:
    """Functions (points, 3 or 4) with given coefficients, straight from the definition."""
    out = torch.zeros(len(points), 4, dtype=torch.float64)
    for place, (j, l, spin) in zip(irreps.slices(), harmonics, strict=True):
        component = tp.spherical_harmonics(l, points, True, "component")
        table = math.sqrt(2 * j + 1) * wigner_3j(l, spin, j)
        scale = {"component": 1, "integral": 1 / math.sqrt(4 * math.pi), "norm": 1}[basis]
        scale /= math.sqrt(2 * j + 1) if basis == "norm" else 1
        target = out[:, 1:] if spin else out[:, :1]
        target += scale * torch.einsum("pi,iam,...m->pa", component, table, x[..., place])
    return out if any(spin == 0 for _, _, spin in harmonics) else out[:, 1:]


def paths(product: VectorSignalTensorProduct):
    """All triples of terms, with their harmonics."""
    numbered = [list(enumerate(side)) for side in product.harmonics]
    for (a, first), (b, second), (c, third) in itertools.product(*numbered):
        yield (a, b, c), (first, second, third)


@pytest.mark.parametrize(
    ("algorithm", "multiplications"), [(cross_product(), 5), (quaternion_product(), 8)]
)
def test_algorithms_of_few_multiplications_are_exact(algorithm, multiplications):
    size = algorithm.first.shape[1]
    eye = torch.eye(size, dtype=torch.float64)
    forms = (algorithm.first @ eye)[:, :, None] * (algorithm.second @ eye)[:, None, :]
    made = torch.einsum("cr,rab->abc", algorithm.out, forms)
    assert_close(made, quaternion(eye[:, None], eye[None]), rtol=0, atol=0)
    assert len(forms) == multiplications


@pytest.mark.parametrize("basis", BASES)
@every_kind
@pytest.mark.parametrize("degrees", [(1, 1, 2), (2, 1, 3), (0, 2, 2)], ids=str)
def test_is_the_pointwise_product(degrees, scalars, basis):
    product = VectorSignalTensorProduct(*degrees, basis, scalars=scalars)
    points = random(7, 3, seed=2)
    x, y = inputs_of(product)
    f, g, h = (
        values(*args, basis, points)
        for args in zip(
            (x, y, product(x, y)),
            (product.irreps_in1, product.irreps_in2, product.irreps_out),
            product.harmonics,
            strict=True,
        )
    )
    assert close(h, quaternion(f, g), 1e-13)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("degrees", [(1, 1, 2), (3, 2, 2)], ids=str)
def test_every_path_has_the_strength_of_the_9j_symbol(degrees, basis):
    product = VectorSignalTensorProduct(*degrees, basis)
    eyes = [torch.eye(rep.dim, dtype=torch.float64) for rep in product.rep_in]
    made = product(eyes[0][:, None], eyes[1][None])
    sides = product.irreps_in1, product.irreps_in2, product.irreps_out
    slices = [side.slices() for side in sides]
    for (a, b, c), terms in paths(product):
        want = product.coefficient(a, b, c) * wigner_3j(*(term.j for term in terms))
        block = made[slices[0][a], slices[1][b], slices[2][c]]
        assert_close(block, want, rtol=0, atol=2e-15 * made.abs().max().item())
    with pytest.raises(IndexError):
        product.coefficient(0, 0, 99)


@pytest.mark.parametrize("lmax", range(4))
def test_irreps_of_vectors_and_pseudovectors(lmax):
    cross = VectorSignalTensorProduct(lmax, lmax, lmax, scalars=False, parity1=-1)
    vectors, pseudovectors = cross.irreps_in1, cross.irreps_in2
    assert len(vectors.terms) == 1 + 3 * lmax
    assert vectors.dim == 3 * (lmax + 1) ** 2
    assert [ir for _, ir in vectors] == [(l, -p) for _, (l, p) in pseudovectors]
    if lmax == 1:
        assert str(vectors) == "1x0e+1x1o+1x1e+1x2e"
        assert str(pseudovectors) == "1x0o+1x1e+1x1o+1x2o"
    whole = VectorSignalTensorProduct(lmax, lmax, lmax)
    assert whole.irreps_in1 == Irreps.signal(lmax) + pseudovectors


def test_two_scalars_make_a_scalar_only_beside_the_cross_product():
    found = tp.interactability(VectorSignalTensorProduct(1, 1, 1, scalars=False, parity1=-1))
    assert (0, 0, 0) not in {(a[0], b[0], c[0]) for a, b, c in found}
    found = tp.interactability(VectorSignalTensorProduct(1, 1, 1))
    assert ((0, 1), (0, 1), (0, 1)) in found
    assert ((1, -1), (1, -1), (1, 1)) in found  # the cross product of vectors
    triples = {(a[0], b[0], c[0]) for a, b, c in found}
    wanted = [t for t in itertools.product(range(2), repeat=3) if allowed(*t)]
    assert triples >= set(wanted)


@pytest.mark.parametrize("grid", [(4, 9), (5, 8), fejer(8, 9)], ids=str)
def test_a_grid_too_small_is_refused_for_it_would_be_wrong(grid):
    with pytest.raises(ValueError, match="grid must be exact for polynomials of degree 8"):
        VectorSignalTensorProduct(2, 2, 4, grid=grid)
    product = VectorSignalTensorProduct(2, 2, 4)
    inputs = inputs_of(product)
    want = product(*inputs)
    found = grid if isinstance(grid, SphereGrid) else SphereGrid.gauss_legendre(*grid)
    factors = found.harmonics(2)
    product.body = GridMethod(factors, factors, analysis(found, 4, "component"))
    assert not close(product(*inputs), want, 1e-4)
    larger = VectorSignalTensorProduct(2, 2, 4, grid=(7, 12))
    assert close(larger(*inputs), want, 1e-13)


def test_counts():
    grid = GauntTensorProduct(2, 1, 3).multiply_adds()
    blocks = [9 * sum((2 * l + 1) ** 2 for l in range(lmax + 1)) for lmax in (2, 1, 3)]
    size = 9 + 4 + 16
    cross = VectorSignalTensorProduct(2, 1, 3, scalars=False)
    assert cross.multiply_adds() == 5 * grid + sum(blocks) + 15 * size
    whole = VectorSignalTensorProduct(2, 1, 3)
    assert whole.multiply_adds() == 8 * grid + sum(blocks) + 32 * size
