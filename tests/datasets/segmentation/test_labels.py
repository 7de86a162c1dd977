from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets import EdgeLabels, SegmentedMeshDataset, edges_in_order
from equigeo.datasets.segmentation.labels import (
    edge_to_face_labels,
    read_labels,
    read_soft_labels,
    transfer_face_labels,
)
from equigeo.mesh import TriangleMesh, subdivide
from tests.datasets.segmentation.segmentation_files import scan_edges
from tests.mesh import shapes
from tests.wrong_inputs import refused

_INDICES = st.integers(0, 9)
_FACES = st.lists(st.tuples(_INDICES, _INDICES, _INDICES), max_size=30)


def test_edges_of_faces_are_those_of_the_specification():
    faces = torch.tensor([[0, 1, 2], [0, 3, 1]])
    expected = [[0, 1], [1, 2], [0, 2], [0, 3], [1, 3]]
    assert edges_in_order(faces).vertices.tolist() == expected
    more = torch.cat([faces, torch.tensor([[0, 2, 3], [1, 3, 2]])])
    assert edges_in_order(more).vertices.tolist() == [*expected, [2, 3]]
    far = 2**62
    edges = edges_in_order(torch.tensor([[far, 0, far - 1]]))
    assert edges.vertices.tolist() == [[0, far], [0, far - 1], [far - 1, far]]
    for shape in ((3,), (2, 4)):
        with pytest.raises(ValueError, match=r"faces must be integer \(faces, 3\)"):
            edges_in_order(torch.zeros(shape, dtype=torch.int64))
    refused("integer", edges_in_order, torch.zeros(2, 3))
    refused("got -1", edges_in_order, torch.tensor([[0, 1, -1]]))
    refused("got list", edges_in_order, [[0, 1, 2]], error=TypeError)


@given(_FACES)
def test_any_faces_are_numbered_as_by_a_scan(faces):
    # Also degenerate faces, duplicates and edges of many faces
    edges = edges_in_order(np.array(faces, dtype=np.int32).reshape(-1, 3))
    numbers = scan_edges(faces)
    assert [tuple(row) for row in edges.vertices.tolist()] == list(numbers)
    expected = [[numbers[tuple(sorted((f[k], f[(k + 1) % 3])))] for k in range(3)] for f in faces]
    assert edges.of_faces.tolist() == expected


_THREE = st.tuples(*(st.integers(-1, 3),) * 3)
_LENGTHS = st.permutations([1.0, 2.0, 3.0])


def _majority(labels, lengths):
    known = [label for label in labels if label >= 0]
    if not known:
        return -1, False
    most = max(known.count(label) for label in known)
    leading = {label for label in known if known.count(label) == most}
    edges = [k for k in range(3) if labels[k] in leading]
    return labels[max(edges, key=lambda k: lengths[k])], len(leading) > 1


@given(st.lists(st.tuples(_THREE, _LENGTHS), min_size=1, max_size=20))
def test_labels_are_those_of_a_vote(rows):
    labels, lengths = (list(column) for column in zip(*rows, strict=True))
    found, ambiguous = edge_to_face_labels(torch.tensor(labels), torch.tensor(lengths))
    expected = [_majority(*row) for row in rows]
    assert list(zip(found.tolist(), ambiguous.tolist(), strict=True)) == expected


def test_the_first_of_equally_long_edges_decides_and_the_order_of_faces_does_not():
    found, ambiguous = edge_to_face_labels(torch.tensor([[2, 1, 0]]), torch.ones(1, 3))
    assert (found.tolist(), ambiguous.tolist()) == ([2], [True])
    labels, lengths = torch.randint(0, 3, (50, 3)), torch.rand(50, 3)
    order = torch.randperm(50)
    found, _ = edge_to_face_labels(labels, lengths)
    assert torch.equal(edge_to_face_labels(labels[order], lengths[order])[0], found[order])


def _file(folder, content, name="a.seg"):
    path = folder / name
    path.write_bytes(content)
    return path


