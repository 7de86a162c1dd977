import itertools
import math
import os
import subprocess
import sys

import pytest
import torch
from e3nn import o3
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import equigeo.tensor_products as tp
from equigeo.reps import wigner_3j
from equigeo.tensor_products import GauntTensorProduct, SphereGrid
from equigeo.tensor_products.signals.couplings import curl_coupling, gaunt_coupling
from equigeo.tensor_products.signals.fourier import half_turn_integral, meridian_series
from equigeo.tensor_products.signals.methods import GridMethod, analysis, synthesis
from tests.tensor_products.path_helpers import in_double
from tests.tensor_products.signal_helpers import COSINES, SINES, close, fejer, signals

METHODS = ["grid", "fourier", "paths"]
BASES = ["component", "integral", "norm"]


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


@given(
    degrees=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    method=st.sampled_from(METHODS),
    basis=st.sampled_from(BASES),
)
def test_is_the_pointwise_product_of_functions(degrees, method, basis):
    lmax1, lmax2 = degrees
    product = GauntTensorProduct(lmax1, lmax2, lmax1 + lmax2, method, basis)
    points = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    harmonics = tp.spherical_harmonics(range(lmax1 + lmax2 + 1), points, True, basis)
    x, y = signals(product, 7)
    f, g, h = ((s * harmonics[:, : s.shape[-1]]).sum(-1) for s in (x, y, product(x, y)))
    assert close(h, f * g, 1e-12)


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


def test_the_default_grid_is_the_smallest_that_is_exact():
    gauss = SphereGrid.gauss_legendre
    # Exact but for rounding of numbers of order one: 45 units in the last place.
    assert on_grid(2, 4, gauss(5, 9)) < 1e-14
    assert on_grid(2, 4, gauss(4, 9)) > 0.1
    assert on_grid(2, 4, gauss(5, 8)) > 0.1
    # The same.
    assert on_grid(2, 2, gauss(4, 7)) < 1e-14
    assert on_grid(2, 2, gauss(3, 7)) > 1e-3
    assert on_grid(2, 2, gauss(4, 6)) > 1e-3
    # The same.
    assert on_grid(2, 4, fejer(9, 9)) < 1e-14
    # One latitude less: off by several thousandths, neither exact nor useless.
    assert 2e-3 < on_grid(2, 4, fejer(8, 9)) < 2e-2


@pytest.mark.parametrize("grid", [(5, 9), (7, 12), (100, 99), fejer(9, 9)], ids=str)
def test_every_exact_grid_gives_the_same(grid):
    got = GauntTensorProduct(2, 2, 4, grid=grid)(SINES, COSINES)
    assert close(got, GauntTensorProduct(2, 2, 4, "paths")(SINES, COSINES), 1e-13)


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
    k = torch.arange(-6, 7)
    nodes, weights = (
        SphereGrid.gauss_legendre(30, 1).polar,
        SphereGrid.gauss_legendre(30, 1).weights,
    )
    want = (weights * (k[:, None] * nodes).cos()).sum(-1)
    # Cosines of up to 6 pi have errors of 18 units, and 30 of them are summed.
    assert_close(half_turn_integral(k), want, rtol=0, atol=1e-13)
    assert half_turn_integral(torch.tensor([0, 1, 2, 3])).tolist() == [2.0, 0.0, -2 / 3, 0.0]


def test_counts_of_the_grid():
    want = [231, 1115, 3115, 6687, 12287, 20371, 31395, 45815, 64087, 86667]
    assert [GauntTensorProduct(l, l, 2 * l).multiply_adds() for l in range(1, 11)] == want
    # (2, 1) -> 1 on 3 x 5: to the grid, product, back
    want = 3 * (9 + 5 * 5) + 3 * (4 + 3 * 5) + 15 + 3 * (4 + 3 * 5)
    assert GauntTensorProduct(2, 1, 1).multiply_adds() == want


def test_counts_of_the_other_methods():
    want = [21, 162, 708, 2229]  # non-zeros of even paths
    assert [GauntTensorProduct(l, l, 2 * l, "paths").multiply_adds() for l in range(1, 5)] == want
    # constants: one number each way, and transforms of one point, which cost nothing
    assert GauntTensorProduct(0, 0, 0, "fourier").multiply_adds() == 1 + 1 + 1 + 1
    counts = [GauntTensorProduct(l, l, 2 * l, "fourier").multiply_adds() for l in (4, 8, 16)]
    assert counts[2] / counts[1] < 2**3.2  # the cube of the degree: conversions dominate


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
