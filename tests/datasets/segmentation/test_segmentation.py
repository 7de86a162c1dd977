import shutil
from itertools import product

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets import (
    EdgeLabels,
    SegmentedMeshDataset,
    edges_in_order,
    load_segmentation_folder,
)
from equigeo.datasets.segmentation.labels import (
    edge_to_face_labels,
    read_labels,
    read_soft_labels,
    transfer_face_labels,
)
from equigeo.mesh import MeshError, TriangleMesh, subdivide
from tests.datasets.segmentation import segmentation_files as files
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
    numbers = files.scan_edges(faces)
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


def test_files_that_hold_no_labels_raise(tmp_path):
    for content, message in (
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"1\n2.5\n", "line 2: a label must be an integer from 0 to 1000, or -1 .*, got 2.5"),
        (b"1\n-2\n", "line 2: .* got -2"),
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
        (b"1\n1_0\n", "line 2: must hold numbers, got '1_0'"),
        (np.array([{}], dtype=object), "no array of NumPy without objects"),
        (np.array(["a"]), "one array of integers"),
        (np.array([1.5]), "line 1"),
        (np.array([np.nan]), "line 1"),
        (np.array([True]), "one array of integers"),
        (np.zeros((2, 2), int), "one label a line"),
        (np.zeros(0, int), "is empty"),
    ):
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
    assert f"labeled {labels_at}" in repr(SegmentedMeshDataset(**sound))
    wrong = {**sound, "labels": (labels[0], labels[0][1:])}
    refused(rf"b: labels of {labels_at} must be .*\({number},\)", SegmentedMeshDataset, **wrong)


def test_fields_that_do_not_fit_together_are_refused():
    for field, value, message in (
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
    ):
        refused(message, SegmentedMeshDataset, **{**_SOUND, field: value})


_BOX = trimesh.creation.box()
_VERTICES = np.array(_BOX.vertices)
_BOX_FACES = _BOX.faces.tolist()  # 12, with 18 edges


def _fails(message, folder, error=MeshError, **options):
    return refused(message, load_segmentation_folder, folder, error=error, **options)


def _bumpy(seed):
    """A closed surface whose edges all have different lengths."""
    mesh = trimesh.creation.icosphere(subdivisions=1)
    noise = np.random.default_rng(seed).normal(size=mesh.vertices.shape)
    return np.asarray(mesh.vertices + 0.05 * noise), mesh.faces.tolist()


def _meshcnn(root, *, first=1, columns=3, form="{:f}", before=0):
    """A folder as MeshCNN distributes them; labels of edges by name."""
    labels = {}
    for k, part in enumerate(("train", "train", "test")):
        vertices, faces = _bumpy(k)
        drawn = np.random.default_rng(k).integers(0, 3, len(files.scan_edges(faces)))
        files.write_obj(root / part / f"shape_{k}.obj", vertices, faces)
        files.write_labels(root / "seg" / f"shape_{k}.eseg", drawn, first=first, form=form)
        soft = np.pad(files.soft_labels(faces, drawn, columns), ((0, 0), (before, 0)))
        files.write_soft(root / "sseg" / f"shape_{k}.seseg", soft)
        labels[f"{part}/shape_{k}.obj"] = drawn
    return labels


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("form", ["{}", "{:f}", "{:.18e}"])
def test_a_folder_of_meshcnn_comes_back_as_it_was_written(tmp_path, first, form):
    written = _meshcnn(tmp_path, first=first, form=form)
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.names == tuple(written)
    assert dataset.in_train.tolist() == [True, True, False]
    assert dataset.classes == tuple(str(first + k) for k in range(3))
    assert all(report.is_clean for report in dataset.reports)
    rows = zip(dataset.meshes, dataset.labels, dataset.edge_labels, dataset.names, strict=True)
    for mesh, labels, edges, name in rows:
        assert edges.hard.tolist() == written[name].tolist()
        assert np.array_equal(edges.soft, files.soft_labels(mesh.faces.tolist(), written[name], 3))
        votes, numbers = [], files.scan_edges(mesh.faces.tolist())
        for face in mesh.faces.tolist():
            ends = [tuple(sorted((face[k], face[(k + 1) % 3]))) for k in range(3)]
            lengths = [float((mesh.vertices[a] - mesh.vertices[b]).norm()) for a, b in ends]
            votes.append(_majority([int(written[name][numbers[pair]]) for pair in ends], lengths))
        assert labels.tolist() == [label for label, _ in votes]
        assert edges.ambiguous_faces == sum(ambiguous for _, ambiguous in votes)
        assert edges.ambiguous_faces > 0


