import math

import pytest
import torch
from torch.testing import assert_close

from equigeo.groups import O
from equigeo.ops import ScaleRule, SignRule, axis_flags, principal_axes, symmetric_eigen
from equigeo.ops.geometry.axis_flags import axis_flags_reference
from equigeo.ops.geometry.principal_axes import principal_axes_reference
from equigeo.testing import tolerance

pytestmark = pytest.mark.kernels

CLOUDS = 2000
TOLERANCES = (1e-7, 1e-4, 1e-5)


def clouds(dim, dtype):
    """Null axes, equal spreads, small margins and far clouds, in all combinations."""
    g = torch.Generator().manual_seed(dim)

    def choose(values, *shape):
        return torch.tensor(values)[torch.randint(len(values), shape, generator=g)].to(dtype)

    spread = choose([0.0, 1.0, 1.0 + 1e-6, 2.0, 5.0], CLOUDS, dim).sort(-1, descending=True).values
    margin = choose([-0.5, -3e-6, 0.0, 2e-6, 4e-4, 0.5], CLOUDS, dim)
    centroid = choose([0.0, -1.0, 300.0], CLOUDS, dim)
    ptr = torch.cat([torch.zeros(1), choose([0, 1, 3, 9], CLOUDS)]).cumsum(0).long()
    weight = choose([0.0, 1.0, 2.5], int(ptr[-1]))
    return spread, margin, centroid, ptr, weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signs", [0, 1, 2, 3])
@pytest.mark.parametrize("dim", [1, 2, 3, 5])
def test_flags_are_those_of_the_reference(dim, signs, weighted, dtype):
    *tensors, weight = clouds(dim, dtype)
    weight = weight if weighted else None
    gap, *flags = axis_flags(*tensors, weight, signs, TOLERANCES)
    double = [t.double() if t.is_floating_point() else t for t in tensors]
    want, *others = axis_flags_reference(
        *double, weight if weight is None else weight.double(), signs, *TOLERANCES
    )
    assert_close(gap.double(), want, **tolerance(dtype))
    for mine, theirs in zip(flags, others, strict=True):
        assert torch.equal(mine, theirs)
    ambiguous, degenerate, counts = flags
    assert int(counts[1]) == int((ambiguous.any(-1) | degenerate.any(-1)).sum())
    # the comparison is not of nothing; a single axis depends on nothing
    some = signs == 1 or (signs > 1 and dim > 1)
    assert bool(ambiguous.any()) == some
    assert int(counts[1]) < CLOUDS


def test_clouds_that_are_not_finite_are_counted_and_have_no_flag():
    *tensors, _ = clouds(3, torch.float64)
    for rows in tensors[:3]:
        rows[[4, 7]] = math.nan
    _, ambiguous, degenerate, counts = axis_flags(*tensors, None, 3, TOLERANCES)
    assert int(counts[0]) == 2
    assert not ambiguous[[4, 7]].any()
    assert not degenerate[[4, 7]].any()


REST = (True, 1, 1, 1e-14, 1e-10)


