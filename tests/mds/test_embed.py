"""Embeddings of clouds: invariance, scales, spectra, signs and gradients."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from equigeo import mds
from equigeo.mds.frames import KINDS
from equigeo.testing import tolerance
from tests.mds.clouds import (
    CUBE,
    LINE,
    OCTAHEDRON,
    PATH,
    PLANAR,
    PYRAMID,
    QUIET,
    TETRAHEDRON,
    TRIANGLE,
    box,
    distances,
    generator,
    generic,
    mirror,
    motions,
    polygon,
    turned,
)

CLOSE = tolerance(torch.float64, terms=60)
# Forty points, and twenty for the largest eigenvalue over a gap.
EXACT = {"rtol": 0.0, "atol": tolerance(torch.float64, terms=40, condition=20)["atol"]}


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6])
def test_isometries_do_not_change_the_embedding(dim):
    x = generic(40, dim)
    want = mds.embed(x).y
    rms = float(want.square().sum(-1).mean().sqrt())
    turns = motions(200 if dim == 3 else 20, dim) if dim > 1 else -torch.ones(2, 1, 1).double()
    for k, g in enumerate(turns):
        order = torch.randperm(40, generator=generator(k))
        moved = (x @ g.mT + torch.randn(dim, generator=generator(k)).double())[order]
        assert_close(mds.embed(moved).y, want[order], rtol=0, atol=1e-12 * rms)


@pytest.mark.parametrize("scale", ["rms", "max", "lambda1", "rms_dist"])
def test_similarities_do_not_change_the_scaled_embedding(scale):
    x = generic()
    want = mds.embed(x, scale=scale)
    for g in motions(20):
        moved = mds.embed(3.7 * x @ g.mT - 2, scale=scale)
        assert_close(moved.y, want.y, **EXACT)
        assert_close(moved.scale, 3.7 * want.scale, **CLOSE)
    for power in (-8, -1, 1, 5, 20):  # which change no bit
        assert torch.equal(mds.embed(x * 2.0**power, scale=scale).y, want.y)


def test_scales_are_what_they_say():
    x = generic()
    centred, n = x - x.mean(0), len(x)
    first = mds.embed(x).y[:, 0]
    want = {
        "none": torch.ones(()),
        "rms": centred.square().sum(-1).mean().sqrt(),
        "max": centred.norm(dim=-1).max(),
        "lambda1": first.square().mean().sqrt(),
        "rms_dist": (torch.pdist(x).square().sum() / (n * (n - 1) / 2)).sqrt(),
    }
    for scale, value in want.items():
        result = mds.embed(x, scale=scale)
        assert_close(result.scale, value.double(), **EXACT)
        back = result.scale * result.y @ result.frame.mT + result.centroid
        assert_close(back, x, **EXACT)
    square = mds.embed(box(1, 1), scale="rms", options=QUIET)
    assert_close(square.scale, torch.tensor(0.5).double().sqrt(), **EXACT)


@pytest.mark.parametrize("group", ["O", "SO"])
def test_identities_of_the_embedding(group):
    x = generic(30, batch=(4,))
    result = mds.embed(x, group=group)
    y, eye = result.y, torch.eye(3).double()
    distances = torch.stack([torch.pdist(cloud).square().sum() for cloud in x]) / 30
    assert_close(result.eigvals.sum(-1), distances, **CLOSE)
    assert_close(y.mT @ y, torch.diag_embed(result.eigvals), **EXACT)
    assert_close(y.sum(-2), torch.zeros(4, 3).double(), **EXACT)
    assert_close(result.frame.mT @ result.frame, eye.expand(4, 3, 3), **EXACT)
    if group == "SO":
        assert_close(torch.linalg.det(result.frame), torch.ones(4).double(), **EXACT)
    assert (result.spread.diff(dim=-1) <= 0).all()


@pytest.mark.parametrize(
    ("x", "want"),
    [
        (TETRAHEDRON / math.sqrt(8), (0.5, 0.5, 0.5)),
        (box(1, 1), (1, 1)),
        (box(2, 1), (4, 1)),
        (box(3, 2, 1), (18, 8, 2)),
        (CUBE, (2, 2, 2)),
        (1.5 * OCTAHEDRON, (4.5, 4.5, 4.5)),
        (PYRAMID, (3.2, 2, 2)),
        (polygon(3) / math.sqrt(3), (0.5, 0.5)),
        (polygon(7, 2.0), (14, 14)),
        (TRIANGLE, ((25 + math.sqrt(193)) / 3, (25 - math.sqrt(193)) / 3)),
        (PATH, (8.845158445, 2.190288162, 0.464553393)),  # nine decimals
    ],
)
def test_spectra_of_solids(x, want):
    found = mds.embed(turned(x), options=QUIET).eigvals
    digits = 1e-9 if x is PATH else 1e-12
    assert_close(found, torch.tensor(want, dtype=torch.float64), rtol=0, atol=20 * digits)


def test_collinear_points_have_one_axis_and_two_points_two_frames():
    result = mds.embed(turned(LINE))
    assert_close(result.y[:, 0], torch.tensor([-4.0, -1, 5]).double(), **EXACT)
    assert not result.y[:, 1:].any()
    assert_close(result.eigvals, torch.tensor([42.0, 0, 0]).double(), **CLOSE)
    assert result.null.tolist() == [False, True, True]
    assert not result.flagged
    n, h = 4, 0.5
    line = h * torch.arange(n)[:, None] * torch.tensor([[0.6, 0.0, 0.8]], dtype=torch.float64)
    want = torch.tensor(n * (n * n - 1) * h * h / 12, dtype=torch.float64)
    assert_close(mds.embed(line, options=QUIET).eigvals[0], want, **EXACT)
    x = torch.tensor([[1.0, 2, 3], [3, 5, 9]]).double()
    result = mds.embed(x, sign="joint", options=QUIET)
    assert_close(result.y[:, 0].abs(), torch.full((2,), 3.5).double(), **EXACT)
    assert_close(result.eigvals, torch.tensor([24.5, 0, 0]).double(), **EXACT)
    assert result.ambiguous.tolist() == [True, False, False]
    assert mds.embed(x, options=QUIET).ambiguous.tolist() == [True, False, False]
    assert len(result.frames) == 2


def test_proper_frames_see_handedness():
    x = generic(25)
    want = mds.embed(x, group="SO")
    dependent = int(want.margin.abs().argmin())
    for g in motions(30):
        det = float(torch.linalg.det(g))
        moved = mds.embed(x @ g.mT, group="SO")
        signs = torch.ones(3)
        signs[dependent] = det
        assert_close(moved.y, want.y * signs, **EXACT)
        assert int(moved.margin.abs().argmin()) == dependent


def test_partial_invariance():
    x = generic(25)
    moved = mds.embed(x + 3, group=None)
    assert_close(moved.y, x - x.mean(0), **EXACT)
    assert torch.equal(moved.frame, torch.eye(3).double())
    scaled = mds.embed(4 * x + 3, group=None, scale="rms").y
    assert_close(scaled, mds.embed(x, group=None, scale="rms").y, **EXACT)
    about_origin = mds.EmbedOptions(translation=False)
    want = mds.embed(x, options=about_origin)
    assert not want.centroid.any()
    assert (want.y.sum(0) > 0).all()
    for g in motions(10):
        assert_close(mds.embed(x @ g.mT, options=about_origin).y, want.y, **EXACT)
    shifted = mds.embed(x + 3, options=about_origin).y
    assert not torch.allclose(shifted, want.y)
    only_scale = mds.embed(8 * x, group=None, scale="rms", options=about_origin).y
    assert_close(only_scale, x / x.square().sum(-1).mean().sqrt(), **EXACT)


def test_margins_are_below_one_and_axes_of_a_line_have_a_sign():
    found = mds.embed(generic(20))
    assert ((0 < found.margin) & (found.margin < 1)).all()
    cubes = found.y.pow(3)
    assert_close(found.margin, cubes.sum(0) / cubes.abs().sum(0), **EXACT)
    x = generic(9, 1)
    c = x - x.mean()
    assert_close(mds.embed(x).y, c * c.pow(3).sum().sign(), **EXACT)
    assert torch.equal(mds.embed(x, group="SO").frame, torch.ones(1, 1).double())


@pytest.mark.parametrize("gap", [0.3, 0.01])
def test_float32_is_invariant_to_its_rounding(gap):
    x = torch.randn(400, 3, generator=generator(4)).double()
    x = x + 0.3 * x.square()
    y = mds.embed(x).y
    lengths = torch.tensor([1.0, 1.0 - gap, 0.3]).double().sqrt()
    x = (y / y.norm(dim=0) * lengths).float()
    want = mds.embed(x)
    assert want.y.dtype == torch.float32
    scale = float(want.y.square().sum(-1).mean().sqrt())
    for g in motions(10):
        moved = mds.embed((x.double() @ g.mT).float()).y
        bound = 50 * torch.finfo(torch.float32).eps / gap * scale
        assert_close(moved, want.y, rtol=0, atol=bound)


def test_offsets_cost_what_the_input_has_lost():
    x = generic(200)
    far = (x + 1e4).float()
    result = mds.embed(far)
    rounded = far.double()
    centred = rounded - rounded.mean(0)
    want = centred.mT @ centred
    frame = result.frame.double()
    got = frame @ torch.diag(result.spread.double() ** 2) @ frame.mT
    assert_close(got, want, rtol=0, atol=1e-5 * float(want.abs().max()))
    one_pass = far.mT @ far - 200 * far.mean(0)[:, None] * far.mean(0)
    assert (one_pass.double() - want).norm() > 0.1 * want.norm()  # what must not be done


def test_padded_ragged_and_single_clouds_agree():
    clouds = [generic(n, seed=n) for n in (5, 17, 9)]
    padded = torch.full((3, 17, 3), math.nan).double()
    mask = torch.zeros(3, 17, dtype=torch.bool)
    for b, x in enumerate(clouds):
        padded[b, : len(x)], mask[b, : len(x)] = x, True
    ptr = torch.tensor([0, 5, 22, 31])
    for scale in ("none", "rms", "max", "rms_dist"):
        single = [mds.embed(x, scale=scale) for x in clouds]
        ragged = mds.embed(torch.cat(clouds), ptr=ptr, scale=scale)
        filled = mds.embed(padded, mask=mask, scale=scale)
        assert_close(ragged.y, torch.cat([r.y for r in single]), **CLOSE)
        assert_close(filled.y[mask], ragged.y, **CLOSE)
        assert not filled.y[~mask].any()
        for name in ("frame", "centroid", "scale", "spread", "margin"):
            stacked = torch.stack([getattr(r, name) for r in single])
            assert_close(getattr(ragged, name), stacked, **CLOSE)
            assert_close(getattr(filled, name), stacked, **CLOSE)


@pytest.mark.parametrize("scale", ["none", "rms", "max", "lambda1", "rms_dist"])
def test_duplicates_are_weights(scale):
    x = generic(12)
    count = torch.tensor([1, 2, 3, 1, 1, 4, 1, 1, 2, 1, 1, 1])
    doubled = mds.embed(x.repeat_interleave(count, 0), scale=scale)
    weighted = mds.embed(x, weights=count, scale=scale)
    assert_close(weighted.y.repeat_interleave(count, 0), doubled.y, **EXACT)
    assert_close(weighted.scale, doubled.scale, **EXACT)


def test_symmetric_clouds_are_flagged():
    quiet = {name: mds.embed(x, options=QUIET) for name, x in {
        "box": turned(box(3, 2, 1)), "cube": turned(CUBE), "pyramid": turned(PYRAMID),
        "mirror": turned(mirror()), "octahedron": turned(OCTAHEDRON), "generic": generic(),
        "planar": turned(PLANAR)}.items()}  # fmt: skip
    assert quiet["box"].ambiguous.all()
    assert not quiet["box"].degenerate.any()
    assert quiet["cube"].degenerate.all()
    assert quiet["pyramid"].degenerate.tolist() == [False, True]
    assert quiet["octahedron"].flagged
    assert quiet["mirror"].ambiguous.sum() == 1
    assert not quiet["generic"].flagged
    assert not quiet["planar"].flagged
    assert quiet["planar"].null.tolist() == [False, False, True]
    # The sign of the mirror axis is harmless where it is the one that depends on the others.
    assert not mds.embed(turned(mirror()), group="SO", options=QUIET).flagged


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize("dim", [2, 3, 4])
def test_embeddings_without_a_flag_are_invariant(dim, group, dtype):
    flagged, bound = 0, 1e-9 if dtype == torch.float64 else 1e-2
    for points in (2, 3, 4, 5, 6, 8, 12):
        x = torch.randint(-2, 3, (400, points, dim), generator=generator(points + dim)).double()
        moved = x @ motions(400, dim, proper=group == "SO").mT + 0.37
        one, two = (mds.embed(c.to(dtype), group=group, options=QUIET) for c in (x, moved))
        sure = ~(one.flagged | two.flagged)
        error = (one.y - two.y).abs()[sure]
        assert not error.numel() or float(error.max()) < bound
        flagged += int((~sure).sum())
    assert 0 < flagged < 1400


@given(st.integers(0, 2**31), st.integers(1, 12), st.integers(1, 4))
def test_embeddings_keep_distances(seed, points, dim):
    x = torch.randint(-3, 4, (points, dim), generator=generator(seed)).double()
    result = mds.embed(x, options=QUIET)
    close = tolerance(torch.float64, 64, condition=4.0)
    assert_close(distances(result.y), distances(x), **close)
    assert_close(result.frame.mT @ result.frame, torch.eye(dim).double(), **EXACT)


@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize(
    "x",
    [generic(), CUBE, OCTAHEDRON, TETRAHEDRON, PYRAMID, box(3, 2, 1), PLANAR, LINE, LINE[:2]],
    ids=lambda x: len(x),
)
def test_signs_by_index_need_no_average(x, group):
    def run(x):
        result = mds.embed(x, group=group, sign="index")
        assert not result.flagged
        return result

    want = run(turned(x))
    for g in motions(10, proper=group == "SO"):
        assert_close(run(x @ g.mT + 1).y, run(x).y, **EXACT)
    assert_close(distances(want.y), distances(x), **EXACT)
    assert_close(want.y @ want.frame.mT + want.centroid, turned(x), **EXACT)
    batch = torch.stack([turned(x), turned(x, 9)])
    first, second = mds.embed(batch, group=group, sign="index").y
    assert_close(first, want.y, **EXACT)
    if group == "O":
        assert_close(second, first, **EXACT)


def test_signs_by_index_follow_the_names_of_points():
    moved = mds.embed(CUBE.flip(0).roll(3, 0), sign="index").y
    assert not torch.allclose(moved, mds.embed(CUBE, sign="index").y.flip(0).roll(3, 0))


@pytest.mark.parametrize("absent", ["mask", "weights"])
def test_absent_points_choose_no_axis(absent):
    draws = generator()
    for _ in range(20):
        x = torch.randn(8, 3, generator=draws, dtype=torch.float64)
        near = 0.04 * torch.randn(3, generator=draws, dtype=torch.float64)
        x[0] = x[1:].mean(0) + near  # says little, but more than padding does
        padded = torch.cat([x, torch.zeros(24, 3, dtype=torch.float64)])
        there = torch.arange(32) < 8
        there = {absent: there if absent == "mask" else there.double()}
        found = mds.embed(padded, sign="index", **there).y[:8]
        assert_close(found, mds.embed(x, sign="index").y, **EXACT)


@pytest.mark.parametrize("translation", [True, False])
def test_margins_do_not_depend_on_the_choice_of_signs(translation):
    options = mds.EmbedOptions(translation=translation)
    skew, index = (mds.embed(generic(30), sign=s, options=options) for s in ("skew", "index"))
    assert_close(index.margin.abs(), skew.margin.abs(), **EXACT)


def test_one_million_points():
    x = torch.randn(1_000_000, 3, generator=generator()) * torch.tensor([3.0, 2.0, 1.0])
    x = x + 0.1 * x.square()
    result = mds.embed(x, scale="rms")
    near = 20 * torch.finfo(torch.float32).eps  # sums in pairs, twenty times
    assert_close(result.y.square().sum(-1).mean(), torch.tensor(1.0), rtol=near, atol=0)


NEAR = {"rtol": 1e-11, "atol": 1e-12}


def loss_of(y, seed=0):
    """A function of coordinates that knows all directions."""
    weights = torch.randn(y.shape, generator=generator(seed), dtype=torch.float64)
    return (weights * (y + 0.3 * y.square())).sum()


def plain(x, weights=None):
    """Embedding that PyTorch differentiates, for unflagged clouds."""
    w = torch.ones(len(x)).double() if weights is None else weights
    c = x - (w[:, None] * x).sum(0) / w.sum()
    values, vectors = torch.linalg.eigh(c.mT @ (w[:, None] * c))
    y = c @ vectors.flip(-1)
    sign = (w[:, None] * y**3).sum(0).sign().detach()
    return y * sign, values.flip(-1), vectors.flip(-1) * sign


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", [2, 3, 5])
def test_the_closed_form_is_the_gradient(dim, weighted):
    x = generic(30, dim).requires_grad_()
    weights = torch.rand(30, generator=generator(), dtype=torch.float64) if weighted else None
    result = mds.embed(x, weights=weights)
    values = (result.y, result.eigvals, result.frame)
    (got,) = torch.autograd.grad(sum(loss_of(v) for v in values), x)
    (want,) = torch.autograd.grad(sum(loss_of(v) for v in plain(x, weights)), x)
    assert_close(got, want, **NEAR)


def test_detached_gradients_turn_with_the_cloud():
    x = generic(30)
    options = mds.EmbedOptions(grad="detach")

    def force(x):
        x = x.clone().requires_grad_()
        return torch.autograd.grad(loss_of(mds.embed(x, scale="rms", options=options).y), x)[0]

    for g in motions(5):
        assert_close(force(x @ g.mT + 1), force(x) @ g.mT, **tolerance(torch.float64, 30))
    y = mds.embed(x)
    weights = torch.randn(30, 3, generator=generator(), dtype=torch.float64)
    moved = x.clone().requires_grad_()
    (got,) = torch.autograd.grad((mds.embed(moved, options=options).y * weights).sum(), moved)
    want = weights @ y.frame.mT
    assert_close(got, want - want.mean(0), **NEAR)


def distance_loss(y):
    i, j = torch.triu_indices(len(y), len(y), 1)
    return (y[i] - y[j]).square().sum(-1).sin().sum()


def test_distances_have_their_own_gradient_on_symmetric_clouds():
    for solid in (CUBE, OCTAHEDRON, generic(12)):
        x = turned(solid).requires_grad_()
        (want,) = torch.autograd.grad(distance_loss(x), x)
        (got,) = torch.autograd.grad(distance_loss(mds.embed(x, options=QUIET).y), x)
        assert_close(got, want, **NEAR)
    x = CUBE.clone().requires_grad_()
    y = plain(x - 0.0)[0]
    (through_eigh,) = torch.autograd.grad(distance_loss(y), x)
    assert not torch.allclose(through_eigh, torch.autograd.grad(distance_loss(x), x)[0])


def test_gradients_are_finite_on_cubes_and_spheres():
    sphere = torch.randn(500, 3, generator=generator(), dtype=torch.float64)
    sphere = torch.cat([sphere, -sphere, sphere.roll(1, -1), -sphere.roll(1, -1)])
    sphere = torch.cat([sphere, sphere.roll(2, -1)[:2000]]) / 10
    for cloud in (CUBE, OCTAHEDRON, sphere / sphere.norm(dim=-1, keepdim=True)):
        for dtype in (torch.float32, torch.float64):
            for group in ("O", "SO"):
                x = turned(cloud).to(dtype).requires_grad_()
                y = mds.embed(x, group=group, scale="rms", options=QUIET).y
                weights = torch.linspace(-1, 1, y.numel(), dtype=dtype).view_as(y)
                (grad,) = torch.autograd.grad((weights * y).sum(), x, create_graph=True)
                assert grad.isfinite().all()
                (second,) = torch.autograd.grad(grad.square().sum(), x)
                assert second.isfinite().all()


def assert_two_orders_of_gradients(function, x):
    assert torch.autograd.gradcheck(function, [x], fast_mode=True)
    assert torch.autograd.gradgradcheck(function, [x], fast_mode=True)


@pytest.mark.parametrize("scale", ["none", "rms", "max", "lambda1", "rms_dist"])
@pytest.mark.parametrize("group", ["O", "SO", None])
def test_two_orders_of_gradients(scale, group):
    def outputs(x):
        result = mds.embed(x, group=group, scale=scale)
        return result.y, result.scale, result.centroid

    assert_two_orders_of_gradients(outputs, generic(7).requires_grad_())


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_two_orders_of_gradients_of_batches(dim):
    x = torch.cat([generic(9, dim), generic(12, dim, seed=5)]).requires_grad_()
    weights = torch.rand(21, generator=generator(), dtype=torch.float64)
    weights[3] = 0

    def outputs(x):
        result = mds.embed(x, ptr=torch.tensor([0, 9, 9, 21]), weights=weights, options=QUIET)
        return result.y, result.frame, result.spread

    assert_two_orders_of_gradients(outputs, x)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_pass_gradients_on(kind):
    def average(x):
        found = mds.frames(x, kind=kind, scale="rms")
        return mds.frame_average(lambda y: (y + 0.2).pow(3).sum(-2), found)

    assert torch.autograd.gradcheck(average, [generic(8).requires_grad_()], fast_mode=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_stability_is_the_share_of_halves_that_keep_an_axis(weighted):
    g = generator(1)
    x = torch.randn(400, 3, generator=g, dtype=torch.float64) @ torch.diag(
        torch.tensor([1.0, 0.85, 0.5], dtype=torch.float64)
    )
    x = x + 0.05 * x.square()
    mass = torch.rand(400, generator=g, dtype=torch.float64) + 0.5 if weighted else None
    result = mds.embed(x, weights=mass, options=QUIET)
    halves = torch.rand(2000, 400, generator=g).argsort(1)[:, :200]
    part = mds.embed(x[halves], weights=None if mass is None else mass[halves], options=QUIET)
    kept = ((result.frame * part.frame).sum(-2) > 3**0.5 / 2).double().mean(0)
    # First order in the influence of points: of 400, a twentieth.
    assert_close(result.stability, kept, rtol=0, atol=0.06)
    assert float(kept.min()) < 0.95


def test_stability_belongs_to_the_cloud():
    x = torch.stack([generic(60), generic(60, seed=4)])
    want = mds.embed(x).stability
    moved = mds.embed(3 * x @ motions(1)[0].mT - 2, scale="rms")
    assert_close(moved.stability, want, **EXACT)
    ragged = mds.embed(x.flatten(0, 1), ptr=torch.tensor([0, 60, 120]))
    assert_close(ragged.stability, want, **EXACT)
    assert float(mds.embed(mirror(), options=QUIET).stability.min()) <= 0.5 + EXACT["atol"]
    flat = mds.embed(PLANAR).stability
    assert flat[2] == 1
    assert mds.embed(x, group=None).stability.eq(1).all()


def test_axes_below_the_wanted_stability_are_flagged():
    x = torch.stack([generic(200), generic(200, seed=2), mirror().repeat(12, 1)[:200]])
    stable = mds.embed(x, options=QUIET).stability
    bound = float(stable[:2].amin()) - 0.01
    options = mds.EmbedOptions(stability=bound, fallback="frames")
    result = mds.embed(x, options=options)
    assert result.flagged.tolist() == (stable < bound).any(-1).tolist() == [False, False, True]
    assert (result.frames.weight > 0).sum(0).tolist() == [1, 1, 8]
    with pytest.raises(ValueError, match="1 of 3 clouds"):
        mds.embed(x, options=mds.EmbedOptions(stability=bound, fallback="error"))


def sheet(seed=0):
    """Points of a skew piece of a plane, bent, and which of them are in its first half."""
    u = torch.rand(600, 2, generator=generator(seed), dtype=torch.float64)
    u = u[u[:, 1] < 1 - 0.7 * u[:, 0]]
    bent = torch.stack([2 * u[:, 0], u[:, 1], 0.4 * u[:, 0] ** 2 + 0.2 * u[:, 1]], -1)
    return bent, u[:, 0] < 0.4


ROBUST = mds.EmbedOptions(robust=True, fallback="ignore")


def test_robust_embeddings_ignore_copies_and_outliers():
    x, _ = sheet()
    want = mds.embed(x, options=ROBUST)
    copies = torch.cat([x, x[:50], x[:20]])
    outliers = torch.cat([x, x.mean(0) + 4 * motions(2, seed=9)[:, 0]])
    for moved, far in ((copies, 1e-9), (outliers, 0.02)):  # exact, a thousandth of the weight
        robust, plain = (mds.embed(moved, options=options) for options in (ROBUST, QUIET))
        assert_close(robust.frame, want.frame, rtol=0, atol=far)
        assert_close(robust.centroid, want.centroid, rtol=0, atol=far)
        assert (plain.centroid - mds.embed(x).centroid).norm() > 0.01
    assert robust.weights[-2:].max() < 0.01 * robust.weights[:-2].min()
    assert_close(mds.embed(turned(x), options=ROBUST).y, want.y, **EXACT)
    ragged = mds.embed(torch.cat([x, copies]), ptr=torch.tensor([0, len(x), 2 * len(x) + 70]),
                       options=ROBUST)  # fmt: skip
    assert_close(ragged.frame, want.frame.expand(2, 3, 3), rtol=0, atol=1e-9)  # as copies above
    padded = torch.cat([x, torch.full((5, 3), torch.nan)])
    there = torch.arange(len(padded)) < len(x)
    assert_close(mds.embed(padded, mask=there, options=ROBUST).y[there], want.y, **EXACT)


def test_robust_embeddings_correct_the_density():
    x, first = sheet(1)
    thin = x[first | (torch.rand(len(x), generator=generator(2)) < 0.5)]
    errors = []
    for options in (ROBUST, QUIET):
        whole, part = (mds.embed(y, options=options) for y in (x, thin))
        errors.append(float((whole.centroid - part.centroid).norm()))
    assert errors[0] < 0.5 * errors[1]


def test_robust_weights_are_not_for_recorded_programs():
    with pytest.raises(NotImplementedError, match="use robust=False"):
        torch.func.vmap(lambda x: mds.embed(x, options=ROBUST).y)(torch.rand(2, 60, 3))
    assert mds.embed(torch.zeros(0, 4, 3), options=ROBUST).y.shape == (0, 4, 3)
    assert mds.embed(torch.zeros(2, 4, 3), options=ROBUST).weights.isfinite().all()