def test_classes_are_those_of_the_whole_set_and_soft_labels_may_lack_some(tmp_path):
    written = _meshcnn(tmp_path)
    files.write_labels(tmp_path / "seg/shape_0.eseg", np.full(120, 2))  # no 1 in this file
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.classes == ("1", "2", "3")
    assert set(dataset.labels[0].tolist()) == {1}
    assert dataset.edge_labels[1].hard.tolist() == written["train/shape_1.obj"].tolist()
    _meshcnn(tmp_path, columns=4)
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.num_classes == 3
    assert all(edges.soft.shape == (120, 4) for edges in dataset.edge_labels)
    shutil.rmtree(tmp_path / "sseg")
    assert all(edges.soft is None for edges in load_segmentation_folder(tmp_path).edge_labels)


@pytest.mark.parametrize(("first", "before"), [(2, 0), (2, 1), (2, 2), (1, 1)])
@pytest.mark.parametrize("columns", [3, 4])
def test_columns_of_soft_labels_are_those_of_the_classes(tmp_path, first, before, columns):
    # The folder lacks the first classes of its collection, or columns are counted from class 0
    written = _meshcnn(tmp_path, first=first, columns=columns, before=before)
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.classes == tuple(str(first + k) for k in range(3))
    for mesh, edges, name in zip(dataset.meshes, dataset.edge_labels, dataset.names, strict=True):
        expected = files.soft_labels(mesh.faces.tolist(), written[name], columns)
        assert np.array_equal(edges.soft, expected)


def test_a_folder_of_pd_meshnet_comes_back_as_it_was_written(tmp_path):
    # The same suffix, and another meaning: one label for each face, counted from 0
    written = {}
    for k, part in enumerate(("train", "test")):
        vertices, faces = _bumpy(k)
        labels = np.random.default_rng(k).integers(1, 4, len(faces))  # none has the first class
        files.write_ply(tmp_path / part / f"{k}.ply", vertices, faces)
        files.write_labels(tmp_path / "seg" / f"{k}.eseg", labels)
        written[f"{part}/{k}.ply"] = labels.tolist()
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.names == tuple(written)
    assert [_numbers(dataset, k) for k in range(2)] == [*written.values()]
    assert dataset.classes == ("1", "2", "3")
    assert dataset.edge_labels == ()


def _numbers(dataset, k):
    """Labels of a mesh as its file writes them."""
    return [int(dataset.classes[label]) if label >= 0 else -1 for label in dataset.labels[k]]


@pytest.mark.parametrize("classes", [None, ("a", "b", "c", "d")])
def test_classes_are_the_labels_that_occur_and_minus_one_is_none(tmp_path, classes):
    written = {"train": [11, 48, -1, 20] * 3, "test": [-1, -1, 20, 48] * 3}
    if classes:  # names count from 0
        written = {part: [min(label, 3) for label in labels] for part, labels in written.items()}
    for part, labels in written.items():
        files.write_obj(tmp_path / part / f"{part}.obj", _VERTICES, _BOX_FACES)
        files.write_labels(tmp_path / f"seg/{part}.seg", labels)
    dataset = load_segmentation_folder(tmp_path, classes=classes)
    assert dataset.classes == (classes or ("11", "20", "48"))
    if classes:
        assert [labels.tolist() for labels in dataset.labels] == [*written.values()]
    else:
        assert [_numbers(dataset, k) for k in range(2)] == [*written.values()]
    for part in written:
        files.write_labels(tmp_path / f"seg/{part}.seg", [-1] * 12)
    _fails("nothing is labeled, all labels are -1", tmp_path, ValueError)


