"""Sets of frames, averages over them, features lifted by them, and drawn frames."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from equigeo import mds
from equigeo.groups import SO, Affine, O
from equigeo.mds.frames import KINDS, draw_frames
from equigeo.mds.signs import parity_classes
from equigeo.reps import Irreps, Points, TensorRep
from equigeo.testing import tolerance
from tests.mds.clouds import (
    CUBE,
    DISPHENOID,
    ICOSAHEDRON,
    LINE,
    OCTAHEDRON,
    PLANAR,
    PYRAMID,
    QUIET,
    TETRAHEDRON,
    box,
    generator,
    generic,
    mirror,
    motions,
    polygon,
    turned,
)
from tests.tier import FULL, tier
from tests.wrong_inputs import refused

every_group = pytest.mark.parametrize("group", ["O", "SO"])
every_kind = pytest.mark.parametrize("kind", KINDS)
CLOSE = tolerance(torch.float64, terms=40)
# Forty points, and twenty for the largest eigenvalue over a gap.
EXACT = {"rtol": 0.0, "atol": tolerance(torch.float64, terms=40, condition=20)["atol"]}


def network(dim=3, seed=0):
    """A random function of a cloud that knows all directions, invariant under permutations."""
    g = generator(seed)
    first = torch.randn(dim, 16, generator=g, dtype=torch.float64)
    shift = torch.randn(16, generator=g, dtype=torch.float64)
    last = torch.randn(16, 4, generator=g, dtype=torch.float64)
    return lambda y: torch.tanh(torch.tanh(y @ first + shift).sum(-2) @ last / 4)


def averages(x, kind, group, fn=None):
    """Averages over the frames of a cloud and of moved and permuted ones."""
    fn = fn or network(x.shape[-1])
    for k, g in enumerate(motions(12 if FULL else 4, x.shape[-1], proper=group == "SO")):
        order = torch.randperm(len(x), generator=generator(k))
        moved = (x @ g.mT + 0.3 * k)[order]
        yield mds.frame_average(fn, mds.frames(moved, kind=kind, group=group))


def spread(x, kind, group, fn=None):
    values = torch.stack(list(averages(x, kind, group, fn)))
    return float((values - values[0]).abs().max())


SIMPLE = {
    "generic": generic(),
    "mirror": mirror(),
    "disphenoid": DISPHENOID,
    "box": box(3, 2, 1),
    "planar": PLANAR,
    "rectangle": torch.nn.functional.pad(box(2, 1), (0, 1)),
    "line": LINE,
    "pair": LINE[:2],
}
SOLIDS = {
    "tetrahedron": TETRAHEDRON,
    "cube": CUBE,
    "octahedron": OCTAHEDRON,
    "icosahedron": ICOSAHEDRON,
    "pyramid": PYRAMID,
    "prism": torch.cat([torch.nn.functional.pad(polygon(5), (0, 1), value=h) for h in (-1.0, 1.0)]),
    "pentagon": torch.nn.functional.pad(polygon(5), (0, 1)),
}


@every_kind
@every_group
def test_averages_are_invariant_where_the_spectrum_is_simple(group, kind):
    for name in tier(["generic", "mirror", "planar", "pair"], [*SIMPLE]):
        x = turned(SIMPLE[name])
        assert mds.frames(x, kind=kind, group=group).exact, name
        # Epsilon times 150, the largest eigenvalue over the least gap of "mirror", times slopes.
        assert spread(x, kind, group) < 1e-13, name


@pytest.mark.parametrize("name", SOLIDS)
@pytest.mark.parametrize("kind", ["anchor", "weighted"])
def test_frames_spanned_by_points_are_exact_for_every_spectrum(name, kind):
    x = turned(SOLIDS[name])
    for group in ("O", "SO"):
        assert mds.frames(x, kind=kind, group=group).exact
        assert spread(x, kind, group) < EXACT["atol"]


# Turns that map each to itself, times 2 for each of mirrored planes and of ends that are alike.
COUNTS = {"pyramid": (8, 4), "prism": (20, 10), "pentagon": (10, 10)}


def test_only_harmonic_frames_are_exact_where_two_eigenvalues_are_equal():
    for name, counts in COUNTS.items():
        x = turned(SOLIDS[name])
        for group, count in zip(("O", "SO"), counts, strict=True):
            found = mds.frames(x, kind="harmonic", group=group)
            assert found.exact
            assert len(found) == count
            assert spread(x, "harmonic", group) < CLOSE["atol"]
    few = mds.EmbedOptions(max_frames=12)  # three times the four of one angle, less than five
    found = mds.frames(turned(SOLIDS["prism"]), kind="harmonic", options=few)
    assert not found.exact
    assert len(found) == 4
    assert not mds.frames(turned(CUBE), kind="harmonic").exact
    for name in SOLIDS:
        for kind in ("joint", "frames", "soft"):
            assert not mds.frames(turned(SOLIDS[name]), kind=kind).exact, (name, kind)
    assert spread(turned(CUBE), "frames", "O") > 0.01


def test_harmonic_frames_of_clouds_that_no_turn_maps_to_themselves():
    x = generic(12)
    weights = torch.rand(12, generator=generator(5), dtype=torch.float64) + 0.5
    for weight in (None, weights):
        mass = torch.ones(12).double() if weight is None else weight
        centred = x - (mass @ x) / mass.sum()
        spectrum, axes = torch.linalg.eigh(centred.mT @ (mass[:, None] * centred))
        size = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
        equal = centred @ (axes * (size / spectrum.sqrt()))
        fn = network()
        seen = []
        for g in motions(6):
            found = mds.frames(equal @ g.mT + 1, kind="harmonic", weights=weight)
            assert found.exact
            assert len(found) == 2
            seen.append(mds.frame_average(fn, found))
        assert_close(torch.stack(seen[1:]), torch.stack(seen[:1] * 5), **EXACT)
        assert not mds.frames(equal, kind="joint", weights=weight).exact


@every_group
@pytest.mark.parametrize("kind", ["joint", "frames", "soft", "harmonic", "weighted"])
def test_weighted_frames_alone_are_continuous_where_eigenvalues_cross(kind, group):
    x = generic(12)
    x = x - x.mean(0)
    round_ = x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x / len(x))).mT
    stretch = torch.randn(2, 3, 3, generator=generator(), dtype=torch.float64)
    before, after = (round_ @ (torch.eye(3) + 1e-8 * (s + s.mT)) for s in stretch)
    fn = network()
    options = mds.EmbedOptions(fallback="ignore", gap_tol=0.0)
    sides = (mds.frames(x, kind=kind, group=group, options=options) for x in (before, after))
    one, two = (mds.frame_average(fn, frames) for frames in sides)
    jump = float((one - two).abs().max())
    # The clouds differ by 1e-8, times their size and slopes.
    assert jump < 1e-6 if kind == "weighted" else jump > 1e-3


def through_a_tie(name, steps):
    """Clouds on a path where the sign of an axis or the order of axes is undecided."""
    if name == "sign":
        return torch.stack(list(path_of_clouds(steps)))
    x = generic(12)
    x = x - x.mean(0)
    round_ = x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x / len(x))).mT
    size = torch.tensor([1.0, 1.0, 0.4 if name == "two axes" else 1.0], dtype=torch.float64)
    stretch = torch.tensor([[1.0, 0.3, 0.0], [0.3, -1.0, 0.0], [0.0, 0.0, 0.5]]).double()
    times = torch.linspace(-0.3, 0.3, steps, dtype=torch.float64)
    return torch.stack([round_ @ (torch.diag(size) + t * stretch) for t in times])


@pytest.mark.parametrize("name", ["sign", "two axes", "three axes"])
@every_group
def test_weighted_averages_change_by_the_step_on_paths_through_a_tie(name, group):
    jumps = {"weighted": [], "joint": []}
    for steps in (150, 600):
        clouds = through_a_tie(name, steps)
        for kind, largest in jumps.items():
            found = mds.frames(clouds, kind=kind, group=group, options=QUIET)
            assert len(found) <= 88 + QUIET.max_frames  # principal, directed and spanned ones
            seen = mds.frame_average(network(), found)
            largest.append(float(seen.diff(dim=0).abs().max()))
    long, short = jumps["weighted"]
    assert short < 0.4 * long  # a quarter of the step
    assert short < 0.12  # at most a hundred times the step, where all three gaps vanish
    assert jumps["joint"][1] > 0.8 * jumps["joint"][0] > 0.02


@given(seed=st.integers(0, 10**6), name=st.sampled_from([*SOLIDS, "box", "mirror"]))
@settings(max_examples=FULL * 80 + 20, deadline=None)
def test_weighted_averages_change_little_near_symmetric_clouds(seed, name):
    x = (SIMPLE | SOLIDS)[name]
    step = torch.randn(x.shape, generator=generator(seed), dtype=torch.float64)
    moved, half = x + 2e-6 * step, x + 1e-6 * step
    seen = [mds.frame_average(network(), mds.frames(y, kind="weighted")) for y in (x, half, moved)]
    # Slopes of the network and of weights: the inverse of softness, and of the angle to turn.
    assert float((seen[1] - seen[0]).abs().max()) < 1e-6 * 500
    assert float((seen[2] - seen[1]).abs().max()) < 1e-6 * 500


@pytest.mark.parametrize("name", [*SOLIDS, "box", "planar", "line", "pair"])
def test_gradients_of_weighted_averages_are_finite_at_ties(name):
    x = (SIMPLE | SOLIDS)[name].clone().requires_grad_()
    mds.frame_average(network(), mds.frames(x, kind="weighted")).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["sign", "two axes", "three axes"])
def test_gradients_of_weighted_averages_are_those_of_differences(name):
    x = through_a_tie(name, 60)[27].requires_grad_()  # with several kinds of frames
    average = lambda x: mds.frame_average(network(), mds.frames(x, kind="weighted"))  # noqa: E731
    assert torch.autograd.gradcheck(average, [x], fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["joint", "harmonic"])
def test_rounding_of_an_offset_decides_no_sign_and_no_direction(kind, dtype):
    fn = network()
    clouds = {
        "box": (box(3, 2, 1), 8),
        "rectangle": (SIMPLE["rectangle"], 4),
        "pair": (LINE[:2], 2),
    }
    if kind == "harmonic":
        clouds |= {name: (SOLIDS[name], COUNTS[name][0]) for name in ("prism", "pentagon")}
    for name, (x, count) in clouds.items():
        expected = mds.frame_average(fn, mds.frames(turned(x), kind=kind))
        for offset in (1e2, 1e3) if dtype == torch.float32 else (1e7, 1e8):
            for g in motions(4, 3):
                found = mds.frames((x @ g.mT + offset).to(dtype), kind=kind)
                assert len(found) == count, (name, offset)
                assert found.exact
                # Rounding of the offset, amplified by slopes and gaps of about ten.
                close = 100 * offset * torch.finfo(dtype).eps
                y = mds.frame_average(lambda y: fn(y.double()), found)
                assert_close(y, expected, rtol=0, atol=close)


def test_moments_within_their_rounding_make_frames_inexact():
    exact = []
    for k in range(12):
        x = box(3, 2, 1)
        x[0] *= 1 + 0.5**k  # from more to less skew than rounding at this offset makes
        assert mds.frames(turned(x)).exact
        sets = [mds.frames((x @ g.mT + 1e3).float()) for g in motions(4, 3)]
        assert len({len(found) for found in sets if found.exact}) <= 1
        exact += [bool(found.exact) for found in sets]
    assert not all(exact)
    assert any(exact)


@pytest.mark.parametrize(
    ("name", "counts"),
    [("generic", (1, 1)), ("mirror", (2, 1)), ("disphenoid", (4, 4)), ("box", (8, 4))],
)
def test_numbers_of_residual_frames(name, counts):
    x = turned(SIMPLE[name])
    for group, count in zip(("O", "SO"), counts, strict=True):
        found = mds.frames(x, group=group)
        assert len(found) == count
        assert_close(found.weight, torch.full((count,), 1 / count).double())
        result = mds.embed(x, group=group, sign="joint", options=QUIET)
        assert len(result.frames) == count
        assert bool(result.ambiguous.any()) == (count > 1)


def test_numbers_of_anchor_frames():
    for name, o, so in (
        ("generic", 2, 1),
        ("tetrahedron", 24, 12),
        ("octahedron", 48, 24),
        ("cube", 96, 48),
        ("icosahedron", 240, 120),
        ("pyramid", 8, 4),
    ):
        x = turned((SIMPLE | SOLIDS)[name])
        assert len(mds.frames(x, kind="anchor")) == o
        assert len(mds.frames(x, kind="anchor", group="SO")) == so


@pytest.mark.parametrize("name", ["cube", "box", "planar"])
@every_group
def test_copies_of_points_are_no_more_anchors(name, group):
    x = turned((SIMPLE | SOLIDS)[name])
    copies = torch.cat([x, x[torch.randperm(len(x), generator=generator())], x])
    once, thrice = (mds.frames(y, kind="anchor", group=group) for y in (x, copies))
    assert thrice.exact
    assert len(thrice) == len(once)
    assert spread(copies, "anchor", group) < EXACT["atol"]


def test_too_many_frames_are_thinned_out_and_said_not_to_be_exact():
    options = mds.EmbedOptions(max_frames=100)
    for kind in ("anchor", "weighted"):
        found = mds.frames(turned(ICOSAHEDRON), kind=kind, options=options)
        assert len(found) == 100 if kind == "anchor" else len(found) <= 100
        assert not found.exact
        assert_close(found.weight.sum(), torch.tensor(1.0).double())
    many = torch.randn(3000, 3, generator=generator(), dtype=torch.float64)
    assert mds.frames(many / many.norm(dim=1, keepdim=True), kind="weighted").exact


@every_kind
@every_group
def test_frames_are_frames(kind, group):
    batch = torch.stack([generic(8), turned(box(3, 2, 1)), generic(8, seed=4)])
    found = mds.frames(batch, kind=kind, group=group, scale="rms")
    gram = found.frame.mT @ found.frame
    assert_close(gram, torch.eye(3).double().expand_as(gram), **EXACT)
    if group == "SO":
        det = torch.linalg.det(found.frame)
        assert_close(det, torch.ones_like(det), **EXACT)
    assert_close(found.weight.sum(0), torch.ones(3).double(), **EXACT)
    back = found.scale[:, None, None] * found.y @ found.frame.mT + found.centroid[:, None]
    assert_close(back, batch.expand_as(back), **EXACT)
    if kind == "frames":
        assert len(found) == (4 if group == "SO" else 8)


def test_mirror_images_of_points_get_equal_averages():
    x = mirror()
    found = mds.frames(turned(x), kind="frames")
    matrix = torch.randn(3, 4, generator=generator(), dtype=torch.float64)
    per_point = mds.frame_average(lambda y: torch.tanh(y @ matrix + 0.3), found)
    half = len(x) // 2
    assert_close(per_point[:half], per_point[half:], **EXACT)
    assert float((per_point[:half] - per_point[:half].mean(0)).abs().max()) > 0.01


def test_a_minimum_over_frames_is_invariant_too():
    x = turned(box(3, 2, 1))
    fn = network()
    found = [mds.frames(x @ g.mT, kind="frames") for g in motions(5)]
    for reduce in ("min", "max"):
        values = [mds.frame_average(fn, f, reduce=reduce) for f in found]
        assert_close(values[1:], values[:1] * 4, **EXACT)
    batch = mds.frames(torch.stack([x, generic(8)]), kind="joint")
    least = mds.frame_average(fn, batch, reduce="min")
    assert_close(least[1], fn(mds.embed(generic(8), sign="joint").y), **EXACT)
    refused("reduce must be one of", mds.frame_average, fn, batch, reduce="sum")
    refused("must begin with the batch axes", mds.frame_average, lambda y: y.sum(), batch)


def path_of_clouds(steps):
    """A closed half turn in the space of clouds after which the first axis has turned around."""
    g = generator(8)
    basis = torch.linalg.qr(torch.randn(12, 6, generator=g, dtype=torch.float64))[0]
    basis = torch.linalg.qr(torch.cat([torch.ones(12, 1).double(), basis], 1))[0][:, 1:]
    for angle in torch.linspace(0, torch.pi, steps, dtype=torch.float64):
        first = angle.cos() * basis[:, 2] + angle.sin() * basis[:, 3]
        yield torch.stack([2 * first, 1.5 * basis[:, 0], basis[:, 1]], -1) * 3


def test_soft_frames_are_continuous_where_no_choice_is():
    clouds = list(path_of_clouds(2000))
    soft = mds.frame_average(network(), mds.frames(torch.stack(clouds), kind="soft"))
    hard = network()(mds.embed(torch.stack(clouds), options=QUIET).y)
    steps = [values.diff(dim=0).abs().max() for values in (hard, soft)]
    assert steps[0] > 20 * steps[1]
    assert steps[1] < 0.02
    found = mds.frames(torch.stack(clouds[::50]), kind="soft")
    close = tolerance(torch.float64, terms=len(found.weight))
    assert_close(found.weight.sum(0), torch.ones(40).double(), **close)
    assert spread(clouds[700], "soft", "O") < CLOSE["atol"]


def test_monomials_are_those_of_the_specification():
    classes = parity_classes(3)
    order = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
    assert [parity for parity, _ in classes] == order
    assert sum(len(monomials) for _, monomials in classes) == 58
    assert classes[0][1][:3] == [(3, 0, 0), (1, 2, 0), (1, 0, 2)]


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_frames_in_other_dimensions(dim):
    x = generic(9, dim)
    for kind in KINDS:
        if kind in ("anchor", "weighted", "harmonic") and dim > 3:
            refused("at most 3 dimensions", mds.frames, x, kind=kind)
            continue
        fn = network(dim)
        want = mds.frame_average(fn, mds.frames(x, kind=kind))
        moves = motions(4, dim) if dim > 1 else torch.tensor([[[-1.0]]]).double()
        for g in moves:
            got = mds.frame_average(fn, mds.frames(x @ g.mT + 1, kind=kind))
            assert_close(got, want, **EXACT)
    square = turned(box(1, 1))
    if dim == 2:
        assert spread(square, "anchor", "O") < CLOSE["atol"]
        assert spread(turned(polygon(7)), "anchor", "SO") < CLOSE["atol"]


def test_empty_batches_have_frames():
    for kind in KINDS:
        assert mds.frames(torch.zeros(0, 4, 3), kind=kind).y.shape[1:] == (0, 4, 3)
        assert mds.frames(torch.zeros(2, 0, 3), kind=kind).y.shape[1:] == (2, 0, 3)


def sample_frame(*args, **options):
    return draw_frames(*args, **options).y[0]


def test_every_cloud_gets_one_of_its_frames_by_weight():
    noise = torch.randn(8, 3, generator=generator(), dtype=torch.float64)
    x = (box(6, 4, 2) + 1e-3 * noise).expand(4000, -1, -1)
    found = mds.frames(x, kind="frames", options=QUIET)
    y = sample_frame(found, generator=generator())
    assert y.shape == x.shape
    same = (found.y == y).all(-1).all(-1)
    assert bool((same.sum(0) == 1).all())
    five_errors = 5 * (1 / 8 * 7 / 8 / 4000) ** 0.5  # standard ones, of a share of 4000 draws
    want = torch.full((8,), 1 / 8).double()
    assert_close(same.double().mean(1), want, rtol=0, atol=five_errors)
    assert torch.equal(y, sample_frame(found, generator=generator()))
    assert not torch.equal(y, sample_frame(found, generator=generator(1)))


def test_frames_of_weight_zero_are_never_drawn():
    found = mds.frames(torch.stack([generic(8), box(6, 4, 2)]), kind="joint", options=QUIET)
    assert len(found) == 8  # of which the first cloud has one
    for seed in range(20):
        y = sample_frame(found, generator=generator(seed))
        assert torch.equal(y[0], found.y[0, 0])


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_batch_axes_are_kept(batch):
    x = generic(12, batch=batch)
    y = sample_frame(mds.frames(x, kind="frames", options=QUIET), generator=generator())
    assert y.shape == x.shape
    want = mds.embed(x, options=QUIET).y
    assert_close(y.abs(), want.abs(), **tolerance(torch.float64, 12))


def test_ragged_clouds_turn_as_a_whole():
    x, ptr = torch.cat([generic(12), generic(7, seed=1)]), torch.tensor([0, 12, 19])
    found = mds.frames(x, kind="frames", ptr=ptr, options=QUIET)
    y = sample_frame(found, generator=generator(2))
    for begin, end in ((0, 12), (12, 19)):
        same = (found.y[:, begin:end] == y[begin:end]).all(-1).all(-1)
        assert int(same.sum()) == 1


def features(y, dim, seed=0):
    """Any function of coordinates, one value per cloud."""
    g = generator(seed)
    first = torch.randn(3, 8, generator=g, dtype=torch.float64)
    shift = torch.randn(8, generator=g, dtype=torch.float64)
    last = torch.randn(8, dim, generator=g, dtype=torch.float64)
    return torch.tanh(y @ first + shift).mean(-2) @ last


def lift(x, rep, kind, group, **options):
    found = mds.frames(x, kind=kind, group=group)
    return mds.frame_lift(features(found.y, rep.dim), found, rep, **options)


LIFTED = [
    *product(("generic", "mirror", "box", "planar", "line"), ("joint", "frames", "anchor")),
    *product(("disphenoid",), ("joint", "frames")),
    *product(("pyramid", "cube", "tetrahedron"), ("anchor",)),
]


@pytest.mark.parametrize(("name", "kind"), LIFTED)
@every_group
def test_lifted_features_turn_with_the_cloud(name, kind, group):
    x, rep = turned((SIMPLE | SOLIDS)[name]), Irreps("2x0e + 0o + 1o + 1e + 2e + 3o")
    want = lift(x, rep, kind, group)
    for g in motions(6, proper=group == "SO"):
        assert_close(lift(x @ g.mT + 1, rep, kind, group), rep.act(g, want), **EXACT)


def test_tensors_of_proper_frames_turn_with_the_cloud():
    rep, x = TensorRep(SO(3), up=2), generic()
    want = lift(x, rep, "joint", "SO")
    for g in motions(6, proper=True):
        assert_close(lift(x @ g.mT, rep, "joint", "SO"), rep.act(g, want), **EXACT)
    refused("SO", lift, x, rep, "joint", "O")


def test_positions_and_quantities_scale_with_lengths():
    x, group = generic(12), Affine(O(3))

    def move(x):
        found = mds.frames(x, scale="rms")
        return mds.frame_lift(found.y + 0.1 * found.y.sin(), found, Points(group))

    want = move(x)
    for g in motions(5):
        assert_close(move(3 * x @ g.mT + 2), 3 * want @ g.mT + 2, **EXACT)
    result = mds.embed(x, scale="max")
    assert_close(mds.frame_lift(result.y, result, Points(group)), x, **EXACT)

    def force(x, scale="rms", power=-2.0):
        result = mds.embed(x, scale=scale)
        return mds.frame_lift(features(result.y, 3), result, Irreps("1o"), power=power)

    assert_close(force(3 * x), force(x) / 9, **EXACT)
    small = generic(6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: force(x, "none", 0.0), [small], fast_mode=True)


def test_symmetries_forbid_components():
    h, nothing = Irreps("1o"), torch.zeros(3).double()
    seen = lift(mirror(), h, "frames", "O")
    assert_close(seen[2].abs(), nothing[0], **EXACT)
    assert seen.norm() > 0.01
    assert_close(lift(turned(box(3, 2, 1)), h, "joint", "O"), nothing, **EXACT)
    assert_close(lift(turned(OCTAHEDRON), h, "anchor", "SO"), nothing, **EXACT)
    assert abs(float(lift(PLANAR, h, "joint", "O")[2])) < EXACT["atol"]
    along = lift(LINE, h, "joint", "O")
    direction = torch.tensor([1.0, 2, 2]).double() / 3
    assert_close(along, (along @ direction) * direction, **EXACT)


def test_an_embedding_knows_its_group():
    rep = Irreps("1e + 1o")

    def lifted(x, group):
        result = mds.embed(x, group=group)
        return mds.frame_lift(features(result.y, 6), result, rep)

    for group in ("O", "SO"):
        want = lifted(PLANAR, group)
        for g in motions(12, proper=group == "SO"):
            assert_close(lifted(PLANAR @ g.mT, group), rep.act(g, want), **EXACT)
    refused("no frames to lift by", lifted, PLANAR, None)


def test_batches_and_ragged_clouds():
    clouds = [generic(6), generic(6, seed=3), turned(PLANAR), turned(LINE)]
    ptr = torch.tensor([0, 6, 12, 17, 20])
    single = [mds.embed(x, options=QUIET) for x in clouds]
    want = [mds.frame_lift(r.y.sin(), r, Irreps("1o")) for r in single]
    ragged = mds.embed(torch.cat(clouds), ptr=ptr, options=QUIET)
    got = mds.frame_lift(ragged.y.sin(), ragged, Irreps("1o"), per_point=True)
    assert_close(got, torch.cat(want), **EXACT)
    batch = mds.frames(torch.stack(clouds[:2]))
    both = mds.frame_lift(batch.y.sin(), batch, Irreps("1o"))
    assert_close(both, torch.stack(want[:2]), **EXACT)
    refused("features must be", mds.frame_lift, batch.y[:, :1], batch, Irreps("1o"))
