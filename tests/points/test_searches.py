import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo import affine, mds, points
from equigeo.groups import SO
from equigeo.points import clouds as cloud_checks
from equigeo.points import (
    farthest_point_sampling,
    gather_rows,
    nearest_neighbors,
    pad_clouds,
    radius_neighbors,
)
from equigeo.points.sampling import farthest_first
from tests.draws import generator
from tests.wrong_inputs import Wrong, refused, wrong_calls


def test_the_first_of_equals_and_the_farthest_that_are_there_are_chosen():
    x = torch.tensor([[[0.0], [1.0], [9.0], [4.0], [50.0]]])
    mask = torch.tensor([[True, True, True, True, False]])
    assert farthest_point_sampling(x, 3, mask).tolist() == [[2, 0, 3]]
    assert farthest_point_sampling(x, 5, mask).tolist() == [[2, 0, 3, 1, 0]]
    square = torch.tensor([[[1.0, 0], [0, 1], [-1, 0], [0, -1]]])
    assert farthest_point_sampling(square, 4).tolist() == [[0, 2, 1, 3]]
    assert farthest_point_sampling(torch.ones(1, 4, 2), 3).tolist() == [[0, 1, 2]]
    x = torch.zeros(1, 4, 3)
    for count in (0, 5):
        message = rf"the points of \(1, 4, 3\), got {count}"
        refused(message, farthest_point_sampling, x, count)
    refused("every cloud must have a point", farthest_point_sampling, x, 1, x[..., 0].bool())


def test_every_choice_is_the_farthest_from_those_before():
    x = torch.randn(3, 50, 3, generator=generator(0))
    origin = x.mean(1)
    chosen = farthest_point_sampling(x, 12, origin=origin)
    assert torch.equal(chosen[:, 0], (x - origin[:, None]).norm(dim=-1).argmax(1))
    for m in range(1, 12):
        reach = torch.cdist(x, gather_rows(x, chosen[:, :m])).amin(-1)
        assert torch.equal(chosen[:, m], reach.argmax(1))
    assert torch.equal(farthest_point_sampling(x, 5, origin=origin), chosen[:, :5])


def test_no_point_is_chosen_twice_while_others_are_left():
    grid = torch.cartesian_prod(*[torch.arange(3.0)] * 3)
    twice = torch.cat([grid, grid])[None]  # as of clouds that are sampled with replacement
    mask = torch.ones(1, 54, dtype=torch.bool)
    mask[0, ::5] = False
    left = mask.sum().item()
    for x in (twice, 1e4 + twice, twice.double()):
        assert farthest_point_sampling(x, 54).unique().tolist() == list(range(54))
        chosen = farthest_point_sampling(x, 54, mask)[0]
        assert chosen[:left].sort().values.tolist() == mask[0].nonzero()[:, 0].tolist()
        assert chosen[left:].tolist() == [1] * (54 - left)


def test_other_metric_spaces_are_covered():
    hops = (torch.arange(10)[:, None] - torch.arange(10)).abs()
    around = torch.minimum(hops, 10 - hops)  # a ring
    asked = []

    def measure(chosen):
        asked.append(int(chosen))
        return around[int(chosen)]

    assert farthest_first(torch.tensor([3]), measure, 4).tolist() == [3, 8, 0, 5]
    assert asked == [3, 8, 0]