def cloud(points=5, dim=3):
    g = torch.Generator().manual_seed(points)
    return torch.randn(points, dim, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("points", [1023, 1024, 1025, 2048, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_clouds_of_several_parts_are_those_of_the_reference(points, weighted):
    x = cloud(points) * torch.tensor([3.0, 2.0, 1.0]) + 100
    ptr = torch.tensor([0, points])
    weight = torch.linspace(0, 1, points, dtype=torch.float64) if weighted else None
    got = principal_axes(x, ptr, weight, *REST)
    want = principal_axes_reference(x, ptr, weight, *REST)
    for mine, theirs in zip(got, want, strict=True):
        assert_close(mine, theirs, **tolerance(torch.float64, points))


@pytest.mark.parametrize("scale", [0, 1])
@pytest.mark.parametrize("points", [1, 5, 31, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_clouds_are_as_good_as_their_digits(points, weighted, scale):
    x = (cloud(points).square() * torch.tensor([3.0, 2.0, 1.0]) + 30).float()
    ptr = torch.tensor([0, points])
    weight = torch.linspace(0, 1, points) if weighted else None
    rest = (True, 1, scale, 1e-6, 1e-6)
    got = principal_axes(x, ptr, weight, *rest)
    double = None if weight is None else weight.double()
    want = principal_axes_reference(x.double(), ptr, double, *rest)
    bound = tolerance(torch.float32, 100)
    for mine, theirs in zip(got, want, strict=True):
        scale = max(1.0, float(theirs.abs().max()))
        assert_close(mine.double() / scale, theirs / scale, **bound)
    assert not (got[0].signbit() & (got[0] == 0)).any()  # no negative zeros


@pytest.mark.parametrize("group", [1, 7, 8, 9, 40])
def test_neighbours_change_no_bit(group):
    sizes = torch.arange(group) * 37 % 300
    ptr = torch.cat([torch.zeros(1), sizes]).cumsum(0).long()
    x = cloud(int(ptr[-1])).float().square()
    together = principal_axes(x, ptr, None, *REST[:3], 1e-6, 1e-6)
    for k in range(group):
        begin, end = ptr[k : k + 2].tolist()
        ends = torch.tensor([0, end - begin])
        alone = principal_axes(x[begin:end], ends, None, *REST[:3], 1e-6, 1e-6)
        assert torch.equal(alone[0], together[0][begin:end])
        for mine, theirs in zip(alone[1:], together[1:], strict=True):
            assert torch.equal(mine[0], theirs[k])


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_null_axes_are_the_last_ones_and_make_frames_right_handed(dim):
    x = torch.zeros(5, dim).double()
    x[:, 0] = torch.tensor([0.0, 1, 2, 5, 9])
    for signs in (2, 3):
        y, frame, _, spread, _, margin = principal_axes(
            x, torch.tensor([0, 5]), None, True, signs, 0, 1e-14, 1e-10
        )
        assert (spread[0] > 0).tolist() == [True] + [False] * (dim - 1)
        assert not y[:, 1:].any()
        assert_close(torch.linalg.det(frame), torch.ones(1).double())
        assert margin[0, 0] > 0
        assert not margin[0, 1:].any()


def test_rules_are_given_by_name_or_by_number():
    x = torch.linspace(0, 1, 24, dtype=torch.float64).sin().mul(9).sin().view(8, 3)
    ptr = torch.tensor([0, 8])

    def call(signs: int, scale: int) -> tuple[torch.Tensor, ...]:
        return principal_axes(x, ptr, None, True, signs, scale, 1e-10, 1e-10)

    named = torch.compile(
        lambda: call(SignRule.LAST, ScaleRule.PAIRS), fullgraph=True, backend="eager"
    )
    for got in (call(SignRule.LAST, ScaleRule.PAIRS), named()):
        assert all(torch.equal(*pair) for pair in zip(got, call(2, 3), strict=True))


def water() -> torch.Tensor:
    """A molecule with a mirror plane, whose torque between two axes vanishes by symmetry."""
    return torch.tensor([[0.0, 0.0, 0.0], [0.76, 0.59, 0.0], [-0.76, 0.59, 0.0]]).double()


def test_second_derivatives_at_a_symmetric_cloud_are_those_of_clouds_nearby():
    # Three atoms and one off the plane, so that there is a direction of motion for every axis.
    x = torch.cat([water(), torch.tensor([[0.0, 0.2, 1.3]]).double()])
    ptr = torch.tensor([0, len(x)])

    def energy(x):
        y, *_ = principal_axes(x, ptr, None, True, 0, 0, 1e-14, 1e-10)
        stiff = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
        # Even in every coordinate, whatever the signs of axes.
        return (stiff * y.square()).square().sum()

    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(energy(x), x, create_graph=True)[0]

    # Breaks the mirror, in which atoms 1 and 2 change places.
    direction = torch.zeros_like(x)
    direction[1, 0] = direction[2, 0] = 1.0
    direction[0, 1] = 0.3
    leaf = x.clone().requires_grad_()
    slope = torch.autograd.grad(energy(leaf), leaf, create_graph=True)[0]
    (found,) = torch.autograd.grad((slope * direction).sum(), leaf)
    step = 1e-6
    differences = (gradient(x + step * direction) - gradient(x - step * direction)) / (2 * step)
    # Step^2 / 6 = 1.7e-13 of a fourth derivative of 2.7e5, and rounding of gradients of seven, in
    # units of 9e-16, over the step.
    assert_close(found, differences.detach(), rtol=0, atol=1e-7)
    _, forward = torch.func.jvp(torch.func.grad(energy), (x,), (direction,))
    assert_close(forward, found, **tolerance(torch.float64, 12, condition=10))


def test_a_gradient_of_zero_has_the_derivative_of_any_other():
    x, direction = cloud(), cloud(6)[:5]
    ptr = torch.tensor([0, 5])
    rest = (None, True, 0, 0, 1e-14, 1e-10)
    leaf = x.clone().requires_grad_()
    y, *_ = principal_axes(leaf, ptr, *rest)
    zero = torch.zeros_like(y, requires_grad=True)
    (pulled,) = torch.autograd.grad(y, leaf, zero, create_graph=True)
    (tangent,) = torch.autograd.grad(pulled, zero, direction)
    step = 1e-6
    moved = [principal_axes(x + sign * step * direction, ptr, *rest)[0] for sign in (1, -1)]
    # Rounding of coordinates of order one by units of 2e-16, over the step.
    assert_close(tangent, (moved[0] - moved[1]) / (2 * step), rtol=0, atol=2e-9)


SPECTRA = {
    "generic": (3.0, 1.0, -2.0),
    "nearly twofold": (1.0, 1.0 - 1e-8, 0.1),
    "threefold": (1.0, 1.0, 1.0),
    "upper twofold": (1.0, 1.0, 0.2),
    "lower twofold": (1.0, 0.2, 0.2),
    "rank one": (1.0, 0.0, 0.0),
    "graded": (1.0, 1e-4, 1e-8),
    "zero": (0.0, 0.0, 0.0),
    "opposite": (1.0, 0.0, -1.0),
}


def matrices(spectrum, count=20_000):
    n = len(spectrum)
    g = O(n).haar(count, generator=torch.Generator().manual_seed(0))
    values = torch.tensor(spectrum, dtype=torch.float64)
    matrix = (g * values) @ g.mT
    return (matrix + matrix.mT) / 2, values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("size", [2, 3])
def test_residuals_and_orthogonality_for_every_spectrum(name, size, dtype):
    matrix, want = matrices(SPECTRA[name][:size])
    matrix = matrix.to(dtype)
    values, vectors = symmetric_eigen(matrix)
    bound = {torch.float64: 3e-15, torch.float32: 1.5e-6}[dtype]
    norm = max(1.0, float(want.abs().max()))
    residual = matrix @ vectors - vectors * values[:, None]
    assert float(residual.abs().max()) <= bound * norm
    gram = vectors.mT @ vectors - torch.eye(size, dtype=dtype)
    assert float(gram.abs().max()) <= bound
    assert float((values - want.to(dtype)).abs().max()) <= bound * norm
    assert (values.diff(dim=-1) <= 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150, 1e300])
def test_size_does_not_matter(scale):
    matrix, _ = matrices((3.0, 1.0, -2.0), 50)
    values, vectors = symmetric_eigen(matrix * scale)
    want, axes = symmetric_eigen(matrix)
    bound = tolerance(torch.float64, 3)
    assert_close(values / scale, want, **bound)
    assert_close(vectors, axes, **bound)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_matrices_that_are_not_finite_harm_no_other(size):
    matrix = torch.randn(10, size, size, generator=torch.Generator().manual_seed(0)).double()
    good = symmetric_eigen(matrix)
    for k, bad in ((3, torch.nan), (5, torch.inf)):
        matrix[k, 0, 0] = bad
    values, vectors = symmetric_eigen(matrix)
    fine = torch.tensor([k not in (3, 5) for k in range(10)])
    assert_close(values[fine], good[0][fine])
    assert_close(vectors[fine], good[1][fine])
    assert values[~fine].isnan().all()
    assert vectors[~fine].isnan().all()


def test_gradients_are_finite_where_eigenvalues_are_equal():
    matrix = torch.eye(3).double().expand(2, 3, 3).clone().requires_grad_()
    values, vectors = symmetric_eigen(matrix)
    (grad,) = torch.autograd.grad(values.sum() + vectors.sum(), matrix)
    assert grad.isfinite().all()


def test_other_sizes_go_to_pytorch():
    matrix = torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(1)).double()
    values, vectors = symmetric_eigen(matrix)
    symmetric = (matrix + matrix.mT) / 2
    assert_close(vectors * values[:, None] @ vectors.mT, symmetric)