def test_labels_are_read_as_programs_write_them(tmp_path):
    for content in (
        b"1\n2\n0\n",
        b"1\r\n2\r\n0",
        b"1.000000e+00\n2.0\n0\n\n\n",
        b" 1 \n\t2\n 0",
        b"\xef\xbb\xbf1\n2\n0\n",
    ):
        assert read_labels(_file(tmp_path, content)).tolist() == [1, 2, 0]
    for dtype, shape in product([np.int64, np.int32, np.uint8, np.float32], [(3,), (3, 1)]):
        np.save(tmp_path / "a.npy", np.array([1, 2, 0], dtype).reshape(shape))
        assert read_labels(tmp_path / "a.npy").tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"1\n2.5\n", "line 2: a label must be an integer from 0 to 1000, got 2.5"),
        (b"1\n-1\n", "line 2: .* got -1"),
        (b"nan\n1\n", "line 1: .* got nan"),
        (b"1\ninf\n", "line 2: .* got inf"),
        (b"1\n1001\n", "line 2: .* got 1001"),
        (b"1\n99999999999999999999999999\n", "line 2"),
        (b"1\ntwo\n", "line 2: must hold numbers, got 'two'"),
        (b"1\n\n2\n", "line 2 has 0 numbers, the first has 1"),
        (b"1 2\n3 4\n", "one label a line"),
        (b"1 2\n3\n", "line 2 has 1 numbers"),
        (b"\xff\xfe\x00\x81", "is no text"),
        (b"<html>", "line 1: must hold numbers"),
        (np.array([{}], dtype=object), "no array of NumPy without objects"),
        (np.array(["a"]), "one array of integers"),
        (np.array([1.5]), "line 1"),
        (np.array([np.nan]), "line 1"),
        (np.array([True]), "one array of integers"),
        (np.zeros((2, 2), int), "one label a line"),
        (np.zeros(0, int), "is empty"),
    ],
)
def test_files_that_hold_no_labels_raise(tmp_path, content, message):
    path = tmp_path / ("a.seg" if isinstance(content, bytes) else "a.npy")
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    refused(message, read_labels, path)


def test_archives_of_arrays_and_what_is_no_file_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", labels=np.zeros(3, int))
    archive = _file(tmp_path, (tmp_path / "a.npz").read_bytes(), "a.npy")
    refused("several arrays", read_labels, archive)
    np.save(tmp_path / "b.npy", np.zeros(100, int))
    sound = (tmp_path / "b.npy").read_bytes()
    huge = sound.replace(b"(100,)", b"(9" + b"0" * 12 + b",)")
    for content in (b"", b"x", sound[:-5], sound[:20], huge):
        refused(r"is empty|no array of NumPy", read_labels, _file(tmp_path, content, "c.npy"))
    refused("not a regular file", read_labels, tmp_path)
    refused("not a regular file", read_labels, tmp_path / "nowhere.seg")
    rows = read_soft_labels(_file(tmp_path, b"0.25 0.75 0\n1.000 0 0.0\n"))
    assert rows.tolist() == [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]]
    for content, message in (
        (b"", "is empty"),
        (b"0.5 0.5\n1\n", "line 2 has 1 numbers, the first has 2"),
        (b"0.5 0.5\n1 nan\n", "line 2: must hold shares, got nan"),
        (b"0.5 -0.5\n", "line 1: must hold shares"),
        (b"0.5 x\n", "line 1: must hold numbers, got 'x'"),
    ):
        refused(message, read_soft_labels, _file(tmp_path, content))