def test_edges_without_a_label_are_unlabelled(tmp_path):
    labels = np.where(np.arange(18) < 9, 1 + np.arange(18) % 2, -1)
    files.write_obj(tmp_path / "train/a.obj", _VERTICES, _BOX_FACES)
    files.write_labels(tmp_path / "seg/a.eseg", labels)
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.classes == ("1", "2")
    assert dataset.edge_labels[0].hard.tolist() == np.where(labels < 0, -1, labels - 1).tolist()


def _ply_with(name, kind, values, *, form="int"):
    """A box as PLY text with a property of its vertices or faces."""
    header = ["ply", "format ascii 1.0", f"element vertex {len(_VERTICES)}"]
    header += [f"property double {axis}" for axis in "xyz"]
    points = [" ".join(map(repr, row)) for row in _VERTICES.tolist()]
    faces = ["3 " + " ".join(map(str, face)) for face in _BOX_FACES]
    corners = ["property list uchar int vertex_indices"]
    extra = [f"property {form} {name}"]
    rows = points if kind == "vertex" else faces
    rows[:] = [f"{row} {value}" for row, value in zip(rows, values, strict=True)]
    header += extra if kind == "vertex" else []
    header += [f"element face {len(faces)}", *corners, *(extra if kind == "face" else [])]
    return "\n".join([*header, "end_header", *points, *faces, ""])


@pytest.mark.parametrize("name", ["label", "Labels", "class_id", "scalar_Label", "segment", "part"])
@pytest.mark.parametrize("form", ["int", "uchar", "float"])
def test_labels_of_faces_are_read_from_a_property_of_ply_files(tmp_path, name, form):
    labels = [7, 9, 200] * 4
    (tmp_path / "train").mkdir()
    (tmp_path / "train/a.ply").write_text(_ply_with(name, "face", labels, form=form))
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.classes == ("7", "9", "200")
    assert _numbers(dataset, 0) == labels
    files.write_labels(tmp_path / "seg/a.seg", [0, 1] * 6)  # which comes first
    assert load_segmentation_folder(tmp_path).classes == ("0", "1")


def test_labels_of_vertices_become_those_of_faces_by_majority_then_by_angle(tmp_path):
    random = np.random.default_rng(0)
    labels = random.integers(-1, 4, len(_VERTICES))
    (tmp_path / "train").mkdir()
    (tmp_path / "train/a.ply").write_text(_ply_with("label", "vertex", labels))
    dataset = load_segmentation_folder(tmp_path)
    place = _VERTICES[np.array(_BOX_FACES)]
    opposite = np.linalg.norm(np.roll(place, -2, axis=1) - np.roll(place, -1, axis=1), axis=2)
    expected = [
        _majority(labels[face].tolist(), across.tolist())
        for face, across in zip(np.array(_BOX_FACES), opposite, strict=True)
    ]
    assert _numbers(dataset, 0) == [label for label, _ in expected]
    assert any(tied for _, tied in expected)


def test_a_ply_file_without_one_property_of_labels_is_named(tmp_path):
    (tmp_path / "train").mkdir()
    path = tmp_path / "train/a.ply"
    for name, values, message in (
        ("quality", range(12), "a.ply: has no labels; expected a file in seg, or a property label"),
        ("label", [0.5] * 12, "face property 'label': a label must be an integer .* got 0.5"),
        ("label", [-2] * 12, "face property 'label': .* got -2"),
    ):
        path.write_text(_ply_with(name, "face", values, form="float"))
        _fails(message, tmp_path)
    both = _ply_with("label", "face", range(12))
    both = both.replace("property int label", "property int label\nproperty int part")
    lines = both.splitlines()
    path.write_text("\n".join([*lines[:-12], *(f"{line} 1" for line in lines[-12:]), ""]))
    _fails("has several labels: face property 'label', face property 'part'; keep one", tmp_path)


def test_a_part_val_is_that_of_the_folder(tmp_path):
    for k, part in enumerate(("train", "train", "val", "test")):
        files.write_obj(tmp_path / part / f"{k}.obj", _VERTICES * (k + 1), _BOX_FACES)
        files.write_labels(tmp_path / f"seg/{k}.seg", [0, 1] * 6)
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.names == ("train/0.obj", "train/1.obj", "val/2.obj", "test/3.obj")
    assert dataset.in_train.tolist() == [True, True, False, False]
    assert dataset.in_val.tolist() == [False, False, True, False]


