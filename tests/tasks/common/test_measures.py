import json
import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets import EdgeLabels, SegmentedMeshDataset, edges_in_order
from equigeo.mesh import PrimalDualClassifier, PrimalDualGraph, TriangleMesh
from equigeo.tasks.common.measures import (
    AREA_ACCURACY,
    CLOUD_COPIES,
    EDGE_ACCURACY,
    FACE_ACCURACY,
    MEAN_IOU,
    MESH_AREA_ACCURACY,
    MESH_FACE_ACCURACY,
    SOFT_EDGE_ACCURACY,
    cloud_copies,
    edge_accuracy,
    edge_weights,
    face_areas,
    face_to_edge_predictions,
    mean_iou,
    segmentation_measures,
    soft_edge_accuracy,
)
from equigeo.tasks.common.mesh_data import report_facts, shape_geometry
from equigeo.tasks.mesh_classification.task import MESH_COPIES, random_copy
from equigeo.tasks.pointcloud import PointConfig
from equigeo.testing import tolerance
from tests.mesh.shapes import icosphere, met_again
from tests.tasks.tiny_data import tiny_dataset
from tests.wrong_inputs import refused

# Two triangles that share the edge from 0 to 1, of areas 1 and 3.
_TWO = TriangleMesh(
    torch.tensor([[0.0, 0, 0], [2, 0, 0], [0, 1, 0], [0, -3, 0]]),
    torch.tensor([[0, 1, 2], [0, 3, 1]]),
)
_TETRAHEDRON = TriangleMesh(
    torch.eye(4, 3), torch.tensor([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
)
# Four triangles of area 1/2 in a strip, the last of area 1.
_STRIP = TriangleMesh(
    torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0], [2, 2, 0]]),
    torch.tensor([[0, 1, 2], [1, 3, 2], [2, 3, 4], [3, 5, 4]]),
)


def _data(meshes, labels, classes=("a", "b", "c"), edge_labels=(), labels_at="faces"):
    names = tuple(f"mesh {k}" for k in range(len(meshes)))
    in_train = torch.ones(len(meshes), dtype=torch.bool)
    labels = tuple(map(torch.tensor, labels))
    return SegmentedMeshDataset(
        tuple(meshes), labels, classes, names, in_train, labels_at, edge_labels
    )


def test_measures_of_faces_are_those_by_hand():
    data = _data([_TWO, _STRIP], [[0, 1], [0, 0, 1, 2]])
    predictions = [torch.tensor([0, 0]), torch.tensor([0, 0, 1, 1])]
    found = segmentation_measures(data, [0, 1], predictions)
    # Two faces: one right, a quarter of the area. Four faces: three right, 1.5 of 2.5.
    assert found == {
        FACE_ACCURACY: pytest.approx(4 / 6),
        MESH_FACE_ACCURACY: pytest.approx((1 / 2 + 3 / 4) / 2),
        AREA_ACCURACY: pytest.approx((2 * 1 / 4 + 4 * 3 / 5) / 6),
        MESH_AREA_ACCURACY: pytest.approx((1 / 4 + 3 / 5) / 2),
        MEAN_IOU: pytest.approx((3 / 4 + 1 / 3 + 0) / 3),
    }
    found = segmentation_measures(data, [1, 0], [torch.tensor([0, 0, 1, 2]), torch.tensor([0, 1])])
    assert set(found.values()) == {1.0}