@pytest.mark.parametrize("size", [60, 160])  # of the latter, minima of blocks are sorted first
@pytest.mark.parametrize("dim", [1, 3, 40])
def test_nearest_neighbors_are_the_nearest_in_order(dim, size):
    g = generator(0)
    x = torch.randn(2, size, dim, generator=g, dtype=torch.float64)
    centers = torch.randn(2, 7, dim, generator=g, dtype=torch.float64)
    want = torch.cdist(centers, x).topk(5, largest=False).indices
    assert torch.equal(nearest_neighbors(x, 5, centers=centers), want)
    assert torch.equal(nearest_neighbors(x, 5)[..., 0], torch.arange(size).expand(2, size))
    mask = torch.arange(size) < torch.tensor([[size // 2], [3]])
    found = nearest_neighbors(x, 5, mask, centers=centers)
    some = [torch.cdist(c, y[m]).argsort()[:, :5] for c, y, m in zip(centers, x, mask, strict=True)]
    assert torch.equal(found[0], some[0])
    assert torch.equal(found[1], some[1][:, [0, 1, 2, 0, 0]])


def test_padding_is_no_neighbor_and_points_that_nearly_coincide_are_told_apart():
    for dim in (1, 3, 8):
        x = torch.zeros(1, 4, dim)
        x[0, 1:, 0] = torch.tensor([1.0, 1.0 + 1e-5, 1.0 + 3e-5])  # squares differ by less than eps
        assert nearest_neighbors(x, 3)[0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 1, 3], [3, 2, 1]]
    x = torch.tensor([[[0.0], [1.0], [9.0], [4.0], [0.5]]])
    mask = torch.tensor([[True, True, False, True, False]])
    assert nearest_neighbors(x, 2, mask)[0, 0].tolist() == [0, 1]
    assert nearest_neighbors(x, 5, mask)[0, 3].tolist() == [3, 1, 0, 3, 3]
    assert nearest_neighbors(torch.tensor([[[0.0], [1.0]]]), 9).tolist() == [[[0, 1], [1, 0]]]


pytestmark = pytest.mark.usefixtures("own_searches")
LINE = torch.tensor([[[0.0], [1.0], [9.0], [2.0]]])


def test_what_lies_on_the_sphere_is_inside_and_padding_never():
    indices, inside = radius_neighbors(LINE, 1.0)
    assert indices.tolist() == [[[0, 1, 2, 3]] * 4]
    assert inside.int().tolist() == [[[1, 1, 0, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 1, 0, 1]]]
    indices, inside = radius_neighbors(LINE, 3.0, 2, centers=torch.tensor([[[-0.5], [6.5]]]))
    assert sorted(indices[0, 0].tolist()) == [0, 1]
    assert inside.int().sum(-1).tolist() == [[2, 1]]
    assert int(indices[0, 1][inside[0, 1]]) == 2
    mask = torch.tensor([[True, False, True, True]])
    for count in (None, 3, 9):
        indices, inside = radius_neighbors(LINE, 1.5, count, mask)
        assert not bool((inside & (indices == 1)).any())
        assert indices.shape[-1] == min(count or 9, 4)


def test_batch_axes_are_free():
    x = torch.randn(2, 5, 30, 3, generator=generator(0))
    indices, inside = radius_neighbors(x, 1.0, 6, torch.ones(2, 1, 30, dtype=torch.bool))
    alone = radius_neighbors(x[1, 3], 1.0, 6)
    assert torch.equal(indices[1, 3], alone[0])
    assert torch.equal(inside[1, 3], alone[1])


def test_gathered_rows_are_those_of_each_cloud_and_gradients_add_up():
    g = generator(0)
    for features, axes in itertools.product([(), (4,), (2, 3), (0,)], [(5,), (2, 3), (0,)]):
        rows = torch.randn(3, 7, *features, generator=g)
        indices = torch.randint(7, (3, *axes), generator=g)
        want = torch.stack([rows[b][indices[b]] for b in range(3)])
        assert torch.equal(gather_rows(rows, indices), want)
    rows = torch.zeros(1, 3, 2, requires_grad=True)
    gather_rows(rows, torch.tensor([[1, 1, 0]])).sum().backward()
    assert rows.grad.tolist() == [[[1, 1], [2, 2], [0, 0]]]
    rows = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 0, 1, 1, 1])
    assert torch.autograd.gradcheck(lambda x: pad_clouds(x, batch=batch)[0], rows)


SIZES = st.lists(st.integers(0, 4), max_size=5)


@given(SIZES)
def test_padding_is_undone_by_the_mask(sizes):
    rows = torch.randn(sum(sizes), 2, dtype=torch.float64)
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    padded, mask = pad_clouds(rows, ptr=ptr)
    assert padded.shape == (len(sizes), max(sizes, default=0), 2)
    assert mask.sum(1).tolist() == sizes
    assert torch.equal(padded[mask], rows)
    assert not padded[~mask].any()


BATCH = torch.tensor([0, 1, 1])