def test_files_with_the_same_content_in_two_parts_are_reported(tmp_path, caplog):
    for name in ("train/a.obj", "train/b.obj", "test/c.obj"):
        files.write_obj(tmp_path / name, _VERTICES, _BOX_FACES)
        files.write_labels(tmp_path / f"seg/{name[-5]}.seg", [0, 1] * 6)
    for name in ("seg/d.seg", "sseg/e.seseg"):  # of no mesh
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("0\n")
    refused("has no soft labels", load_segmentation_folder, tmp_path)
    (tmp_path / "sseg/e.seseg").unlink()
    load_segmentation_folder(tmp_path)
    record, unused = caplog.records[-2:]
    assert unused.getMessage() == "1 label files belong to no mesh: d.seg"
    assert "2 files occur again" in record.getMessage()
    assert "train/a.obj = train/b.obj = test/c.obj" in record.getMessage()


@pytest.mark.parametrize("form", ["obj", "ply", "off", "stl", "glb"])
def test_own_data_need_one_number_for_each_face(tmp_path, form):
    labels, classes = np.arange(12) % 3, ("top", "side", "base", "lid")
    for suffix in (".seg", ".txt", ".npy", ".eseg"):
        folder = tmp_path / suffix[1:]
        (folder / "train").mkdir(parents=True)
        _BOX.export(folder / f"train/box.{form}")
        files.write_labels(folder / f"seg/box{suffix}", labels)
        if suffix == ".npy":
            np.save(folder / "seg/box.npy", labels)
        dataset = load_segmentation_folder(folder, classes=classes)
        assert dataset.labels[0].tolist() == labels.tolist()
        assert dataset.classes == classes


def _damaged():
    """A box with faces that repair drops or turns over, and MeshCNN drops."""
    vertices = np.concatenate([_VERTICES, [[0.5, 0.5, 0.5], [7, 7, 7]]])  # a copy of a corner
    faces = [list(face) for face in _BOX_FACES]
    faces[3] = faces[3][::-1]  # MeshCNN drops it, and repair turns it over
    faces.insert(1, [2, 2, 5])
    faces.insert(6, [0, 1, 1])
    faces.append(faces[4])
    return vertices, faces


def _mark(points):
    """A label for every place."""
    return (np.abs(points) @ [1.0, 3.0, 9.0] * 4).round().astype(int) % 5


def test_labels_of_faces_follow_repair(tmp_path):
    vertices, faces = _damaged()
    files.write_obj(tmp_path / "train/a.obj", vertices, faces)
    files.write_labels(tmp_path / "seg/a.seg", _mark(vertices[faces].mean(axis=1)))
    dataset = load_segmentation_folder(tmp_path)
    (mesh,), (labels,) = dataset.meshes, dataset.labels
    assert (mesh.num_faces, dataset.reports[0].file_faces) == (12, 15)
    assert len(dataset.reports[0].turned_faces) == 1
    assert _numbers(dataset, 0) == _mark(mesh.vertices[mesh.faces].mean(dim=1).numpy()).tolist()
    assert len(set(labels.tolist())) > 1


@pytest.mark.parametrize("cleaned", [False, True])
def test_labels_of_edges_follow_repair(tmp_path, cleaned):
    # Lines may stand for the edges as written, or for those of the faces that MeshCNN keeps
    vertices, faces = _damaged()
    kept = files.scan_kept(vertices, faces)
    assert len(kept) == 11
    read = [faces[k] for k in kept] if cleaned else faces
    ends = np.array(list(files.scan_edges(read)))
    marks = _mark(vertices[ends].mean(axis=1))
    files.write_obj(tmp_path / "train/a.obj", vertices, faces)
    files.write_labels(tmp_path / "seg/a.eseg", marks)
    rows = np.zeros((len(ends), 5))
    rows[np.arange(len(ends)), marks] = 0.5
    files.write_soft(tmp_path / "sseg/a.seseg", rows)
    dataset = load_segmentation_folder(tmp_path)
    (mesh,), (edges,) = dataset.meshes, dataset.edge_labels
    middles = mesh.vertices[edges_in_order(mesh.faces).vertices].mean(dim=1).numpy()
    assert np.array_equal(edges.hard, _mark(middles) - marks.min())
    assert np.array_equal(edges.soft.argmax(dim=1), _mark(middles))
    # What MeshCNN drops has no label, though all of its edges have one.
    dropped = [k for k in range(12) if int(dataset.reports[0].kept_faces[k]) not in kept]
    unknown = (dataset.labels[0] < 0).nonzero().flatten().tolist()
    assert unknown == (dropped if cleaned else [])
    assert len(dropped) == 1


