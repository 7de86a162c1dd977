import pytest
import torch

from equigeo.mesh import PrimalDualGraph
from equigeo.tasks.common.copies import CLOUD_COPIES, cloud_copies
from equigeo.tasks.mesh_classification.task import MESH_COPIES, random_copy
from equigeo.tasks.pointcloud import PointConfig
from equigeo.testing import tolerance
from tests.mesh.shapes import met_again
from tests.tasks.tiny_data import tiny_dataset


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


def test_unknown_kinds_are_refused_and_everything_reflects_half_of_the_copies():
    with pytest.raises(ValueError, match="kind must be one of rotated"):
        cloud_copies(torch.zeros(1, 2, 3), "twisted")
    with pytest.raises(ValueError, match="model must be one of affine, mds, plain"):
        PointConfig("clouds", model="best")
    with pytest.raises(ValueError, match="kind must be one of rotated"):
        _copy("sheared")
    signs = [_volume(_copy(MESH_COPIES[-1], seed)) > 0 for seed in range(32)]
    assert 4 < sum(signs) < 28


MESH = tiny_dataset(1, 0).meshes[1]


def _copy(kind, seed=0):
    return random_copy(MESH, kind, torch.Generator().manual_seed(seed))


def _volume(mesh):
    a, b, c = mesh.vertices[mesh.faces].unbind(dim=1)
    return float((torch.linalg.cross(a, b) * c).sum()) / 6


def _sorted_areas(mesh):
    a, b, c = mesh.vertices[mesh.faces].unbind(dim=1)
    return torch.linalg.cross(b - a, c - a).norm(dim=1).sort().values


@pytest.mark.parametrize("kind", MESH_COPIES)
def test_copies_are_similar_and_not_identical(kind):
    copy = _copy(kind)
    ratio = _sorted_areas(copy) / _sorted_areas(MESH)
    # Ten diagonals away an edge of a fiftieth of one is known to 500 units of 2.2e-16: 1.1e-13.
    torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio), rtol=1e-12, atol=0)
    same = torch.equal(copy.vertices, MESH.vertices) and torch.equal(copy.faces, MESH.faces)
    assert not same


@pytest.mark.parametrize(("kind", "sign"), [("rotated", 1), ("reflected", -1)])
def test_reflection_alone_turns_the_surface_inside_out(kind, sign):
    for seed in range(8):
        assert _volume(_copy(kind, seed)) * sign == pytest.approx(_volume(MESH))


def test_reindexing_permutes_vertices_faces_and_corners():
    copy = _copy("re-indexed")
    assert not torch.equal(copy.vertices, MESH.vertices)
    assert _volume(copy) == pytest.approx(_volume(MESH))  # corners are rotated, never exchanged
    torch.testing.assert_close(copy.vertices.sum(dim=0), MESH.vertices.sum(dim=0))


@pytest.mark.parametrize("kind", MESH_COPIES)
def test_pairs_of_faces_follow_their_faces(kind):
    mesh = met_again()
    copy = random_copy(mesh, kind, torch.Generator().manual_seed(1))
    one, other = (PrimalDualGraph.from_mesh(m, dtype=torch.float64) for m in (mesh, copy))
    for name in ("x_primal", "x_dual"):
        rows = [getattr(graph, name).round(decimals=9).tolist() for graph in (one, other)]
        assert len(rows[0]) > 0
        for row, expected in zip(sorted(rows[1]), sorted(rows[0]), strict=True):
            # a unit of the ninth decimal, which features are rounded to
            assert row == pytest.approx(expected, abs=1.1e-9)