def test_what_is_no_batch_is_refused():
    for clouds, error, message in (
        ({}, ValueError, "batch or ptr must be given, got neither"),
        ({"batch": BATCH, "ptr": torch.tensor([0, 3])}, ValueError, "give one of them, got both"),
        ({"batch": BATCH.flip(0)}, ValueError, "batch must be sorted and not negative: sort all"),
        ({"batch": BATCH - 1}, ValueError, "batch must be sorted and not negative"),
        ({"batch": BATCH[:2]}, ValueError, r"batch must be \(3,\), got \(2,\)"),
        ({"batch": BATCH[None]}, ValueError, r"batch must be \(3,\), got \(1, 3\)"),
        ({"batch": BATCH.float()}, TypeError, r"batch must be int64, got torch\.float32"),
        ({"batch": BATCH.int()}, TypeError, r"batch must be int64, got torch\.int32"),
        ({"batch": [0, 1, 1]}, TypeError, "batch must be a Tensor or a NumPy array, got list"),
        ({"batch": torch.tensor([0, 1, 2**40])}, ValueError, "at most 134217728 clouds, got 10995"),
        ({"batch": BATCH.to("meta")}, ValueError, "batch must have values, got meta"),
        ({"ptr": torch.tensor([0, 2])}, ValueError, "start at 0, never fall and end at 3"),
        ({"ptr": torch.tensor([0, 4, 3])}, ValueError, "start at 0, never fall and end at 3"),
        ({"ptr": torch.tensor([])}, TypeError, "ptr must be int64"),
        ({"ptr": torch.tensor([], dtype=torch.int64)}, ValueError, r"ptr must be \(clouds \+ 1,\)"),
    ):
        refused(message, pad_clouds, torch.zeros(3, 2), error=error, **clouds)
    refused("got a single number", pad_clouds, torch.tensor(1.0), batch=torch.tensor([0]))


SEARCHES = {
    "nearest": lambda x, size: nearest_neighbors(x, 8).sort(-1).values,
    "within": lambda x, size: radius_neighbors(x, 0.4 * size)[1],
    "nearest within": lambda x, size: radius_neighbors(x, 0.4 * size, 5)[0].sort(-1).values,
    "farthest": lambda x, size: farthest_point_sampling(x, 10),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_searches_do_not_depend_on_the_scale(search, dtype):
    x = torch.rand(2, 40, 3, generator=generator(0), dtype=dtype)
    want = search(x, 1.0)
    far = 250 if dtype == torch.float64 else 25
    for exponent in (-far, -22, 22, far):
        size = 2.0 ** round(exponent / math.log10(2))
        assert torch.equal(search(x * size, size), want), exponent


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_coordinates_that_are_not_finite_are_refused(search, value):
    x = torch.rand(2, 40, 3)
    x[1, 3, 0] = value
    refused("points must be finite", search, x, 1.0)


def test_what_is_masked_may_hold_anything_and_is_never_inside():
    x = torch.rand(1, 6, 3)
    mask = torch.tensor([[True, True, True, False, False, False]])
    x[0, 3], x[0, 4], x[0, 5] = math.nan, math.inf, 1e38
    assert nearest_neighbors(x, 3, mask, centers=x[:, :3]).max() < 3
    assert farthest_point_sampling(x, 3, mask).sort().values.tolist() == [[0, 1, 2]]
    for count in (None, 4):
        for radius in (10.0, math.inf):
            indices, inside = radius_neighbors(x, radius, count, mask, centers=x[:, :3])
            assert sorted(indices[inside].tolist()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("index", [-1, 3])
def test_rows_of_other_clouds_are_never_read(index):
    rows = torch.arange(6.0).view(2, 3, 1)
    for cloud in (0, 1):
        indices = torch.zeros(2, 2, dtype=torch.int64)
        indices[cloud, 1] = index
        refused("indices must be from 0 to 2", gather_rows, rows, indices, error=RuntimeError)


CLOUD = torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0))
ENTRIES: dict[str, Callable] = {
    "farthest_point_sampling": lambda x: points.farthest_point_sampling(x, 2),
    "nearest_neighbors": lambda x: points.nearest_neighbors(x, 2),
    "radius_neighbors": lambda x: points.radius_neighbors(x, 1.0),
    "embed": lambda x: mds.embed(x, options=mds.EmbedOptions(fallback="ignore")),
    "frames": lambda x: mds.frames(x, kind="frames"),
}
every_entry = pytest.mark.parametrize("name", ENTRIES)


@pytest.fixture(autouse=True)
def forget_warnings(monkeypatch):
    monkeypatch.setattr(cloud_checks, "_warned", set())


@every_entry
def test_sound_clouds_and_arrays_are_taken_and_non_cloud_input_raises(name):
    want, found = ENTRIES[name](CLOUD), ENTRIES[name](CLOUD.numpy())
    for one, other in zip(leaves(want), leaves(found), strict=True):
        assert torch.equal(one, other)
    for bad in (None, [[0.0]], torch.zeros(3), np.array(["a"])):
        refused(r"^points must [^\n]{1,200}$", ENTRIES[name], bad, error=(TypeError, ValueError))