def test_faces_without_a_label_and_the_size_of_a_mesh_do_not_count():
    data = _data([_TWO, _STRIP, _TWO], [[0, -1], [0, 0, 1, -1], [-1, -1]])
    predictions = [torch.tensor([0, 0]), torch.tensor([0, 1, 1, 1]), torch.tensor([1, 1])]
    found = segmentation_measures(data, [0, 1, 2], predictions)
    assert found[FACE_ACCURACY] == pytest.approx(3 / 4)
    assert found[AREA_ACCURACY] == pytest.approx((1 + 3 * 2 / 3) / 4)
    assert found[MESH_AREA_ACCURACY] == pytest.approx((1 + 2 / 3) / 2)
    refused("no face has a label", segmentation_measures, data, [2], predictions[2:])
    larger = TriangleMesh(100 * _STRIP.vertices, _STRIP.faces)
    labels, predictions = [[0, 1], [0, 0, 1, 2]], [torch.tensor([0, 0]), torch.tensor([0] * 4)]
    found, scaled = (
        segmentation_measures(_data([_TWO, mesh], labels), [0, 1], predictions)
        for mesh in (_STRIP, larger)
    )
    assert found == pytest.approx(scaled)
    data = _data([_STRIP, _TWO], [[0, 0, 0, 0], [0, -1]])
    found = segmentation_measures(data, [0, 1], [torch.zeros(4).long(), torch.ones(2).long()])
    assert found[FACE_ACCURACY] == 4 / 5
    assert found[MESH_FACE_ACCURACY] == 1 / 2


def test_mean_iou_is_over_classes_that_occur_and_edges_take_predictions_of_faces():
    assert mean_iou(torch.tensor([[5, 0, 0], [0, 0, 0], [0, 0, 0]])) == 1.0
    assert mean_iou(torch.tensor([[0, 5], [0, 0]])) == 0.0  # predicted where it is not
    assert mean_iou(torch.tensor([[2, 1], [1, 4]])) == pytest.approx((2 / 4 + 4 / 6) / 2)
    refused("counts nothing", mean_iou, torch.zeros(2, 2, dtype=torch.int64))
    found = face_to_edge_predictions(torch.tensor([5, 7]), _TWO)
    assert found.tolist() == [[5, 7], [5, 5], [5, 5], [7, 7], [7, 7]]


def test_areas_and_weights_of_edges_are_those_by_hand_and_weights_sum_to_one():
    edges = edges_in_order(_TWO.faces).vertices.tolist()
    assert edges == [[0, 1], [1, 2], [0, 2], [0, 3], [1, 3]]
    expected = [4 / 12, 1 / 12, 1 / 12, 3 / 12, 3 / 12]
    assert edge_weights(_TWO).tolist() == pytest.approx(expected)
    assert face_areas(_TWO).tolist() == [1.0, 3.0]
    assert face_areas(_STRIP).tolist() == [0.5, 0.5, 0.5, 1.0]
    for mesh in (_TWO, _TETRAHEDRON, _STRIP):
        # sums of up to nine weights, in units of 2.2e-16
        assert edge_weights(mesh).sum().item() == pytest.approx(1, abs=1e-15)


@given(st.integers(0, 2**31), st.booleans())
def test_a_prediction_of_any_positive_column_scores_one(seed, pad):
    generator = torch.Generator().manual_seed(seed)
    edges = len(edges_in_order(_TETRAHEDRON.faces).vertices)
    soft = torch.rand(edges, 3 + pad, generator=generator)
    positive = torch.rand(edges, 3 + pad, generator=generator) < 0.4
    positive[torch.arange(edges), torch.randint(3, (edges,), generator=generator)] = True
    soft = (soft + 0.1) * positive
    chosen = positive.double().multinomial(1, generator=generator)[:, 0]
    assert soft_edge_accuracy(chosen, soft, _TETRAHEDRON) == pytest.approx(1)
    if not positive.all():  # and any other column takes the weight of its edge
        edge, column = (~positive).nonzero()[0].tolist()
        chosen[edge] = column
        expected = 1 - edge_weights(_TETRAHEDRON)[edge].item()
        assert soft_edge_accuracy(chosen, soft, _TETRAHEDRON) == pytest.approx(expected)


def test_measures_of_edges_are_those_by_hand():
    hard = torch.tensor([0, 0, 1, -1, 1])
    soft = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 0], [0, 1, 0]]).double()
    data = _data([_TWO], [[0, 1]], edge_labels=(EdgeLabels(hard, soft),))
    predictions = [torch.tensor([0, 1])]
    found = segmentation_measures(data, [0], predictions)
    # (0, 1): half right; (1, 2): right; (0, 2): wrong; (0, 3): no label; (1, 3): right.
    assert found[EDGE_ACCURACY] == pytest.approx((1 / 2 + 1 + 0 + 1) / 4)
    assert found[SOFT_EDGE_ACCURACY] == pytest.approx((4 / 2 + 1 + 0 + 3) / (4 + 1 + 1 + 3))
    assert found[FACE_ACCURACY] == 1.0


