import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from equigeo import affine, mds, points
from equigeo.groups import SO
from equigeo.points import clouds as cloud_checks

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
        with pytest.raises((TypeError, ValueError), match=r"^points must [^\n]{1,200}$"):
            ENTRIES[name](bad)


def test_rows_and_batch_vectors_are_told_how_to_stand_side_by_side():
    for call in (ENTRIES["nearest_neighbors"], ENTRIES["farthest_point_sampling"]):
        with pytest.raises(ValueError, match=r"\(9, 3\): put clouds .*pad_clouds, or give points"):
            call(CLOUD[0])
    batch = torch.zeros(9, dtype=torch.int64)
    with pytest.raises(ValueError, match="a batch vector is none, see pad_clouds"):
        points.nearest_neighbors(CLOUD, 2, batch)
    with pytest.raises(ValueError, match="a batch vector is none, see pad_clouds"):
        points.PointNet(5)(CLOUD[0], batch)


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
    with pytest.raises(ValueError, match=r"got \(2, 3, 9\): exchange its last axes, points\.mT"):
        layer(CLOUD.mT)
