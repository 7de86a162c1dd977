import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from equigeo import affine, mds, points
from equigeo.groups import SO
from equigeo.points import clouds as cloud_checks
from tests.wrong_inputs import Wrong, refused, wrong_calls

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
def test_three_points_of_nine_coordinates_are_doubted_once(name):
    with pytest.warns(UserWarning, match=r"clouds of 3 points with 9 .* axes: points\.mT"):
        ENTRIES[name](CLOUD.mT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ENTRIES[name](CLOUD.mT)


@every_entry
def test_sound_clouds_and_arrays_are_taken_without_a_word(name):
    want, found = ENTRIES[name](CLOUD), ENTRIES[name](CLOUD.numpy())
    for one, other in zip(leaves(want), leaves(found), strict=True):
        assert torch.equal(one, other)


def leaves(result) -> tuple[torch.Tensor, ...]:
    if isinstance(result, torch.Tensor):
        return (result,)
    return result if isinstance(result, tuple) else (result.y,)


@pytest.mark.parametrize("name", ["embed", "frames"])
def test_integers_are_taken_with_a_warning(name):
    whole = (10 * CLOUD).long()
    with pytest.warns(UserWarning, match=r"points of torch.int64 are taken as torch.float64"):
        found = ENTRIES[name](whole)
    assert torch.equal(found.y, ENTRIES[name](whole.double()).y)


@pytest.mark.parametrize("name", [n for n in ENTRIES if n not in ("embed", "frames")])
def test_integers_are_refused_where_sums_of_them_would_overflow(name):
    with pytest.raises(TypeError, match=r"points must be floating, got torch.uint8: use points"):
        ENTRIES[name](CLOUD.to(torch.uint8))


@every_entry
def test_non_cloud_input_raises_one_sentence(name):
    for bad in (None, [[0.0]], torch.zeros(3), np.array(["a"])):
        refused(r"^points must [^\n]{1,200}$", ENTRIES[name], bad, error=(TypeError, ValueError))


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
ROWS, BATCH = CLOUD[0], torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1])

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
        {"points_": ROWS, "batch": BATCH},
        names={"points_": "points|batch", "batch": "batch|ptr"},
        fine={
            f"points_: {kind}" for kind in ("complex", "integers", "other dtype", "wider", "meta")
        },
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