def test_measures_of_edges_are_given_where_meshes_have_labels():
    hard, soft = torch.zeros(5, dtype=torch.int64), torch.ones(5, 3).double()
    both = (EdgeLabels(hard, soft), EdgeLabels(soft=soft))
    data = _data([_TWO, _TWO], [[0, 1]] * 2, edge_labels=both)
    predictions = [torch.tensor([0, 1])] * 2
    found = segmentation_measures(data, [0, 1], predictions)
    assert SOFT_EDGE_ACCURACY in found
    assert EDGE_ACCURACY not in found
    assert EDGE_ACCURACY in segmentation_measures(data, [0], predictions[:1])
    known = EdgeLabels(torch.tensor([0, 0, 0, 1, 1]), torch.tensor([[1.0, 0, 0]] * 5).double())
    nothing = EdgeLabels(torch.full((5,), -1), torch.zeros(5, 3).double())
    data = _data([_TWO, _TWO], [[0, 1]] * 2, edge_labels=(known, nothing))
    predictions = [torch.tensor([0, 1])] * 2
    alone = segmentation_measures(data, [0], predictions[:1])
    assert segmentation_measures(data, [0, 1], predictions) == alone
    none = segmentation_measures(data, [1], predictions[:1])
    assert FACE_ACCURACY in none
    assert not none.keys() & {EDGE_ACCURACY, SOFT_EDGE_ACCURACY}


def test_what_does_not_fit_is_refused():
    data = _data([_TWO], [[0, 1]])
    at_vertices = _data([_TWO], [[0, 1, 0, 1]], labels_at="vertices")
    five, right = torch.zeros(5, dtype=torch.int64), [torch.tensor([0, 1])]
    for message, call, *arguments in (
        ("predictions must be of 2 faces", segmentation_measures, data, [0], [torch.tensor([0])]),
        ("must label faces, got vertices", segmentation_measures, at_vertices, [0], right),
        ("need a column for class 3, got 3", soft_edge_accuracy, five + 3, torch.ones(5, 3), _TWO),
        ("must be of 5 edges, got 4", soft_edge_accuracy, five[:4], torch.ones(5, 3), _TWO),
        ("no edge has a soft label", soft_edge_accuracy, five, torch.zeros(5, 3), _TWO),
        ("no edge has a label", edge_accuracy, torch.tensor([0, 1]), five - 1, _TWO),
        ("kind must be one of rotated", cloud_copies, torch.zeros(1, 2, 3), "twisted"),
        ("kind must be one of rotated", _copy, "sheared"),
        ("model must be one of affine, mds, plain", partial(PointConfig, model="best"), "clouds"),
    ):
        refused(message, call, *arguments)


def test_a_mesh_without_area_counts_its_faces_alike():
    flat = TriangleMesh(torch.zeros(3, 3), torch.tensor([[0, 1, 2], [0, 2, 1]]))
    found = segmentation_measures(_data([flat], [[0, 1]]), [0], [torch.tensor([0, 0])])
    assert found[MESH_AREA_ACCURACY] == 0.5
    assert all(map(math.isfinite, found.values()))


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


MESH = tiny_dataset(1, 0).meshes[1]


def _copy(kind, seed=0):
    return random_copy(MESH, kind, torch.Generator().manual_seed(seed))


def _corners(mesh):
    return mesh.vertices[mesh.faces].unbind(dim=1)


def _volume(mesh):
    a, b, c = _corners(mesh)
    return float((torch.linalg.cross(a, b) * c).sum()) / 6


def _sorted_areas(mesh):
    a, b, c = _corners(mesh)
    return torch.linalg.cross(b - a, c - a).norm(dim=1).sort().values