def leaves(result) -> tuple[torch.Tensor, ...]:
    if isinstance(result, torch.Tensor):
        return (result,)
    return result if isinstance(result, tuple) else (result.y,)


@every_entry
def test_integers_are_taken_with_a_warning_unless_sums_of_them_would_overflow(name):
    if name in ("embed", "frames"):
        whole = (10 * CLOUD).long()
        with pytest.warns(UserWarning, match=r"points of torch.int64 are taken as torch.float64"):
            found = ENTRIES[name](whole)
        assert torch.equal(found.y, ENTRIES[name](whole.double()).y)
        return
    with pytest.raises(TypeError, match=r"points must be floating, got torch.uint8: use points"):
        ENTRIES[name](CLOUD.to(torch.uint8))


def test_rows_and_batch_vectors_are_told_how_to_stand_side_by_side():
    for call in (ENTRIES["nearest_neighbors"], ENTRIES["farthest_point_sampling"]):
        refused(r"\(9, 3\): put clouds .*pad_clouds, or give points", call, CLOUD[0])
    batch = torch.zeros(9, dtype=torch.int64)
    refused("a batch vector is none, see pad_clouds", points.nearest_neighbors, CLOUD, 2, batch)
    refused("a batch vector is none, see pad_clouds", points.PointNet(5), CLOUD[0], batch)


@pytest.mark.parametrize(
    "layer",
    [
        points.PointNet(5).eval(),
        mds.Invariant(points.PointNet(5)),
        mds.InvariantPointNet.preset("pointnet", 5),
        affine.AffinePointNet.preset("default", 5),
        affine.PointFrame(SO(3)),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_and_networks_tell_which_axes_are_exchanged(layer):
    refused(r"got \(2, 3, 9\): exchange its last axes, points\.mT", layer, CLOUD.mT)


MASK = torch.ones(2, 9, dtype=torch.bool)
CENTERS = CLOUD[:, :4]
NONE = {"mask: None", "centers: None", "origin: None", "batch: None", "ptr: None"}
ROWS, ROW_BATCH = CLOUD[0], torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])

CALLS: list[Wrong] = [
    *wrong_calls(
        lambda points_, mask, origin: points.farthest_point_sampling(
            points_, 3, mask, origin=origin
        ),
        {"points_": CLOUD, "mask": MASK, "origin": CLOUD[:, 0]},
        names={"points_": "points|mask|origin"},
        fine=NONE
        | {"points_: meta", "points_: other dtype"}
        | {f"origin: {kind}" for kind in ("integers", "other dtype", "meta", "complex")}
        | {"mask: meta"},
    ),
    *wrong_calls(
        lambda points_, mask, centers: points.nearest_neighbors(points_, 3, mask, centers=centers),
        {"points_": CLOUD, "mask": MASK, "centers": CENTERS},
        names={"points_": "points|mask|centers"},
        fine=NONE
        | {"points_: meta", "points_: other dtype", "centers: other dtype", "centers: meta"}
        | {"centers: longer", "mask: meta"},
    ),
    *wrong_calls(
        lambda points_, centers: points.radius_neighbors(points_, 1.0, centers=centers),
        {"points_": CLOUD, "centers": CENTERS},
        names={"points_": "points|centers"},
        fine=NONE
        | {f"{name}: {kind}" for name in ("points_", "centers") for kind in
           ("meta", "other dtype", "longer", "one axis more")},
    ),
    *wrong_calls(
        points.gather_rows,
        {"rows": CLOUD, "indices": torch.zeros(2, 4, dtype=torch.int64)},
        fine={"rows: complex", "rows: integers", "rows: other dtype", "rows: wider", "rows: meta"}
        | {"indices: wider", "indices: meta"},
    ),
    *wrong_calls(
        lambda points_, batch: points.pad_clouds(points_, batch=batch),
        {"points_": ROWS, "batch": ROW_BATCH},
        names={"points_": "points|batch", "batch": "batch|ptr"},
        fine={f"points_: {k}" for k in ("complex", "integers", "other dtype", "wider", "meta")},
    ),
    *wrong_calls(  # the check of the base class of all networks
        points.PointNet(5).eval(),
        {"points": CLOUD, "mask": MASK},
        names={"points": "points|mask"},
        fine=NONE | {"mask: meta"},
    ),
]  # fmt: skip


def test_a_wrong_argument_gives_one_sentence_that_names_it():
    for wrong in CALLS:
        wrong.check()
