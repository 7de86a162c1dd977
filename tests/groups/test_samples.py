"""Weighted samples of groups: rotations, stretches and combinations."""

import math
from functools import partial

import pytest
import torch

from equigeo.groups import (
    GL,
    SL,
    SO,
    Affine,
    GLPlus,
    GroupSamples,
    O,
    Scaling,
    Similarity,
    equidistant_rotations,
    finite_rotations,
    grid_stretches,
    haar_rotations,
    multiply_samples,
    pair_samples,
    point_group,
    sample_stretches,
)
from equigeo.testing import tolerance
from tests.groups.cases import CLOSE, STRETCHED, generator, paired
from tests.wrong_inputs import refused


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fields_describe_the_same_elements(samples, dtype):
    samples = samples.to(dtype=dtype)
    close = tolerance(dtype, terms=9, condition=20)
    identity = torch.eye(samples.group.n, dtype=dtype).expand_as(samples.h)
    torch.testing.assert_close(samples.h @ samples.h_inv, identity, **close)
    assert samples.group.contains(samples.h).all()
    torch.testing.assert_close(samples.group.coordinates(samples.h), samples.coordinates, **close)
    torch.testing.assert_close(samples.determinant, torch.linalg.det(samples.h), **close)
    if isinstance(samples.group, SL):
        torch.testing.assert_close(samples.determinant, torch.ones(30, dtype=dtype), **close)
    assert samples.radius == pytest.approx(float(samples.group.log_stretch(samples.h).max()))
    near = tolerance(dtype, terms=30)["atol"]
    assert float(samples.mean_weight.sum()) == pytest.approx(1.0, abs=near)
    assert samples.h.data_ptr() != samples.h_inv.data_ptr()


def test_inverses_are_as_precise_as_the_elements():
    c = sample_stretches(SL(2), 200, 0.158, generator=generator()).coordinates.float()
    samples = GroupSamples.from_coordinates(SL(2), c, torch.ones(200))
    error = (samples.h @ samples.h_inv - torch.eye(2)).abs().max()
    epsilon = torch.finfo(torch.float32).eps
    assert float(error) < 4 * epsilon
    assert float((torch.linalg.det(samples.h) - 1).abs().max()) < 8 * epsilon


def assert_inverses(samples: GroupSamples) -> None:
    identity = torch.eye(samples.group.n).double().expand_as(samples.h)
    torch.testing.assert_close(samples.h @ samples.h_inv, identity, **CLOSE)


def test_action_from_the_left(samples):
    group = samples.group
    g = group.sample(1, radius=0.5, generator=generator(5))[0]
    g = g if torch.linalg.det(g) > 0 else g @ group.components()[1]
    moved = samples.act(g)
    torch.testing.assert_close(moved.h, g @ samples.h, **CLOSE)
    torch.testing.assert_close(moved.h_inv, samples.h_inv @ torch.linalg.inv(g), **CLOSE)
    assert torch.equal(moved.weight, samples.weight)
    h = samples.h_inv[:, None] @ samples.h
    torch.testing.assert_close(moved.h_inv[:, None] @ moved.h, h, **CLOSE)
    affine = samples.act(group.convert(g, Affine(group)))
    torch.testing.assert_close(affine.coordinates, moved.coordinates)
    assert samples.to(dtype=torch.float32).act(g).h.dtype == torch.float32


def test_selection_storage_and_repr():
    samples = paired(SL(2))
    part = samples.select(torch.tensor([3, 1]))
    assert len(part) == 2
    assert torch.equal(part.h, samples.h[[3, 1]])
    assert torch.equal(part.weight, samples.weight[[3, 1]])
    assert len(samples.select(samples.coordinates[:, 0] > 0)) < 30
    nothing = torch.zeros(30, dtype=torch.bool)
    refused("needs at least one element", samples.select, nothing)
    rotations = equidistant_rotations(5)
    one = GroupSamples.from_coordinates(SO(2), torch.zeros(3, 1), torch.ones(3))
    for found in (rotations, one):
        found.h_inv.zero_()
        assert SO(2).contains(found.h).all()
    assert repr(grid_stretches(Scaling(2), 0.5, 3)) == "GroupSamples(Scaling(2), N=3, radius=0.5)"


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_weights_must_be_positive_and_finite(bad):
    make, zeros = GroupSamples.from_coordinates, torch.zeros(2, 3)
    refused("weights must be positive and finite", make, SL(2), zeros, torch.tensor([1.0, bad]))
    if bad != -1.0 and bad != 0.0:
        refused("coordinates must be finite", make, SL(2), zeros + bad, torch.ones(2))


