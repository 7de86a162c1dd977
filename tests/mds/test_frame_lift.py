import pytest
import torch
from torch.testing import assert_close

from equigeo import mds
from equigeo.groups import SO, Affine, O
from equigeo.reps import Irreps, Points, TensorRep
from equigeo.testing import tolerance
from tests.mds.clouds import (
    CUBE,
    DISPHENOID,
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
    turned,
)

# Forty points, and twenty for the largest eigenvalue over a gap.
EXACT = {"rtol": 0.0, "atol": tolerance(torch.float64, terms=40, condition=20)["atol"]}
IRREPS = Irreps("2x0e + 0o + 1o + 1e + 2e + 3o")


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


CLOUDS = {
    "generic": (generic(), ["joint", "frames", "anchor"]),
    "mirror": (mirror(), ["joint", "frames", "anchor"]),
    "disphenoid": (DISPHENOID, ["joint", "frames"]),
    "box": (box(3, 2, 1), ["joint", "frames", "anchor"]),
    "planar": (PLANAR, ["joint", "frames", "anchor"]),
    "line": (LINE, ["joint", "frames", "anchor"]),
    "pyramid": (PYRAMID, ["anchor"]),
    "cube": (CUBE, ["anchor"]),
    "tetrahedron": (TETRAHEDRON, ["anchor"]),
}
CASES = [(name, kind) for name, (_, kinds) in CLOUDS.items() for kind in kinds]


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.parametrize("group", ["O", "SO"])
def test_lifted_features_turn_with_the_cloud(name, kind, group):
    x = turned(CLOUDS[name][0])
    rep = IRREPS
    want = lift(x, rep, kind, group)
    for g in motions(6, proper=group == "SO"):
        assert_close(lift(x @ g.mT + 1, rep, kind, group), rep.act(g, want), **EXACT)


def test_tensors_of_proper_frames():
    rep = TensorRep(SO(3), up=2)
    x = generic()
    want = lift(x, rep, "joint", "SO")
    for g in motions(6, proper=True):
        assert_close(lift(x @ g.mT, rep, "joint", "SO"), rep.act(g, want), **EXACT)
    with pytest.raises(ValueError, match="SO"):
        lift(x, rep, "joint", "O")


def test_positions_are_scaled_and_shifted():
    x, group = generic(12), Affine(O(3))

    def move(x):
        found = mds.frames(x, scale="rms")
        return mds.frame_lift(found.y + 0.1 * found.y.sin(), found, Points(group))

    want = move(x)
    for g in motions(5):
        assert_close(move(3 * x @ g.mT + 2), 3 * want @ g.mT + 2, **EXACT)
    result = mds.embed(x, scale="max")
    assert_close(mds.frame_lift(result.y, result, Points(group)), x, **EXACT)


def test_quantities_have_powers_of_length():
    x = generic(12)

    def force(x):
        result = mds.embed(x, scale="rms")
        return mds.frame_lift(features(result.y, 3), result, Irreps("1o"), power=-2.0)

    assert_close(force(3 * x), force(x) / 9, **EXACT)


def test_symmetries_forbid_components():
    h = Irreps("1o")
    x = mirror()
    assert_close(lift(x, h, "frames", "O")[2].abs(), torch.tensor(0.0).double(), **EXACT)
    assert lift(x, h, "frames", "O").norm() > 0.01
    assert_close(lift(turned(box(3, 2, 1)), h, "joint", "O"), torch.zeros(3).double(), **EXACT)
    assert_close(lift(turned(OCTAHEDRON), h, "anchor", "SO"), torch.zeros(3).double(), **EXACT)
    flat = lift(PLANAR, h, "joint", "O")
    assert abs(float(flat[2])) < EXACT["atol"]
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
    with pytest.raises(ValueError, match="no frames to lift by"):
        lifted(PLANAR, None)


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
    with pytest.raises(ValueError, match="features must be"):
        mds.frame_lift(batch.y[:, :1], batch, Irreps("1o"))


def test_gradients_flow_through_the_lift():
    x = generic(6).requires_grad_()

    def forward(x):
        result = mds.embed(x)
        return mds.frame_lift(features(result.y, 3), result, Irreps("1o"))

    assert torch.autograd.gradcheck(forward, [x], fast_mode=True)
