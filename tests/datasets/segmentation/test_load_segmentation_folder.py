import shutil

import numpy as np
import pytest
import trimesh

from equigeo.datasets import edges_in_order, load_segmentation_folder
from equigeo.mesh import MeshError
from tests.datasets.segmentation.segmentation_files import (
    scan_edges,
    scan_kept,
    soft_labels,
    write_labels,
    write_obj,
    write_ply,
    write_soft,
)
from tests.wrong_inputs import refused

_BOX = trimesh.creation.box()
_VERTICES = np.array(_BOX.vertices)
_FACES = _BOX.faces.tolist()  # 12, with 18 edges


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
        drawn = np.random.default_rng(k).integers(0, 3, len(scan_edges(faces)))
        write_obj(root / part / f"shape_{k}.obj", vertices, faces)
        write_labels(root / "seg" / f"shape_{k}.eseg", drawn, first=first, form=form)
        soft = np.pad(soft_labels(faces, drawn, columns), ((0, 0), (before, 0)))
        write_soft(root / "sseg" / f"shape_{k}.seseg", soft)
        labels[f"{part}/shape_{k}.obj"] = drawn
    return labels


def _majority(mesh, edge_labels):
    """Labels of faces by a scan, and how many are ambiguous."""
    edges, corners, found, ambiguous = scan_edges(mesh.faces.tolist()), mesh.vertices, [], 0
    for face in mesh.faces.tolist():
        ends = [tuple(sorted((face[k], face[(k + 1) % 3]))) for k in range(3)]
        labels = [int(edge_labels[edges[pair]]) for pair in ends]
        lengths = [float((corners[a] - corners[b]).norm()) for a, b in ends]
        if len(set(labels)) == 3:
            ambiguous += 1
            found.append(labels[lengths.index(max(lengths))])
        else:
            found.append(max(set(labels), key=labels.count))
    return found, ambiguous


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
        assert np.array_equal(edges.soft, soft_labels(mesh.faces.tolist(), written[name], 3))
        assert (labels.tolist(), edges.ambiguous_faces) == _majority(mesh, written[name])
        assert edges.ambiguous_faces > 0


def test_classes_are_those_of_the_whole_set_and_soft_labels_may_lack_some(tmp_path):
    written = _meshcnn(tmp_path)
    write_labels(tmp_path / "seg/shape_0.eseg", np.full(120, 2))  # no 1 in this file
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
        expected = soft_labels(mesh.faces.tolist(), written[name], columns)
        assert np.array_equal(edges.soft, expected)


def test_a_folder_of_pd_meshnet_comes_back_as_it_was_written(tmp_path):
    # The same suffix, and another meaning: one label for each face, counted from 0
    written = {}
    for k, part in enumerate(("train", "test")):
        vertices, faces = _bumpy(k)
        labels = np.random.default_rng(k).integers(1, 4, len(faces))  # none has the first class
        write_ply(tmp_path / part / f"{k}.ply", vertices, faces)
        write_labels(tmp_path / "seg" / f"{k}.eseg", labels)
        written[f"{part}/{k}.ply"] = labels.tolist()
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.names == tuple(written)
    assert [labels.tolist() for labels in dataset.labels] == [*written.values()]
    assert dataset.classes == ("0", "1", "2", "3")
    assert dataset.edge_labels == ()


@pytest.mark.parametrize("form", ["obj", "ply", "off", "stl", "glb"])
def test_own_data_need_one_number_for_each_face(tmp_path, form):
    labels, classes = np.arange(12) % 3, ("top", "side", "base", "lid")
    for suffix in (".seg", ".txt", ".npy", ".eseg"):
        folder = tmp_path / suffix[1:]
        (folder / "train").mkdir(parents=True)
        _BOX.export(folder / f"train/box.{form}")
        write_labels(folder / f"seg/box{suffix}", labels)
        if suffix == ".npy":
            np.save(folder / "seg/box.npy", labels)
        dataset = load_segmentation_folder(folder, classes=classes)
        assert dataset.labels[0].tolist() == labels.tolist()
        assert dataset.classes == classes


def _damaged():
    """A box with faces that repair drops or turns over, and MeshCNN drops."""
    vertices = np.concatenate([_VERTICES, [[0.5, 0.5, 0.5], [7, 7, 7]]])  # a copy of a corner
    faces = [list(face) for face in _FACES]
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
    write_obj(tmp_path / "train/a.obj", vertices, faces)
    write_labels(tmp_path / "seg/a.seg", _mark(vertices[faces].mean(axis=1)))
    dataset = load_segmentation_folder(tmp_path)
    (mesh,), (labels,) = dataset.meshes, dataset.labels
    assert (mesh.num_faces, dataset.reports[0].file_faces) == (12, 15)
    assert len(dataset.reports[0].turned_faces) == 1
    assert np.array_equal(labels, _mark(mesh.vertices[mesh.faces].mean(dim=1).numpy()))
    assert len(set(labels.tolist())) > 1


