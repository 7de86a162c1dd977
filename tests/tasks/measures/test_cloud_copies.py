import pytest
import torch

from equigeo.tasks.measures.cloud_copies import CLOUD_COPIES, cloud_copies
from equigeo.tasks.pointcloud import PointConfig
from equigeo.testing import tolerance


@pytest.mark.parametrize("kind", CLOUD_COPIES)
def test_copies_are_what_they_are_called(kind):
    points = torch.randn(5, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moved = cloud_copies(points, kind)
    assert torch.equal(moved, cloud_copies(points, kind))
    assert torch.equal(moved[:2], cloud_copies(points[:2], kind))
    assert not torch.allclose(moved, cloud_copies(points, kind, seed=1))
    assert not torch.allclose(moved, points)
    if kind == "re-ordered":
        assert torch.equal(moved.sort(dim=1).values, points.sort(dim=1).values)
        return
    linear = torch.linalg.lstsq(points - points[:, :1], moved - moved[:, :1]).solution
    determinant, stretch = torch.linalg.det(linear), torch.linalg.svdvals(linear)
    if kind == "scaled":
        bound = tolerance(torch.float64, 20)["atol"]
        assert (stretch.amax(1) - stretch.amin(1)).abs().max() < bound
        assert stretch.min() > 0.24
    else:
        sign = -1 if kind == "reflected" else 1
        torch.testing.assert_close(determinant, torch.full_like(determinant, sign))
    assert ((stretch - 1).abs().max() > 0.05) == (kind in ("scaled", "sheared"))


def test_unknown_kinds_and_models_are_refused():
    with pytest.raises(ValueError, match="kind must be one of rotated"):
        cloud_copies(torch.zeros(1, 2, 3), "twisted")
    with pytest.raises(ValueError, match="model must be one of affine, mds, plain"):
        PointConfig("clouds", model="best")