def test_a_face_that_meshcnn_drops_leaves_its_own_edges_without_labels(tmp_path):
    # Three faces at an edge: load_mesh cuts there, and keeps all
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1.0]])
    faces = [[0, 1, 2], [1, 0, 3], [0, 1, 4]]
    files.write_obj(tmp_path / "train/a.obj", vertices, faces)
    files.write_labels(tmp_path / "seg/a.eseg", [1, 1, 1, 2, 2])
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.meshes[0].num_faces == 3
    assert dataset.labels[0].tolist() == [0, 1, -1]
    assert dataset.edge_labels[0].hard.tolist().count(-1) == 3  # it no longer touches the others


def test_polygons_have_one_label(tmp_path):
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0.0]])
    files.write_obj(tmp_path / "train/a.obj", square, [[0, 1, 2, 3], [1, 4, 2]])
    files.write_labels(tmp_path / "seg/a.seg", [1, 0])
    assert load_segmentation_folder(tmp_path).labels[0].tolist() == [1, 1, 0]
    shutil.move(tmp_path / "seg/a.seg", tmp_path / "seg/a.eseg")
    _fails(r"seg/a.eseg: line 6 \(face 0\) has 4 corners", tmp_path)


def _own(root, labels=(), name="seg/a.eseg"):
    files.write_obj(root / "train/a.obj", _VERTICES, _BOX_FACES)
    if len(labels):
        files.write_labels(root / name, labels)
    else:
        (root / "seg").mkdir(exist_ok=True)


def test_a_wrong_number_of_labels_names_the_file_and_both_numbers(tmp_path):
    for number in (1, 11, 13, 17, 19, 100):
        _own(tmp_path, np.ones(number))
        message = rf"train/a.obj: seg/a.eseg: has {number} labels; a.obj has 18 edges and 12 faces"
        _fails(message, tmp_path)
    for number in (12, 18):
        _own(tmp_path, np.ones(number))
        assert len(load_segmentation_folder(tmp_path).edge_labels) == (number == 18)
    shutil.move(tmp_path / "seg/a.eseg", tmp_path / "seg/a.seg")  # which are never those of edges
    _fails(r"seg/a.seg: has 18 labels; a.obj has 12 faces", tmp_path)


def test_a_number_that_fits_faces_and_edges_is_refused(tmp_path):
    # A tetrahedron has six edges, and here six faces are written
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3], [1, 1, 2], [0, 0, 3]]
    files.write_obj(tmp_path / "train/a.obj", np.eye(4, 3), faces)
    files.write_labels(tmp_path / "seg/a.eseg", [1] * 6)
    _fails(r"edges or of faces: a.obj has 8 \(6 .* and 6 \(4 ", tmp_path)
    shutil.move(tmp_path / "seg/a.eseg", tmp_path / "seg/a.seg")
    assert _numbers(load_segmentation_folder(tmp_path), 0) == [1] * 4


def test_a_set_labels_edges_or_faces_and_not_both(tmp_path):
    _own(tmp_path, np.ones(18))
    files.write_obj(tmp_path / "test/b.obj", _VERTICES, _BOX_FACES)
    files.write_labels(tmp_path / "seg/b.eseg", np.ones(12))
    _fails(r"a.eseg has one for each edge .* seg/b.eseg one for each f", tmp_path, ValueError)


