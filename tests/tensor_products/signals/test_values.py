"""Products of signals are pointwise products of functions, with the strengths of Wigner symbols."""

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.groups import SO
from equigeo.reps import Irreps, wigner_3j
from equigeo.tensor_products import (
    CurlTensorProduct,
    GauntTensorProduct,
    MatrixTensorProduct,
    SphereGrid,
    VectorSignalTensorProduct,
)
from equigeo.tensor_products.signals.couplings import curl_coupling, gaunt_coupling
from equigeo.tensor_products.signals.fourier import half_turn_integral, meridian_series
from equigeo.tensor_products.signals.methods import GridMethod, analysis, synthesis
from equigeo.tensor_products.signals.vector_signals import cross_product, quaternion_product
from equigeo.testing import assert_equivariant, tolerance
from tests.draws import in_double, random
from tests.tensor_products.path_helpers import inputs_of
from tests.tensor_products.signal_helpers import (
    COSINES,
    SINES,
    block,
    close,
    couple,
    fejer,
    signal,
    signals,
)
from tests.tensor_products.symbols import allowed, wigner_6j_symbol
from tests.wrong_inputs import refused


@pytest.mark.parametrize("l1", range(7))
def test_coupling_gives_the_integrals_of_three_harmonics(l1):
    grid = SphereGrid.exact(l1 + 12)
    points, area = grid.points().flatten(0, 1), grid.weights * 2 * math.pi / grid.longitudes
    area = area[:, None].expand(-1, grid.longitudes).flatten()
    values = [tp.spherical_harmonics(l, points, True) for l in range(7)]
    for l2, l3 in itertools.product(range(7), repeat=2):
        integral = torch.einsum("p,pi,pj,pk->ijk", area, values[l1], values[l2], values[l3])
        want = gaunt_coupling(l1, l2, l3, "integral") * wigner_3j(l1, l2, l3)
        # Sums of some hundreds of products of numbers of order one, in float64.
        assert_close(integral, want, rtol=0, atol=2e-14)


@pytest.mark.parametrize(("coupling", "parity"), [(gaunt_coupling, 0), (curl_coupling, 1)])
def test_triples_of_one_parity_within_the_triangle_rule_couple(coupling, parity):
    for l1, l2, l3 in itertools.product(range(11), repeat=3):
        allowed = abs(l1 - l2) <= l3 <= l1 + l2 and (l1 + l2 + l3) % 2 == parity
        assert (coupling(l1, l2, l3) > 0) == allowed


def on_grid(lmax: int, lmax_out: int, grid: SphereGrid) -> float:
    """Largest error of a product on a grid that need not be large enough, in the basis Yint."""
    basis = "integral"
    body = GridMethod(
        synthesis(grid.harmonics(lmax), basis),
        synthesis(grid.harmonics(lmax), basis),
        analysis(grid, lmax_out, basis),
    )
    product = GauntTensorProduct(lmax, lmax, lmax_out, "paths", basis)
    x, y = SINES[None, : (lmax + 1) ** 2], COSINES[None, : (lmax + 1) ** 2]
    return (body(x, y) - product(x, y)).abs().max().item()


def test_default_grid_is_the_smallest_exact_one():
    gauss = SphereGrid.gauss_legendre
    for lmax_out, grid in ((4, gauss(5, 9)), (2, gauss(4, 7)), (4, fejer(9, 9))):
        # Exact but for rounding of numbers of order one: 45 units in the last place.
        assert on_grid(2, lmax_out, grid) < 1e-14
    assert min(on_grid(2, 4, grid) for grid in (gauss(4, 9), gauss(5, 8))) > 0.1
    assert min(on_grid(2, 2, grid) for grid in (gauss(3, 7), gauss(4, 6))) > 1e-3
    # One latitude less: off by several thousandths, neither exact nor useless.
    assert 2e-3 < on_grid(2, 4, fejer(8, 9)) < 2e-2


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("lmax", [1, 2, 3])
def test_relation_to_the_grid_of_e3nn(lmax):
    resolution = 4 * lmax + 2, 4 * lmax + 1
    to_grid = in_double(o3.ToS2Grid, lmax, resolution)
    from_grid = in_double(o3.FromS2Grid, resolution, 2 * lmax)
    product = GauntTensorProduct(lmax, lmax, 2 * lmax, basis="norm")
    x, y = signals(product, 2)
    want = math.sqrt(2 * lmax + 1) / (lmax + 1) * product(x, y)
    assert close(from_grid(to_grid(x) * to_grid(y)), want, 1e-12)