def test_the_same_mesh_keeps_its_labels_and_a_subdivided_one_inherits_them():
    mesh = shapes.lumpy(shapes.torus())
    labels = torch.randint(5, (mesh.num_faces,))
    for seed in range(3):
        moved = shapes.turned(mesh, seed)
        assert torch.equal(transfer_face_labels(moved, labels, moved), labels)
    mesh = shapes.lumpy(shapes.icosphere(1), seed=3)
    labels = torch.arange(mesh.num_faces)
    assert (transfer_face_labels(mesh, labels, subdivide(mesh)).bincount() == 4).all()
    vertices = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.3, 0.3, 0]])
    flat = shapes.mesh(torch.cat((vertices, vertices[3:], vertices[3:])), [(0, 1, 2), (3, 4, 5)])
    other = shapes.mesh(vertices[:3], [(0, 1, 2)])
    assert transfer_face_labels(flat, torch.tensor([1, 2]), other).tolist() == [1]
    mesh = shapes.icosphere(0)
    with pytest.raises(ValueError, match="labels must be of 20 faces"):
        transfer_face_labels(mesh, torch.zeros(3, dtype=torch.long), mesh)
    point = shapes.mesh(torch.ones(3, 3), [(0, 1, 2)])
    refused("some area", transfer_face_labels, point, torch.zeros(1, dtype=torch.long), mesh)


_MESH = TriangleMesh(torch.eye(4, 3), torch.tensor([[0, 1, 2], [0, 3, 1]]))
_SOUND = {
    "meshes": (_MESH, _MESH),
    "labels": (torch.tensor([0, 1]), torch.tensor([1, -1])),
    "classes": ("seat", "back"),
    "names": ("a", "b"),
    "in_train": torch.tensor([True, False]),
}
_EDGES = torch.tensor([0, 1, -1, 0, 1])


def test_a_sound_data_set_is_frozen_and_may_have_labels_of_edges_too():
    dataset = SegmentedMeshDataset(**_SOUND)
    assert (len(dataset), dataset.num_classes) == (2, 2)
    with pytest.raises(AttributeError):
        dataset.labels = ()
    edges = (EdgeLabels(_EDGES, torch.zeros(5, 3, dtype=torch.float64)), EdgeLabels())
    assert SegmentedMeshDataset(**_SOUND, edge_labels=edges).edge_labels is edges


@pytest.mark.parametrize(("labels_at", "number"), [("faces", 2), ("edges", 5), ("vertices", 4)])
def test_labels_have_the_number_of_what_they_label(labels_at, number):
    labels = (torch.zeros(number, dtype=torch.int64),) * 2
    sound = {**_SOUND, "labels": labels, "labels_at": labels_at}
    assert f"labelled {labels_at}" in repr(SegmentedMeshDataset(**sound))
    wrong = {**sound, "labels": (labels[0], labels[0][1:])}
    refused(rf"b: labels of {labels_at} must be .*\({number},\)", SegmentedMeshDataset, **wrong)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("meshes", (), "at least one mesh"),
        ("names", ("a",), "names must be of 2 meshes, got 1"),
        ("labels", (), "labels must be of 2 meshes, got 0"),
        ("labels", (torch.zeros(2), torch.zeros(2)), "a: labels of faces must be torch.int64"),
        ("labels", (torch.tensor([0, 2]),) * 2, "a: labels of faces .* got 0 to 2"),
        ("labels", (torch.tensor([0, -2]),) * 2, "a: labels of faces .* got -2 to 0"),
        ("in_train", torch.tensor([0, 1]), "in_train must be torch.bool"),
        ("classes", ("seat", "seat"), "different names"),
        ("classes", (), "different names"),
        ("labels_at", "corners", "labels_at must be one of"),
        ("edge_labels", (EdgeLabels(),), "edge_labels must be of 2 meshes, got 1"),
        ("edge_labels", (EdgeLabels(_EDGES[1:]),) * 2, r"a: edge labels must be torch.int64 \(5,"),
        ("edge_labels", (EdgeLabels(_EDGES + 1),) * 2, "a: edge labels must be positions in 2"),
        ("edge_labels", (EdgeLabels(soft=torch.zeros(5, 1).double()),) * 2, "at least 2"),
        ("edge_labels", (EdgeLabels(soft=-torch.ones(5, 2).double()),) * 2, "must be shares"),
        ("reports", (None,), "reports must be of 2 meshes, got 1"),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(field, value, message):
    refused(message, SegmentedMeshDataset, **{**_SOUND, field: value})