@pytest.mark.parametrize("kind", MESH_COPIES)
def test_copies_are_similar_and_not_identical_and_pairs_of_faces_follow(kind):
    copy = _copy(kind)
    ratio = _sorted_areas(copy) / _sorted_areas(MESH)
    # Ten diagonals away an edge of a fiftieth of one is known to 500 units of 2.2e-16: 1.1e-13.
    torch.testing.assert_close(ratio, ratio.mean().expand_as(ratio), rtol=1e-12, atol=0)
    same = torch.equal(copy.vertices, MESH.vertices) and torch.equal(copy.faces, MESH.faces)
    assert not same
    meshes = met_again(), random_copy(met_again(), kind, torch.Generator().manual_seed(1))
    one, other = (PrimalDualGraph.from_mesh(mesh, dtype=torch.float64) for mesh in meshes)
    for name in ("x_primal", "x_dual"):
        rows = [getattr(graph, name).round(decimals=9).tolist() for graph in (one, other)]
        assert len(rows[0]) > 0
        for row, expected in zip(sorted(rows[1]), sorted(rows[0]), strict=True):
            # a unit of the ninth decimal, which features are rounded to
            assert row == pytest.approx(expected, abs=1.1e-9)


def test_reflection_alone_turns_the_surface_inside_out_and_reindexing_permutes_it():
    for kind, sign in (("rotated", 1), ("reflected", -1)):
        for seed in range(8):
            assert _volume(_copy(kind, seed)) * sign == pytest.approx(_volume(MESH))
    signs = [_volume(_copy(MESH_COPIES[-1], seed)) > 0 for seed in range(32)]
    assert 4 < sum(signs) < 28  # everything reflects half of the copies
    copy = _copy("re-indexed")
    assert not torch.equal(copy.vertices, MESH.vertices)
    assert _volume(copy) == pytest.approx(_volume(MESH))  # corners are rotated, never exchanged
    torch.testing.assert_close(copy.vertices.sum(dim=0), MESH.vertices.sum(dim=0))


def test_geometry_is_json_with_a_cluster_a_face_and_pooling():
    torch.manual_seed(0)
    mesh = icosphere(3)
    model = PrimalDualClassifier.preset("default", 2).eval()
    shape = shape_geometry(model, "ball.off", mesh)
    assert json.loads(json.dumps(shape)) == shape
    assert shape["name"] == "ball.off"
    vertices = torch.tensor(shape["vertices"])
    # half a unit of the fifth digit of numbers below one
    assert torch.allclose(vertices, mesh.vertices.to(torch.float32), rtol=0, atol=5.1e-6)
    assert torch.equal(torch.tensor(shape["faces"]), mesh.faces)
    assert [len(level) for level in shape["levels"]] == [len(mesh.faces)] * len(shape["levels"])
    assert len({*shape["levels"][-1]}) < len(mesh.faces)  # something was merged at all
    seen = model.inspect(mesh).attention
    assert len(shape["attention"]) == len(model.blocks)
    for shown, values in zip(shape["attention"], seen, strict=True):
        # half a unit of the third decimal
        assert torch.allclose(torch.tensor(shown), values, rtol=0, atol=5.01e-4)


def test_a_mesh_far_from_the_origin_is_drawn_as_near_to_it():
    mesh, model = icosphere(2), PrimalDualClassifier.preset("default", 2).eval()
    unused = torch.full((1, 3), -1e12, dtype=torch.float64)
    far = TriangleMesh(torch.cat([mesh.vertices + 1e6, unused]), mesh.faces)
    got = torch.tensor(shape_geometry(model, "far", far)["vertices"])[:-1]
    # half a unit of the fifth digit, and of the eleventh of what the offset left
    assert torch.allclose(got, mesh.vertices.float(), rtol=0, atol=1e-5)


def test_every_line_of_a_load_report_is_a_fact_with_its_name():
    lines, names = ["a.off: 8 vertices", "closed", "polygons: 2", "welded: 4"], [
        "file", "surface", "repair", "repair",
    ]  # fmt: skip
    assert report_facts("\n".join(lines)) == [*zip(names, lines, strict=True)]
    assert report_facts("a.off: 3 vertices") == [("file", "a.off: 3 vertices")]
