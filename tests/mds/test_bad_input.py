"""The table of bad inputs of the specification, row by row."""

import math
import warnings
from dataclasses import fields
from importlib import import_module

import pytest
import torch
from torch.testing import assert_close

from equigeo import mds
from equigeo.mds.frames import draw_frames
from equigeo.points import clouds as cloud_checks
from equigeo.reps import Irreps
from equigeo.testing import tolerance
from tests.mds.clouds import CUBE, QUIET, box, generic, motions, turned
from tests.tier import tier
from tests.wrong_inputs import Wrong, refused, wrong_calls

SCALES = ["none", "rms", "max", "lambda1", "rms_dist"]


def assert_nothing_spreads(result, dim=3):
    assert not result.y.any()
    assert not result.scale.any()
    assert not result.eigvals.any()
    assert result.null.all()
    assert not result.flagged.any()
    eye = torch.eye(dim).to(result.frame)
    assert torch.equal(result.frame, eye.expand_as(result.frame))
    assert all(t.isfinite().all() for t in (result.margin, result.gap, result.centroid))


@pytest.mark.parametrize("group", ["O", "SO", None])
@pytest.mark.parametrize("scale", tier(["none", "max"], SCALES))
def test_no_points(scale, group):
    result = mds.embed(torch.zeros(2, 0, 3), scale=scale, group=group)
    assert result.y.shape == (2, 0, 3)
    assert not result.centroid.any()
    assert_nothing_spreads(result)
    assert mds.embed(torch.zeros(0, 5, 3), scale=scale).y.shape == (0, 5, 3)
    ragged = mds.embed(torch.zeros(0, 3), ptr=torch.tensor([0, 0, 0]), scale=scale)
    assert_nothing_spreads(ragged)
    assert mds.embed(torch.zeros(0, 3), ptr=torch.tensor([0])).frame.shape == (0, 3, 3)


@pytest.mark.parametrize("scale", SCALES)
def test_one_place(scale):
    for count, group in ((1, "O"), (6, "O"), (1, "SO"), (6, "SO")):
        x = torch.tensor([[1.1, -2.3, 1e5]]).double().expand(count, 3).clone().requires_grad_()
        result = mds.embed(x, scale=scale, group=group)
        assert_nothing_spreads(result)
        assert_close(result.centroid, x[0])
        (grad,) = torch.autograd.grad(result.y.sum() + result.scale + result.centroid.sum(), x)
        assert_close(grad, torch.full_like(x, 1 / count))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_clouds_that_are_not_finite(bad):
    x = generic(10, batch=(2, 2))
    good = mds.embed(x)
    broken = x.clone()
    broken[1, 0, 3, 1] = bad
    refused(r"batch index \(1, 0\) is not finite", mds.embed, broken)
    rows, ptr = broken[1:].flatten(0, 2), torch.tensor([0, 0, 10, 20])
    refused("batch index 1 is not finite", mds.embed, rows, ptr=ptr)
    result = mds.embed(broken, options=mds.EmbedOptions(nan_policy="propagate"))
    fine = torch.tensor([[True, True], [False, True]])
    assert torch.equal(result.y[fine], good.y[fine])
    for name in ("y", "frame", "centroid", "scale", "spread", "margin"):
        values = getattr(result, name)
        assert values[~fine].isnan().all()
        assert values[fine].isfinite().all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("dtype", "sizes"),
    [(torch.float32, (1e37, 1e19, 1e-22, 1e-36)), (torch.float64, (1e300, 1e160, 1e-161, 1e-300))],
    ids=str,
)
def test_huge_and_tiny_coordinates(scale, dtype, sizes):
    x = generic(30) / 10
    unit = mds.embed(x, scale=scale)
    for size in sizes:
        moved = (x * size).to(dtype).requires_grad_()
        result = mds.embed(moved, scale=scale)
        everything = (result.y, result.scale, result.eigvals, result.centroid, result.frame)
        assert all(t.isfinite().all() for t in everything)
        factor = size if scale == "none" else 1
        eps = torch.finfo(dtype).eps
        assert_close(result.y.double() / factor, unit.y, rtol=0, atol=500 * eps)
        (grad,) = torch.autograd.grad(result.y[..., 0].sin().sum(), moved)
        assert grad.isfinite().all()


def test_types_of_numbers(monkeypatch):
    numbers = torch.tensor([[0, 0], [4, 0], [0, 3]])
    for dtype in (torch.int64, torch.int32, torch.uint8):
        monkeypatch.setattr(cloud_checks, "_warned", set())
        with pytest.warns(UserWarning, match=f"points of {dtype} are taken as torch.float64"):
            assert mds.embed(numbers.to(dtype)).y.dtype == torch.float64
    for dtype in (torch.float16, torch.bfloat16):
        result = mds.embed(numbers.to(dtype), options=QUIET)
        assert result.y.dtype == torch.float32
        assert_close(result.y, mds.embed(numbers.float()).y)
    refused(r"torch\.bool", mds.embed, torch.zeros(3, 3, dtype=torch.bool), error=TypeError)
    x = generic(20).float()
    for scale in ("none", "max"):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = mds.embed(x.clone(), scale=scale).y
        assert torch.equal(inside, mds.embed(x, scale=scale).y)