def test_fields_that_do_not_match_raise():
    good, make = paired(SL(2), 4), GroupSamples.from_coordinates
    c, weight, zeros = good.coordinates, good.weight, torch.zeros(4, 4)
    refused(r"weight of 4 samples of SL\(2\) must be \(4,\)", make, SL(2), c, weight[1:])
    refused(r"coordinates of SL\(2\) are \(\.\.\., 3\), got", make, SL(2), zeros, zeros[0] + 1)
    refused(r"weight must be torch\.float64 on cpu as h is", make, SL(2), c, weight.float())
    refused("h_inv of 4 samples", GroupSamples, SL(2), good.h, good.h_inv[:3], weight, c)
    message = r"must be \(4, 3, 3\), got \(4, 2, 2\)"
    refused(message, GroupSamples, SL(3), good.h, good.h_inv, weight, c)
    message = r"must be float32 or float64, got torch\.float16"
    refused(message, good.to, dtype=torch.float16)
    for bad in (Affine(SL(2)), "SL(2)"):
        refused("group must be a LinearGroup", make, bad, c, weight, error=TypeError)
    message, nothing = "needs at least one element, got none", weight[:0]
    refused(message, make, SL(2), c[:0], nothing)
    refused(message, GroupSamples.from_elements, SL(2), good.h[:0], nothing)
    outside = 2 * torch.eye(2)[None], torch.ones(1)
    refused("no elements of SL", GroupSamples.from_elements, SL(2), *outside)
    rotations, shear = equidistant_rotations(4), torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    for bad in (shear, torch.diag(torch.tensor([-1.0, 1.0]))):
        refused("4 of 4 matrices are no elements of SO", rotations.act, bad)
    refused("g must be one element", rotations.act, shear.expand(3, 2, 2))
    refused("elements of SO", rotations.act, torch.eye(4))


PRODUCT = tolerance(torch.float64, terms=3)["atol"]


def closed(samples: GroupSamples) -> bool:
    """Whether all products of two elements are elements."""
    products = (samples.h[:, None] @ samples.h).flatten(0, 1)
    distance = (products[:, None] - samples.h).abs().amax((-2, -1))
    return bool((distance.amin(1) < PRODUCT).all())


def test_equidistant_rotations_leave_the_full_turn_out():
    samples = equidistant_rotations(8, offset=0.1)
    angle = samples.coordinates[:, 0] % math.tau
    torch.testing.assert_close(angle, 0.1 + math.tau / 8 * torch.arange(8).double(), **CLOSE)
    assert samples.weight.tolist() == [1 / 8] * 8
    # exact for all frequencies below the number of samples; a duplicated endpoint is not
    for frequency in range(1, 8):
        mean = (samples.weight * (frequency * samples.coordinates[:, 0]).cos()).sum()
        assert abs(float(mean)) < tolerance(torch.float64, terms=8)["atol"]
    duplicated = torch.linspace(-math.pi, math.pi, 8)
    assert abs(float(duplicated.cos().mean())) > 0.1
    assert equidistant_rotations(4).h.abs().sum() == 8  # quarter turns without rounding