def test_soft_labels_may_stand_beside_those_of_faces_and_must_fit(tmp_path):
    _own(tmp_path, [1, 2] * 9)
    for shape, message in (((17, 2), "has 17 rows; expected 18"),
                           ((18, 1), "has 1 columns, too few for the 2 classes")):  # fmt: skip
        files.write_soft(tmp_path / "sseg/a.seseg", np.ones(shape))
        _fails(f"sseg/a.seseg: {message}", tmp_path)
    _own(tmp_path, [0, 1] * 6)
    rows = np.random.default_rng(0).integers(0, 2, (18, 2)).astype(float)
    files.write_soft(tmp_path / "sseg/a.seseg", rows)
    (edges,) = load_segmentation_folder(tmp_path).edge_labels
    assert edges.hard is None
    assert np.array_equal(edges.soft, rows)


def test_meshes_without_labels_with_damaged_ones_or_two_files_are_named(tmp_path):
    _own(tmp_path)
    _fails(r"train/a.obj: has no labels; expected one file seg/a", tmp_path)
    (tmp_path / "seg/a.eseg").write_bytes(b"1\n" * 11 + b"x\n")
    assert str(tmp_path) in _fails(r"seg/a.eseg: line 12: must hold numbers", tmp_path)
    files.write_labels(tmp_path / "seg/a.eseg", [0] * 12)
    files.write_labels(tmp_path / "seg/a.seg", [0] * 12)
    _fails(r"train/a.obj: has a.eseg and a.seg", tmp_path)


def test_two_meshes_may_not_share_labels_and_labels_must_be_in_range(tmp_path):
    _own(tmp_path, [*[0] * 11, 3])
    _fails(r"seg/a.eseg: label 3 is out of range, 2 classes", tmp_path, classes=("a", "b"))
    shutil.copytree(tmp_path / "train", tmp_path / "test")
    _fails(r"2 of 2 .*\n.*another mesh has the same name", tmp_path)


def test_all_failures_make_one_error(tmp_path):
    for k in range(7):
        files.write_obj(tmp_path / f"train/{k}.obj", _VERTICES, _BOX_FACES[: 6 + k])
        files.write_labels(tmp_path / f"seg/{k}.seg", [0] * 12)
    assert "and 1 more" in _fails("6 of 7 meshes or their labels", tmp_path)


def test_an_unreadable_mesh_and_strict_loading_are_named(tmp_path):
    vertices, faces = _damaged()
    files.write_obj(tmp_path / "train/a.obj", vertices, faces)
    files.write_labels(tmp_path / "seg/a.seg", [0] * len(faces))
    assert len(load_segmentation_folder(tmp_path)) == 1
    _fails(r"a.obj: .*load it with strict=False", tmp_path, strict=True)
    (tmp_path / "train/a.obj").write_text("no mesh")
    refused(r"a.obj: ", load_segmentation_folder, tmp_path, error=MeshError)


def test_leftovers_are_ignored_and_folders_and_archives_entered(tmp_path, monkeypatch):
    root = tmp_path / "coseg_vases"
    _own(root, [0] * 12)
    for name in ("cache/x.npz", ".git/y", "classes.txt", "mean_std_cache.p", "train/.h.obj"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("junk")
    (root / "train/readme.md").write_text("junk")
    assert load_segmentation_folder(tmp_path).names == ("train/a.obj",)
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "store"))
    _own(tmp_path / "data/set", [0, 1] * 6)
    for form in ("gztar", "zip"):
        archive = shutil.make_archive(str(tmp_path / "set"), form, tmp_path / "data")
        assert load_segmentation_folder(archive).labels[0].tolist() == [0, 1] * 6


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "found no train, val or test"),
        (("train/a.obj",), "train/a.obj: has no labels; expected one file seg/a.eseg"),
        (("seg/a.eseg",), "found no train, val or test"),
        (("train/a.txt", "seg/a.eseg"), "found no mesh files"),
        (("train/a.obj", "seg/a.eseg", "valid/b.obj"), "unknown folder 'valid'"),
    ],
)
def test_a_wrong_layout_is_one_error_that_names_the_folder(tmp_path, files, message):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("junk")
    assert str(tmp_path) in _fails(message, tmp_path, ValueError)