def test_weights():
    x = generic(10)
    weights = torch.ones(10)
    weights[4] = 0
    keep = weights > 0
    result = mds.embed(x, weights=weights)
    assert not result.y[4].any()
    assert_close(result.y[keep], mds.embed(x[keep]).y)
    assert_close(mds.embed(x, mask=keep).y, result.y)
    for nothing in ({"weights": torch.zeros(10)}, {"mask": torch.zeros(10, dtype=torch.bool)}):
        refused("a point of positive weight, got 1", mds.embed, x, **nothing)
    message = "weights must be finite and not negative"
    for bad in (-1.0, math.nan, math.inf):
        refused(message, mds.embed, x, weights=torch.full((10,), bad))
    refused(r"weights must be \(10,\)", mds.embed, x, weights=weights[1:])
    refused("mask must be bool", mds.embed, x, mask=weights, error=TypeError)
    refused("weights must be real", mds.embed, x, weights=keep, error=TypeError)


def test_shapes_and_choices():
    x = generic(10)
    for bad in (torch.zeros(3), torch.zeros(4, 0)):
        refused("points must", mds.embed, bad)
    refused("with ptr", mds.embed, x[None], ptr=torch.tensor([0, 10]))
    for ptr in ([0, 9], [1, 10], [0, 8, 6, 10]):
        refused("start at 0, never fall and end at 10", mds.embed, x, ptr=torch.tensor(ptr))
    refused("int64", mds.embed, x, error=TypeError, ptr=torch.tensor([0, 10], dtype=torch.int32))
    for name in ("group", "sign", "scale"):
        refused(f"{name} must be one of", mds.embed, x, **{name: "nothing"})
    refused("kind must be one of", mds.frames, x, kind="nothing")
    refused("group must be", mds.frames, x, group=None)


@pytest.mark.parametrize("option", fields(mds.EmbedOptions), ids=lambda option: option.name)
def test_options_out_of_range(option):
    wrong = ["nothing", -1.0, math.nan, 2**60]
    if "range" not in option.metadata:
        wrong.append(3)
    elif option.name not in ("null_tol", "max_frames"):
        wrong.append(2.0)  # shares and probabilities
    for value in wrong:
        with pytest.raises((ValueError, TypeError), match=f"{option.name} must be"):
            mds.EmbedOptions(**{option.name: value})