@pytest.mark.parametrize(
    ("name", "order", "degree"),
    [("dihedral", 4, 1), ("tetrahedral", 12, 2), ("octahedral", 24, 3), ("icosahedral", 60, 5)],
)
def test_finite_rotations(name, order, degree):
    samples = finite_rotations(name)
    assert len(samples) == order
    assert closed(samples)
    assert torch.equal(samples.h[0], torch.eye(3).double())
    assert SO(3).contains(samples.h, tol=1e-15).all()
    different = (samples.h[:, None] - samples.h).abs().amax((-2, -1)) > 0.1
    assert int(different.sum()) == order * (order - 1)
    if order < 60:
        assert torch.equal(samples.h, samples.h.round())
    # characters integrate to zero up to the stated degree, and no further
    angle = samples.coordinates.norm(dim=1)
    means = []
    for l in range(1, degree + 2):
        character = sum(((2 * torch.cos(m * angle)) for m in range(1, l + 1)), torch.ones(order))
        means.append(float(character.mean()))
    near = tolerance(torch.float64, terms=order)["atol"]
    assert means[:-1] == pytest.approx([0.0] * degree, abs=near)
    assert means[-1] > 0.9


def test_turned_finite_rotations():
    rotation = SO(3).haar(1, generator=generator())[0]
    samples = finite_rotations("octahedral", rotation)
    gamma = finite_rotations("octahedral").h
    torch.testing.assert_close(samples.h, rotation @ gamma, **CLOSE)
    assert not closed(samples)
    relative = (samples.h_inv[:, None] @ samples.h).flatten(0, 1)
    distance = (relative[:, None] - gamma).abs().amax((-2, -1)).amin(1)
    assert float(distance.max()) < PRODUCT


POINT_GROUPS = {  # elements, and how many of them are reflections
    "C_1": (1, 0), "C_3": (3, 0), "D_3": (6, 0), "T": (12, 0), "O": (24, 0), "I": (60, 0),
    "C_s": (2, 1), "C_i": (2, 1), "C_2v": (4, 2), "C3v": (6, 3), "C_5v": (10, 5), "C_2h": (4, 2),
    "C_3h": (6, 3), "D_2h": (8, 4), "D_3h": (12, 6), "D6h": (24, 12), "D_2d": (8, 4),
    "D_3d": (12, 6), "D_5d": (20, 10), "S_4": (4, 2), "S6": (6, 3), "S_8": (8, 4),
    "T_d": (24, 12), "Th": (24, 12), "O_h": (48, 24), "Ih": (120, 60),
}  # fmt: skip


@pytest.mark.parametrize("name", POINT_GROUPS)
def test_point_groups(name):
    samples, (order, reflections) = point_group(name), POINT_GROUPS[name]
    assert samples.group == O(3)
    assert len(samples) == order
    assert int((torch.linalg.det(samples.h) < 0).sum()) == reflections
    assert torch.equal(samples.h[0], torch.eye(3).double())
    assert closed(samples)
    different = (samples.h[:, None] - samples.h).abs().amax((-2, -1)) > 0.1
    assert int(different.sum()) == order * (order - 1)
    assert_inverses(samples)
    if order > 2:  # a set without one of its elements is no group
        assert not closed(samples.select(torch.arange(order - 1)))