@pytest.mark.parametrize(("lmax", "count"), [(1, 11), (2, 34), (3, 86)])
def test_harmonics_have_few_frequencies(lmax, count):
    series = meridian_series(lmax, "integral")
    order_zero = series[0].count_nonzero().item()
    # In complex form an order m > 0 stands for harmonics m and -m at the frequencies m and -m.
    assert order_zero + 4 * (series.count_nonzero().item() - order_zero) == count
    angle = torch.linspace(0, 6, 9, dtype=torch.float64)
    waves = torch.arange(-lmax, lmax + 1)[:, None] * angle
    for l, v in itertools.product(range(lmax + 1), repeat=2):
        even = v % 2 == 0
        wave = series[v, l] @ (waves.cos() if even else -waves.sin())
        points = torch.stack([angle.sin() * 0, angle.cos(), angle.sin()], -1)
        want = tp.spherical_harmonics(l, points, False)[:, l + v] if v <= l else 0 * angle
        # Rounding of a sum of seven waves of order one.
        assert_close(wave, want, rtol=0, atol=1e-14)


def test_integrals_over_half_a_turn():
    k, grid = torch.arange(-6, 7), SphereGrid.gauss_legendre(30, 1)
    want = (grid.weights * (k[:, None] * grid.polar).cos()).sum(-1)
    # Cosines of up to 6 pi have errors of 18 units, and 30 of them are summed.
    assert_close(half_turn_integral(k), want, rtol=0, atol=1e-13)
    assert half_turn_integral(torch.tensor([0, 1, 2, 3])).tolist() == [2.0, 0.0, -2 / 3, 0.0]