def test_flagged_clouds(monkeypatch):
    monkeypatch.setattr(import_module("equigeo.mds.embed"), "_warned", set())
    with pytest.warns(UserWarning, match="1 of 1 clouds, the first at batch index "):
        mds.embed(CUBE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mds.embed(CUBE)  # once per process
    raising = mds.EmbedOptions(fallback="error")
    pair, batch = [generic(8), CUBE], torch.tensor([0] * 8 + [1] * 8)
    for clouds in ({"x": torch.stack(pair)}, {"x": torch.cat(pair), "batch": batch}):
        refused("1 of 2 clouds, the first at batch index 1", mds.embed, options=raising, **clouds)


def test_lost_coordinates_are_flagged_and_few_points_have_null_axes():
    x = mds.embed(generic(30)).y
    assert not mds.embed(x.float()).flagged
    # What is left of the coordinates does not settle the axes.
    assert mds.embed((x + 1e6).float(), options=QUIET).flagged
    for count in (2, 3):  # fewer than axes
        result = mds.embed(generic(count), options=QUIET)
        assert result.null.tolist() == [False] * (count - 1) + [True] * (4 - count)
        assert not result.y[:, count - 1 :].any()


@pytest.mark.parametrize("group", ["O", "SO"])
@pytest.mark.parametrize("fallback", ["frames", "anchor"])
def test_fallbacks_give_frames_to_flagged_clouds_alone(group, fallback):
    solid = box(3, 2, 1) if fallback == "frames" else CUBE
    batch = torch.stack([generic(8), turned(solid)])
    options = mds.EmbedOptions(fallback=fallback)

    def average(x):
        frames = mds.embed(x, group=group, options=options).frames
        return frames, mds.frame_average(lambda y: (y + 0.3).sin().cumsum(-1).prod(-1), frames)

    frames, want = average(batch)
    assert int((frames.weight[:, 0] > 0).sum()) == 1
    assert int((frames.weight[:, 1] > 0).sum()) > 1
    for g in motions(10, proper=group == "SO"):
        assert_close(average(batch @ g.mT + 1)[1], want, **tolerance(torch.float64, len(frames)))


CLOUDS = generic(9, batch=(2,))
MASK = torch.ones(2, 9, dtype=torch.bool)
WEIGHTS = torch.rand(2, 9, dtype=torch.float64)
DISTANCES = torch.cdist(CLOUDS[0], CLOUDS[0])
CITIES = torch.rand(2, 7, 2)
FRAMES = mds.frames(CLOUDS, kind="frames")
RESULT = mds.embed(CLOUDS)
ROUTER = mds.AttentionModel.preset("default").eval()
NONE = {"mask: None", "weights: None", "lengths: None", "starts: None"}
# Any dtype, width and number of batch axes is a cloud, and a warning says what is doubtful.
ANY = {f"x: {k}" for k in ("integers", "other dtype", "wider", "meta", "one axis more", "longer")}


def embed(x, mask, weights):
    return mds.embed(x, mask=mask, weights=weights, options=QUIET)


CALLS: list[Wrong] = [
    *wrong_calls(
        embed,
        {"x": CLOUDS, "mask": MASK, "weights": WEIGHTS},
        names={"x": "points|mask"},
        fine=NONE
        | {"x: integers", "x: other dtype", "x: wider", "mask: meta", "x: meta", "weights: meta"}
        | {"weights: integers", "weights: other dtype"},
    ),
    *wrong_calls(
        lambda x: mds.frames(x, options=QUIET), {"x": CLOUDS}, names={"x": "points"}, fine=ANY
    ),
    *wrong_calls(
        mds.Invariant(torch.nn.Linear(3, 2).double(), options=QUIET), {"x": CLOUDS},
        names={"x": "points"}, fine=ANY - {"x: wider"},
    ),
    *wrong_calls(
        mds.InvariantPointNet.preset("pointnet", 3).eval(),
        {"points": CLOUDS.float(), "mask": MASK},
        names={"points": "points|mask"},
        fine=NONE | {"mask: meta", "points: one axis more", "mask: one axis more"},
    ),
    *wrong_calls(lambda x: mds.frame_average(torch.sin, x), {"x": FRAMES}, names={"x": "frames"}),
    *wrong_calls(draw_frames, {"frames": FRAMES}),
    *wrong_calls(
        mds.frame_lift,
        {"h": RESULT.y, "frames": RESULT, "rep": Irreps("1o")},
        names={"h": "features"},
        fine={"h: complex", "h: integers", "h: other dtype", "h: meta"},
    ),
    *wrong_calls(
        mds.distance_embed, {"distances": DISTANCES},
        fine={f"distances: {k}" for k in ("other dtype", "one axis more", "integers", "meta")},
    ),
    *wrong_calls(
        mds.landmark_embed,
        {"landmark_distances": DISTANCES[:4, :4], "distances": DISTANCES[:, :4]},
        names={"landmark_distances": "landmark_distances|distances"},
        fine={f"{n}: {k}" for n in ("landmark_distances", "distances") for k in
              ("other dtype", "integers", "meta")} | {"distances: longer"},
    ),
    *wrong_calls(
        mds.geodesic_embed,
        {"vertices": generic(4), "faces": torch.tensor([[0, 1, 2], [0, 2, 3]])},
        fine={f"vertices: {k}" for k in ("integers", "other dtype", "longer", "meta")}
        | {"faces: longer", "faces: meta"},
    ),
    *wrong_calls(
        mds.graph_distances,
        {"edge_index": torch.tensor([[0, 1], [1, 2]]), "lengths": torch.ones(2)},
        names={"edge_index": "edge_index|lengths"},
        fine=NONE | {f"lengths: {k}" for k in ("integers", "other dtype", "meta")}
        | {"edge_index: meta"},
    ),
    *wrong_calls(
        mds.tour_lengths,
        {"points": CITIES, "tours": torch.arange(7).expand(2, 1, 7)},
        names={"points": "points|tours", "tours": "points|tours"},
        fine={f"points: {k}" for k in ("complex", "integers", "other dtype", "wider", "meta")}
        | {"tours: wider", "tours: meta"},
    ),
    *wrong_calls(
        ROUTER,
        {"cities": CITIES, "starts": torch.zeros(2, 1, dtype=torch.int64)},
        names={"cities": "cities|starts"},
        fine=NONE | {"cities: other dtype", "cities: meta", "starts: meta", "starts: wider"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("wrong", CALLS, ids=lambda wrong: wrong.label)
def test_a_wrong_argument_gives_one_sentence_that_names_it(wrong: Wrong) -> None:
    wrong.check()


def test_results_show_shapes_and_flags():
    distances, tours = mds.distance_embed(DISTANCES, 3), ROUTER.solve(CITIES)
    stress, mean = f"{float(distances.stress):.3g}", f"{float(tours.length.mean()):.4g}"
    for text, result in (
        ("MDSResult(y=(2, 9, 3) torch.float64, clouds=2, flagged=0, group='O')", RESULT),
        ("FrameSet(frames=8, y=(8, 2, 9, 3) torch.float64, clouds=2, exact=2, group='O')", FRAMES),
        (f"DistanceEmbedding(y=(9, 3), stress={stress})", distances),
        (f"Tours(instances=2, tours=1, cities=7, mean length={mean})", tours),
    ):
        assert repr(result) == text
