import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from bench.robustness_corpus import load_corpus, summarize
from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.triangle_mesh import TriangleMesh
from equigeo.mesh.load_mesh import MeshAttributes, load_mesh
from tests.mesh.io.files import (
    ATTRIBUTED,
    COLORS,
    FACE_BYTES,
    FACES,
    LABELS,
    NORMALS,
    SPELLINGS,
    UV,
    VERTICES,
    glb_attributed,
    obj_text,
    off_text,
)
from tests.shared_data import on_data
from tests.wrong_inputs import refused

SOUND = {
    *("closed_sphere", "closed_genus_gt_0", "boundary", "multi_component"),
    *("self_intersecting", "polygonal", "unwelded"),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_format_gives_the_same_mesh(name: str, tmp_path: Path) -> None:
    path = tmp_path / name.upper()  # extensions in any case
    path.write_bytes(SPELLINGS[name]())
    mesh, report = load_mesh(path, strict=True)
    corners = mesh.vertices[mesh.faces].numpy()
    assert np.array_equal(corners, VERTICES[FACES])
    assert report.is_clean
    assert report.topology.closed
    assert report.topology.manifold
    assert report.topology.euler == 2
    assert report.kept_faces.tolist() == list(range(len(FACES)))
    assert report.attributes.summary() == ""
    assert "attributes" not in report.summary()
    assert "lost area" not in report.summary()


def test_labels_and_values_follow_kept_faces(tmp_path: Path) -> None:
    path = tmp_path / "labels.obj"
    path.write_bytes(b"v 7 7 7\n" + obj_text(faces=np.insert(FACES + 1, 2, [1, 1, 2], axis=0)))
    mesh, report = load_mesh(path)
    assert report.kept_faces.tolist() == [0, 1, 3, 4, 5, 6]
    assert report.kept_triangles.tolist() == [0, 1, 3, 4, 5, 6]
    assert report.vertex_map.tolist() == [-1, 0, 1, 2, 3, 4]
    assert torch.equal(mesh.faces, torch.as_tensor(FACES))
    assert not report.is_clean
    path = tmp_path / "mirrored.glb"
    path.write_bytes(glb_attributed(scale=[1, 1, -1]))
    mesh, report = load_mesh(path)
    place = (mesh.vertices * torch.tensor([1, 1, -1.0])).numpy()
    number = (place[:, None] == VERTICES).all(2).argmax(1)
    assert np.array_equal(report.attributes.vertices["color"].numpy(), COLORS[number])


def test_the_summary_names_repairs_and_warnings(tmp_path: Path) -> None:
    path = tmp_path / "two.obj"
    path.write_bytes(
        obj_text(
            np.concatenate([VERTICES, VERTICES + 9, VERTICES[:1] - 9]),
            np.concatenate([FACES, FACES[:, ::-1] + 5]),
        )
    )
    summary = load_mesh(path)[1].summary()
    assert summary.startswith("two.obj: 11 vertices, 12 faces -> 10 vertices, 12 triangles")
    assert "closed, oriented, manifold, components 2, Euler characteristic 4" in summary
    assert "reoriented faces: 6" in summary
    assert "unreferenced vertices: 1" in summary
    assert "warning: the mesh has 2 components" in summary


def of_corners(mesh: TriangleMesh, attributes: MeshAttributes, name: str) -> np.ndarray:
    """Values at all corners, whether the format has them there or at vertices."""
    if name in attributes.corners:
        return attributes.corners[name].numpy()
    return attributes.vertices[name][mesh.faces].numpy()


@pytest.mark.parametrize("name", ATTRIBUTED)
def test_every_format_gives_the_same_attributes(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(ATTRIBUTED[name]())
    mesh, report = load_mesh(path, strict=True)
    assert np.array_equal(mesh.vertices[mesh.faces].numpy(), VERTICES[FACES])
    found = report.attributes
    for key, values in (("color", COLORS), ("normal", NORMALS), ("uv", UV)):
        np.testing.assert_array_equal(of_corners(mesh, found, key), values[FACES])
    if "ply" in name or "off" in name:
        assert np.array_equal(found.faces["color"].numpy(), FACE_BYTES / 255)
    if "ply" in name:
        assert np.array_equal(found.faces["label"].numpy(), LABELS)
    assert report.warnings == ()
    assert report.lost_area == report.turned_area == 0


def test_repairs_of_faces_areas_and_edges_stand_in_the_report(tmp_path: Path) -> None:
    path = tmp_path / "hole.obj"
    path.write_text("v 0 0 0 1 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv nan 0 0\nf 1 2 3\nf 1 3 5\n")
    report = load_mesh(path)[1]
    assert report.lost_area == pytest.approx(0.5)
    assert "lost area: 50.00%\nattributes of vertices: color\nwarning: 1 vertex" in report.summary()
    assert repr(report.attributes) == "MeshAttributes(vertices: color)"
    path = tmp_path / "book.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 4 3\nf 1 3 5\n")
    report = load_mesh(path)[1]
    assert report.turned_faces.tolist() == [1]
    assert report.nonmanifold_edges.tolist() == [[0, 2]]
    assert report.turned_area == pytest.approx(0.5 / (1 + 0.5**0.5))


TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
UNUSABLE = {
    "empty.obj": b"",
    "blank.off": b"\n \n",
    "comments.obj": b"# nothing\n",
    "points.obj": TRIANGLE.encode(),
    "photo.obj": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "photo.off": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "photo.ply": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "photo.stl": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8,
    "broken_utf16.obj": b"\xff\xfev\0 \0\x00\xd8",
    "truncated.off": off_text()[:-15],
    "truncated.ply": SPELLINGS["binary.ply"]()[:-15],
    "truncated.stl": SPELLINGS["binary.stl"]()[:-15],
    "outside.obj": f"{TRIANGLE}f 1 2 4".encode(),
    "nan.obj": b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3",
    "zero_area.obj": b"v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3",
    "shape.step": b"ISO-10303-21;",
    "no_extension": obj_text(),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_file_gives_one_error_that_names_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(UNUSABLE[name])
    for strict in (False, True):
        text = refused(".", load_mesh, path, error=MeshError, strict=strict)
        assert text.startswith(f"{path}: ")
        assert "\n" not in text


@pytest.mark.parametrize("name", ["missing.obj", "missing/deeper.ply", "nul\0byte.obj"])
def test_a_missing_file_gives_one_error_that_names_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(MeshError, match=r"does not exist; check the path|cannot be read"):
        load_mesh(tmp_path / name)


def test_a_folder_is_no_file_and_a_pipe_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "folder.obj"
    path.mkdir()
    refused(r"folder\.obj: is not a regular file", load_mesh, path, error=MeshError)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.obj")
        refused("is not a regular file", load_mesh, tmp_path / "pipe.obj", error=MeshError)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "locked.obj"
    path.write_bytes(obj_text())
    path.chmod(0)
    refused("cannot be read", load_mesh, path, error=MeshError)


def test_loading_is_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, write in SPELLINGS.items():
        path = tmp_path / name
        path.write_bytes(write().replace(b"comment", b"comment TextureFile none.png"))
        load_mesh(path)
        path.write_bytes(write()[:-9])
        with contextlib.suppress(MeshError):
            load_mesh(path)
    assert capfd.readouterr() == ("", "")


@on_data("robustness_meshes")
def test_the_robustness_corpus_loads_as_its_manifest_says(folder: Path) -> None:
    summary = summarize(load_corpus(folder))
    assert summary["files"] in (40, 228)
    problems = [text for text in summary["problems"] if " took " not in text]  # depends on load
    assert problems == []
    categories = summary["categories"]
    assert isinstance(categories, dict)
    assert len(categories) >= 12
    for name in categories.keys() & SOUND:
        assert categories[name]["triangles_as_expected"] == categories[name]["files"]


class Named:
    """A path of somebody else's making."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_any_path_will_do_and_a_strict_error_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "mesh.obj"
    path.write_bytes(obj_text())
    for kind in (str, Path, Named):
        mesh, report = load_mesh(kind(path))
        assert mesh.num_faces == len(FACES)
        assert report.path == path
    path = tmp_path / "quad.obj"
    path.write_text(f"{TRIANGLE}v 1 1 0\n# a quad\nf 1 2 4 3")
    with pytest.raises(MeshError, match=r"quad\.obj: line 6 \(face 0\) has more than three"):
        load_mesh(path, strict=True)
