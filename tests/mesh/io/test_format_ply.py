from __future__ import annotations

import pytest
import torch
import trimesh

from equigeo.mesh import TriangleMesh, load_mesh
from equigeo.mesh.io.format_ply import format_ply

ICOSAHEDRON = TriangleMesh.from_trimesh(trimesh.creation.icosahedron())


def _colors(n):
    return [[i % 256, (7 * i) % 256, 255 - i % 256] for i in range(n)]


def test_the_mesh_reads_back_bit_by_bit(tmp_path):
    path = tmp_path / "mesh.ply"
    path.write_bytes(
        format_ply(ICOSAHEDRON, face_colors=_colors(20), face_labels=list(range(-1, 19)))
    )
    mesh, report = load_mesh(path)
    assert torch.equal(mesh.vertices, ICOSAHEDRON.vertices.to(mesh.vertices))
    assert torch.equal(mesh.faces, ICOSAHEDRON.faces)
    assert report.is_clean


def test_other_programs_see_the_colours(tmp_path):
    path = tmp_path / "mesh.ply"
    path.write_bytes(format_ply(ICOSAHEDRON, face_colors=torch.tensor(_colors(20))))
    seen = trimesh.load(path, process=False).visual.face_colors[:, :3]
    assert seen.tolist() == _colors(20)


def test_labels_stand_behind_the_corners():
    text = format_ply(ICOSAHEDRON, face_labels=torch.arange(20)).decode()
    assert "property int label\nend_header" in text
    assert [int(line.split()[4]) for line in text.splitlines()[-20:]] == list(range(20))


def test_a_mesh_without_faces_is_written():
    empty = TriangleMesh(torch.eye(3), torch.zeros(0, 3, dtype=torch.long))
    colors = torch.zeros(0, 3)
    assert b"element face 0\n" in format_ply(empty, face_colors=colors, face_labels=[])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"face_colors": _colors(19)}, "face_colors must be"),
        ({"face_colors": [[0, 0, 256]] * 20}, "from 0 to 255"),
        ({"face_labels": [0] * 21}, "face_labels must be"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        format_ply(ICOSAHEDRON, **arguments)
    with pytest.raises(TypeError):
        format_ply("mesh")