@pytest.mark.parametrize("cleaned", [False, True])
def test_labels_of_edges_follow_repair(tmp_path, cleaned):
    # Lines may stand for the edges as written, or for those of the faces that MeshCNN keeps
    vertices, faces = _damaged()
    kept = scan_kept(vertices, faces)
    assert len(kept) == 11
    read = [faces[k] for k in kept] if cleaned else faces
    ends = np.array(list(scan_edges(read)))
    marks = _mark(vertices[ends].mean(axis=1))
    write_obj(tmp_path / "train/a.obj", vertices, faces)
    write_labels(tmp_path / "seg/a.eseg", marks)
    rows = np.zeros((len(ends), 5))
    rows[np.arange(len(ends)), marks] = 0.5
    write_soft(tmp_path / "sseg/a.seseg", rows)
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
    write_obj(tmp_path / "train/a.obj", vertices, faces)
    write_labels(tmp_path / "seg/a.eseg", [1, 1, 1, 2, 2])
    dataset = load_segmentation_folder(tmp_path)
    assert dataset.meshes[0].num_faces == 3
    assert dataset.labels[0].tolist() == [0, 1, -1]
    assert dataset.edge_labels[0].hard.tolist().count(-1) == 3  # it no longer touches the others


def test_polygons_have_one_label(tmp_path):
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0, 0.0]])
    write_obj(tmp_path / "train/a.obj", square, [[0, 1, 2, 3], [1, 4, 2]])
    write_labels(tmp_path / "seg/a.seg", [1, 0])
    assert load_segmentation_folder(tmp_path).labels[0].tolist() == [1, 1, 0]
    shutil.move(tmp_path / "seg/a.seg", tmp_path / "seg/a.eseg")
    _fails(r"seg/a.eseg: line 6 \(face 0\) has 4 corners", tmp_path)


def _own(root, labels=(), name="seg/a.eseg"):
    write_obj(root / "train/a.obj", _VERTICES, _FACES)
    if len(labels):
        write_labels(root / name, labels)
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
    write_obj(tmp_path / "train/a.obj", np.eye(4, 3), faces)
    write_labels(tmp_path / "seg/a.eseg", [1] * 6)
    _fails(r"edges or of faces: a.obj has 8 \(6 .* and 6 \(4 ", tmp_path)
    shutil.move(tmp_path / "seg/a.eseg", tmp_path / "seg/a.seg")
    assert load_segmentation_folder(tmp_path).labels[0].tolist() == [1] * 4


def test_a_set_labels_edges_or_faces_and_not_both(tmp_path):
    _own(tmp_path, np.ones(18))
    write_obj(tmp_path / "test/b.obj", _VERTICES, _FACES)
    write_labels(tmp_path / "seg/b.eseg", np.ones(12))
    _fails(r"a.eseg has one for each edge .* b.eseg one for each f", tmp_path, ValueError)


def test_soft_labels_may_stand_beside_those_of_faces_and_must_fit(tmp_path):
    _own(tmp_path, [1, 2] * 9)
    for shape, message in (((17, 2), "has 17 rows; expected 18"),
                           ((18, 1), "has 1 columns, too few for the 2 classes")):  # fmt: skip
        write_soft(tmp_path / "sseg/a.seseg", np.ones(shape))
        _fails(f"sseg/a.seseg: {message}", tmp_path)
    _own(tmp_path, [0, 1] * 6)
    rows = np.random.default_rng(0).integers(0, 2, (18, 2)).astype(float)
    write_soft(tmp_path / "sseg/a.seseg", rows)
    (edges,) = load_segmentation_folder(tmp_path).edge_labels
    assert edges.hard is None
    assert np.array_equal(edges.soft, rows)


def test_meshes_without_labels_with_damaged_ones_or_two_files_are_named(tmp_path):
    _own(tmp_path)
    _fails(r"train/a.obj: has no labels; expected one file seg/a", tmp_path)
    (tmp_path / "seg/a.eseg").write_bytes(b"1\n" * 11 + b"x\n")
    assert str(tmp_path) in _fails(r"seg/a.eseg: line 12: must hold numbers", tmp_path)
    write_labels(tmp_path / "seg/a.eseg", [0] * 12)
    write_labels(tmp_path / "seg/a.seg", [0] * 12)
    _fails(r"train/a.obj: has a.eseg and a.seg", tmp_path)


def test_two_meshes_may_not_share_labels_and_labels_must_be_in_range(tmp_path):
    _own(tmp_path, [*[0] * 11, 3])
    _fails(r"seg/a.eseg: label 3 is out of range, 2 classes", tmp_path, classes=("a", "b"))
    shutil.copytree(tmp_path / "train", tmp_path / "test")
    _fails(r"2 of 2 .*\n.*another mesh has the same name", tmp_path)


def test_all_failures_make_one_error(tmp_path):
    for k in range(7):
        write_obj(tmp_path / f"train/{k}.obj", _VERTICES, _FACES[: 6 + k])
        write_labels(tmp_path / f"seg/{k}.seg", [0] * 12)
    assert "and 1 more" in _fails("6 of 7 meshes or their labels", tmp_path)


def test_an_unreadable_mesh_and_strict_loading_are_named(tmp_path):
    vertices, faces = _damaged()
    write_obj(tmp_path / "train/a.obj", vertices, faces)
    write_labels(tmp_path / "seg/a.seg", [0] * len(faces))
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
        ((), "found no train or test, or no seg"),
        (("train/a.obj",), "found no train or test, or no seg"),
        (("seg/a.eseg",), "found no train or test, or no seg"),
        (("train/a.txt", "seg/a.eseg"), "found no mesh files"),
        (("train/a.obj", "seg/a.eseg", "val/b.obj"), "unknown folder 'val'"),
    ],
)
def test_a_wrong_layout_is_one_error_that_names_the_folder(tmp_path, files, message):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("junk")
    assert str(tmp_path) in _fails(message, tmp_path, ValueError)