PEAK = """
import resource
import torch
import equigeo.tensor_products as tp
from equigeo.tensor_products.signals.couplings import curl_coupling, gaunt_coupling

torch.set_num_threads(1)
product = tp.GauntTensorProduct(3, 3, 3, grid=(60, 60))

def step(samples):
    x, y = torch.randn(2, samples, 16).requires_grad_().unbind(0)
    torch.autograd.grad(product(x, y).square().sum(), (x, y))

step(100)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
step(20000)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in the units of Linux")
def test_peak_memory_of_a_step_is_far_below_the_values_on_the_grid():
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    run = subprocess.run(
        [sys.executable, "-c", PEAK], env=environment, capture_output=True, text=True, check=True
    )
    values = 20000 * 60 * 60 * 4
    assert int(run.stdout) < values / 8


every_basis = pytest.mark.parametrize("basis", ["component", "integral", "norm"])


def triple_product(f: Tensor, g: Tensor, points: Tensor) -> Tensor:
    # With normalize, derivatives across the sphere vanish: these are surface gradients.
    totals = (s.sum() + 0 * points.sum() for s in (f, g))
    gradients = [torch.autograd.grad(total, points, retain_graph=True)[0] for total in totals]
    return (points * torch.linalg.cross(*gradients)).sum(-1)


@every_basis
@pytest.mark.parametrize(
    ("make", "methods", "of_functions", "floor"),
    [
        (GauntTensorProduct, ["grid", "fourier", "paths"], lambda f, g, points: f * g, 0.0),
        (CurlTensorProduct, ["grid", "paths"], triple_product, 1.0),
    ],
    ids=["gaunt", "curl"],
)
@given(st.data())
def test_products_are_those_of_functions(make, methods, of_functions, floor, basis, data):
    lmax1, lmax2 = data.draw(st.tuples(st.integers(0, 6), st.integers(0, 6)))
    product = make(lmax1, lmax2, lmax1 + lmax2, data.draw(st.sampled_from(methods)), basis)
    points = torch.nn.functional.normalize(random(7, 3), dim=-1).requires_grad_()
    harmonics = tp.spherical_harmonics(range(lmax1 + lmax2 + 1), points, True, basis)
    x, y = signals(product, 7)
    f, g, h = ((s * harmonics[:, : s.shape[-1]]).sum(-1) for s in (x, y, product(x, y)))
    want = of_functions(f, g, points)
    assert (h - want).abs().max() <= 1e-12 * (floor + want.abs().max())


@pytest.mark.parametrize(
    ("make", "grids"),
    [
        (GauntTensorProduct, [(5, 9), (7, 12), (100, 99), fejer(9, 9)]),
        (CurlTensorProduct, [None, (4, 8), fejer(8, 8), (9, 12)]),  # one point less is enough
    ],
)
def test_exact_grids_give_equal_products(make, grids):
    want = make(2, 2, 4, "paths")(SINES, COSINES)
    for grid in grids:
        assert close(make(2, 2, 4, grid=grid)(SINES, COSINES), want, 1e-13)


def triples(lmax: int, lmax_out: int) -> list[tuple[int, int, int]]:
    ranges = range(lmax + 1), range(lmax + 1), range(lmax_out + 1)
    return [triple for triple in itertools.product(*ranges) if allowed(*triple)]


def paths(product: MatrixTensorProduct, lmax: int, x: Tensor, y: Tensor) -> Tensor:
    """The same as a sum of couplings."""
    z = torch.zeros(*x.shape[:-1], product.irreps_out.dim, dtype=x.dtype)
    lmax_out = math.isqrt(product.irreps_out.dim) - 1
    for l1, l2, l3 in triples(lmax, lmax_out):
        z[..., block(l3)] += product.coefficient(l1, l2, l3) * couple(l1, l2, l3, x, y)
    return z


@pytest.mark.parametrize("normalization", ["none", "component"])
@pytest.mark.parametrize("t", [1, 2, 3])
def test_every_path_has_the_strength_of_the_6j_symbol(t, normalization):
    product = MatrixTensorProduct(2 * t, 2 * t, 2 * t, t, normalization=normalization)
    for l1, l2, l3 in triples(2 * t, 2 * t):
        eye = torch.eye((2 * t + 1) ** 2, dtype=torch.float64)
        made = product(eye[block(l1), None], eye[None, block(l2)])[..., block(l3)]
        scale = math.sqrt((2 * l1 + 1) * (2 * l2 + 1) * (2 * l3 + 1))
        kappa = (-1) ** l3 * wigner_6j_symbol(l1, l2, l3, t, t, t)
        kappa *= 1 if normalization == "none" else scale
        want = kappa * couple(l1, l2, l3, eye[:, None], eye[None])[block(l1), block(l2)]
        assert_close(made, want, rtol=0, atol=1e-15 * scale)
        same = tolerance(torch.float64)["rtol"]
        assert product.coefficient(l1, l2, l3) == pytest.approx(kappa, rel=same)


@given(st.integers(0, 4), st.integers(0, 2), st.data())
def test_any_t_gives_the_sum_of_its_paths(lmax, above, data):
    lmax_out = data.draw(st.integers(0, 2 * lmax))
    t = (max(lmax, lmax_out) + 1) // 2 + above
    product = MatrixTensorProduct(lmax, lmax, lmax_out, t)
    x, y = signal(lmax, 3), signal(lmax, 3, name="y")
    assert close(product(x, y), paths(product, lmax, x, y), 1e-12)


def test_the_smallest_t_is_the_default():
    sizes = [(1, 1, 2), (2, 2, 2), (2, 2, 4), (3, 1, 2), (0, 0, 0), (5, 5, 0)]
    assert [MatrixTensorProduct(*degrees).t for degrees in sizes] == [1, 1, 2, 2, 0, 3]


def test_few_strengths_vanish_by_accident():
    missing = {(3, 5, 5), (5, 3, 5), (5, 5, 3)}
    product = MatrixTensorProduct(6, 6, 6, t=3)
    assert len(triples(6, 6)) == 175
    zeros = {triple for triple in triples(6, 6) if product.coefficient(*triple) == 0}
    assert zeros == missing
    x, y = signal(6), signal(6, name="y")
    for l1, l2, l3 in [*missing, (3, 5, 4)]:
        one, two = torch.zeros(2, 49, dtype=torch.float64)
        one[block(l1)], two[block(l2)] = x[block(l1)], y[block(l2)]
        # sums of products of numbers below one half, in units of 5.6e-17
        vanishes = bool(product(one, two)[block(l3)].abs().max() < 1e-15)
        assert vanishes == ((l1, l2, l3) in missing)


@pytest.mark.parametrize("degrees", [(1, 1, 2), (2, 1, 3), (0, 2, 2), (3, 3, 3)], ids=str)
def test_one_parity_is_equivariant_under_rotations_only(degrees):
    product = MatrixTensorProduct(*degrees)
    assert product.rep_out.group == SO(3)
    inputs = inputs_of(product, 3)
    assert_equivariant(product, inputs=inputs)
    if degrees != (0, 2, 2):  # a scalar makes no odd path
        whole = product.irreps_in1, product.irreps_in2
        with pytest.raises(AssertionError, match=r"not equivariant under O\(3\).* determinant -1"):
            assert_equivariant(product, whole, product.irreps_out, inputs=inputs)


@pytest.mark.parametrize("parities", list(itertools.product((0, 1), repeat=2)), ids=str)
def test_parities_multiply_exactly(parities):
    single, both = MatrixTensorProduct(2, 2, 3), MatrixTensorProduct(2, 2, 3, parity="both")
    assert str(both.irreps_in1) == "1x0e+1x1e+1x2e+1x0o+1x1o+1x2o"
    x, y = signal(2, 4), signal(2, 4, name="y")
    families = torch.zeros(2, 4, 2, 9, dtype=torch.float64)
    families[0, :, parities[0]], families[1, :, parities[1]] = x, y
    z = both(*families.flatten(-2)).unflatten(-1, (2, 16))
    made = sum(parities) % 2
    # the same sums of numbers of order one, in units of 2.2e-16
    assert_close(z[:, made], single(x, y), rtol=0, atol=1e-15)
    assert not z[:, 1 - made].any()


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


def paths_of_vectors(product: VectorSignalTensorProduct):
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


@every_basis
@every_kind
@pytest.mark.parametrize("degrees", [(1, 1, 2), (2, 1, 3), (0, 2, 2)], ids=str)
def test_products_of_vector_signals_are_pointwise(degrees, scalars, basis):
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


@every_basis
@pytest.mark.parametrize("degrees", [(1, 1, 2), (3, 2, 2)], ids=str)
def test_every_path_has_the_strength_of_the_9j_symbol(degrees, basis):
    product = VectorSignalTensorProduct(*degrees, basis)
    eyes = [torch.eye(rep.dim, dtype=torch.float64) for rep in product.rep_in]
    made = product(eyes[0][:, None], eyes[1][None])
    sides = product.irreps_in1, product.irreps_in2, product.irreps_out
    slices = [side.slices() for side in sides]
    for (a, b, c), terms in paths_of_vectors(product):
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
def test_too_small_grids_raise_and_would_be_wrong(grid):
    refused("polynomials of degree 8", VectorSignalTensorProduct, 2, 2, 4, grid=grid)
    product = VectorSignalTensorProduct(2, 2, 4)
    inputs = inputs_of(product)
    want = product(*inputs)
    found = grid if isinstance(grid, SphereGrid) else SphereGrid.gauss_legendre(*grid)
    factors = found.harmonics(2)
    product.body = GridMethod(factors, factors, analysis(found, 4, "component"))
    assert not close(product(*inputs), want, 1e-4)
    larger = VectorSignalTensorProduct(2, 2, 4, grid=(7, 12))
    assert close(larger(*inputs), want, 1e-13)
    for other in ((3, 8), (4, 7)):
        refused("exact for polynomials of degree 7", CurlTensorProduct, 2, 2, 4, grid=other)


def multiply_adds(make: Callable[..., Any], degrees: Iterable[int], *options: str) -> list[int]:
    return [make(l, l, 2 * l, *options).multiply_adds() for l in degrees]


def test_multiply_adds_are_counted():
    want = [231, 1115, 3115, 6687, 12287, 20371, 31395, 45815, 64087, 86667]
    assert multiply_adds(GauntTensorProduct, range(1, 11)) == want
    # (2, 1) -> 1 on 3 x 5: to the grid, product, back
    want = 3 * (9 + 5 * 5) + 3 * (4 + 3 * 5) + 15 + 3 * (4 + 3 * 5)
    assert GauntTensorProduct(2, 1, 1).multiply_adds() == want
    # non-zeros of even paths
    assert multiply_adds(GauntTensorProduct, range(1, 5), "paths") == [21, 162, 708, 2229]
    # constants: one number each way, and transforms of one point, which cost nothing
    assert multiply_adds(GauntTensorProduct, [0], "fourier") == [1 + 1 + 1 + 1]
    middle, most = multiply_adds(GauntTensorProduct, (8, 16), "fourier")
    assert most / middle < 2**3.2  # the cube of the degree: conversions dominate
    # 3 x 5 points for degree 1: two gradients each way in, two products, one way out
    want = 4 * 3 * (4 + 3 * 5) + 2 * 15 + 3 * (9 + 5 * 5)
    assert multiply_adds(CurlTensorProduct, [1]) == [want]
    assert multiply_adds(CurlTensorProduct, range(1, 4), "paths") == [6, 82, 424]
    want = [180, 1200, 4312, 11340, 24684, 47320, 82800, 135252, 209380, 310464]
    assert multiply_adds(MatrixTensorProduct, range(1, 11)) == want
    assert MatrixTensorProduct(2, 2, 4, parity="both").multiply_adds() == 2 * 1200
    grid = GauntTensorProduct(2, 1, 3).multiply_adds()
    blocks = [9 * sum((2 * l + 1) ** 2 for l in range(lmax + 1)) for lmax in (2, 1, 3)]
    size = 9 + 4 + 16
    for scalars, products, mixing in ((False, 5, 15), (True, 8, 32)):
        vectors = VectorSignalTensorProduct(2, 1, 3, scalars=scalars)
        assert vectors.multiply_adds() == products * grid + sum(blocks) + mixing * size