def test_point_groups_have_their_mirrors():
    def has(name: str, *diagonal: float) -> bool:
        element = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
        return bool((point_group(name).h - element).abs().amax((1, 2)).amin() < PRODUCT)

    inversion, flat = (-1.0, -1.0, -1.0), (1.0, 1.0, -1.0)
    assert [has(name, *inversion) for name in ("C_i", "T_h", "D_3d", "S_6")] == [True] * 4
    assert [has(name, *inversion) for name in ("T_d", "D_3h", "D_2d", "S_4")] == [False] * 4
    assert [has(name, *flat) for name in ("C_s", "C_3h", "D_3h", "O_h")] == [True] * 4
    assert [has(name, *flat) for name in ("C_3v", "D_3d", "T_d", "C_i")] == [False] * 4
    methane = torch.tensor([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()
    moved = methane @ point_group("T_d").h.mT
    assert torch.equal(torch.cdist(moved, methane[None]).amin(-1), torch.zeros(24, 4).double())


@pytest.mark.parametrize("group", [O(2), O(3), GL(3)], ids=str)
def test_samples_may_be_reflections(group):
    h = group.sample(8, radius=0.5, generator=generator())
    samples = GroupSamples.from_elements(group, h, torch.ones(8).double())
    assert 0 < int((torch.linalg.det(h) < 0).sum()) < 8
    assert_inverses(samples)
    torch.testing.assert_close(samples.determinant, torch.linalg.det(h).abs(), **CLOSE)
    proper = group.from_coordinates(samples.coordinates)
    mirror = group.components()[1]
    want = torch.where(torch.linalg.det(h)[:, None, None] < 0, h @ mirror, h)
    torch.testing.assert_close(proper, want, **CLOSE)
    torch.testing.assert_close(samples.act(mirror).h, mirror @ h, **CLOSE)


def test_pairs_and_products():
    stretches, rotations = grid_stretches(SL(2), 1.0, 3), equidistant_rotations(9, 0.2)
    pairs = pair_samples(stretches, rotations)
    torch.testing.assert_close(pairs.h, stretches.h @ rotations.h, **CLOSE)
    torch.testing.assert_close(pairs.weight, stretches.weight, **CLOSE)
    every = multiply_samples(stretches, rotations)
    want = (stretches.h[:, None] @ rotations.h).flatten(0, 1)
    torch.testing.assert_close(every.h, want, **CLOSE)
    torch.testing.assert_close(every.weight[:9], stretches.weight[0].expand(9) / 9, **CLOSE)
    torch.testing.assert_close(every.weight.sum(), stretches.weight.sum(), **CLOSE)
    for samples in (pairs, every):
        torch.testing.assert_close(samples.group.coordinates(samples.h), samples.coordinates)
        assert_inverses(samples)


def test_scalings_with_rotations_are_similarities():
    samples = multiply_samples(
        grid_stretches(Similarity(3), 0.5, 3), finite_rotations("octahedral")
    )
    assert len(samples) == 72
    assert Similarity(3).contains(samples.h, tol=1e-12).all()
    samples = multiply_samples(grid_stretches(GL(3), 0.5, 2), point_group("C_3v"))
    assert_inverses(samples)


def test_factors_that_do_not_match_raise():
    stretches, rotations = grid_stretches(SL(2), 1.0, 3), equidistant_rotations(4)
    refused("got 9 stretches and 4 rotations", pair_samples, stretches, rotations)
    message = r"need rotations in SO\(2\), got samples of SO\(3\)"
    refused(message, multiply_samples, stretches, finite_rotations("dihedral"))
    scalings = grid_stretches(Scaling(2), 1.0, 3)
    refused("need rotations in None", multiply_samples, scalings, rotations)
    products = multiply_samples(stretches, rotations)
    refused("got some with a rotation", multiply_samples, products, rotations)
    single = rotations.to(dtype=torch.float32)
    refused("must agree in type", multiply_samples, stretches, single)


def test_weights_are_the_density_over_that_of_the_draws():
    std = 0.4
    samples = sample_stretches(GLPlus(3), 20, std, generator=generator())
    stretch = samples.coordinates[:, :6]
    normal = torch.exp(-stretch.square() / (2 * std**2)) / (std * math.sqrt(math.tau))
    density = GLPlus(3).haar_density(stretch)
    torch.testing.assert_close(samples.weight, density / normal.prod(-1) / 20, **CLOSE)


def test_published_sampler_is_a_special_case():
    std = math.sqrt(0.1) / 2
    near = 0.01  # three digits, and three standard errors of 50,000, at most 0.32 % each
    for group, rms in ((GLPlus(2), 0.274), (SL(2), 0.224)):
        samples = sample_stretches(group, 50_000, std, generator=generator())
        y = samples.coordinates[:, : group.symmetric_dimension]
        assert float(y.square().sum(-1).mean().sqrt()) == pytest.approx(rms, rel=near)
    samples = sample_stretches(GLPlus(2), 50_000, std, generator=generator())
    assert float(samples.determinant.log().std()) == pytest.approx(0.224, rel=near)


@pytest.mark.parametrize("group", [SL(2), GLPlus(2), Scaling(2), Similarity(3), SL(3)], ids=str)
def test_all_samplers_estimate_the_same_integral(group):
    width, extent, flat = 0.2, 1.0, group == SL(3)

    def integral(samples: GroupSamples) -> float:
        y = samples.coordinates[:, : group.symmetric_dimension]
        return float((samples.weight * torch.exp(-y.square().sum(-1) / (2 * width**2))).sum())

    want = integral(grid_stretches(group, extent, 7 if flat else 17))
    plain = (width * math.sqrt(math.tau)) ** group.symmetric_dimension
    assert want >= plain * 0.99999  # the density is at least 1
    for k, window, quasi, bound in (
        (40_000, {"std": 0.3}, False, 0.03),
        (40_000, {"radius": extent}, False, 0.2 if flat else 0.06),
        (4096, {"std": 0.3}, True, 0.02),
        (4096, {"radius": extent}, True, 0.1 if flat else 0.02),  # few lie where the function does
    ):
        samples = sample_stretches(group, k, **window, quasi=quasi, generator=generator())
        assert integral(samples) == pytest.approx(want, rel=bound), (window, quasi)


def test_samplers_follow_their_generator():
    normal = partial(sample_stretches, SL(2), 9, 0.3)
    ball = partial(sample_stretches, SL(2), 9, radius=0.3)
    sobol = partial(sample_stretches, SL(2), 9, std=0.3, quasi=True)
    for make in (normal, ball, sobol, partial(haar_rotations, 3, 9)):
        first, second, other = (make(generator=generator(k)).coordinates for k in (1, 1, 2))
        assert torch.equal(first, second)
        assert not torch.equal(first, other)
    before, make = torch.random.get_rng_state(), partial(sample_stretches, SL(3), 16, quasi=True)
    assert torch.equal(make(radius=1.0).h, make(radius=1.0).h)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("group", STRETCHED, ids=str)
def test_single_sobol_points_are_the_centre_and_balls_have_a_radius(group):
    for window in ({"std": 0.5}, {"radius": 0.5}):
        assert not sample_stretches(group, 1, **window, quasi=True).coordinates.any()
    if not isinstance(group, Similarity):
        assert sample_stretches(group, 500, radius=0.7, generator=generator()).radius <= 0.7


def test_grid_of_scalings_is_closed_under_its_step():
    samples = grid_stretches(Scaling(3), 1.0, 5)
    step = 0.5
    moved = samples.act(math.exp(step) * torch.eye(3).double())
    torch.testing.assert_close(moved.h[:-1], samples.h[1:], **CLOSE)
    torch.testing.assert_close(samples.weight, torch.full((5,), step).double(), **CLOSE)
    torch.testing.assert_close(samples.determinant.log(), 3 * samples.coordinates[:, 0], **CLOSE)


def test_impossible_windows_and_names_raise():
    for group in (SO(2), O(3), Affine(SL(2))):
        refused("with stretches such as SL", sample_stretches, group, 3, radius=1.0)
    message = "radius must be positive and finite, got 0"
    refused(message, sample_stretches, SL(2), 3, radius=0.0)
    refused("std must be positive and finite, got nan", sample_stretches, SL(2), 3, math.nan)
    refused("must be at least 1, got 0", sample_stretches, SL(2), 0, 1.0)
    refused("give either std or radius", sample_stretches, SL(2), 3)
    refused("points must be at least 2, got 1", grid_stretches, GL(2), 1.0, 1)
    refused("k must be at least 1, got 0", equidistant_rotations, 0)
    refused("offset must be finite", equidistant_rotations, 3, math.inf)
    refused("name must be one of dihedral, tetrahedral", finite_rotations, "cubic")
    refused("rotation must be a rotation", finite_rotations, "dihedral", 2 * torch.eye(3))
    message = "name must be a point group in Schoenflies notation: C_n"
    for name in ("", "C", "S_3", "T_v", "C_0v", "D_3v", "O_3", "tetrahedral", 3):
        refused(message, point_group, name)
