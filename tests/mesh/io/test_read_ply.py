from __future__ import annotations

import numpy as np
import pytest

from equigeo.mesh import MeshError
from equigeo.mesh.io.read_ply import read_ply

from .mesh_texts import FACES, VERTICES, ply_binary, ply_header, ply_text

QUADS = np.array([[0, 1, 2, 3], [3, 2, 1, 4], [0, 4, 1, 2]])


@pytest.mark.parametrize("write", [ply_text, ply_binary])
@pytest.mark.parametrize("faces", [FACES, QUADS], ids=["triangles", "quads"])
def test_faces_keep_the_order_of_the_file(write, faces) -> None:
    mesh = read_ply(write(VERTICES, faces))
    assert np.array_equal(mesh.vertices, VERTICES)
    assert np.array_equal(mesh.corners, faces.ravel())
    assert mesh.sizes.tolist() == [faces.shape[1]] * len(faces)
    assert mesh.warnings == ()


def test_mixed_polygons_of_a_text_file_keep_their_order() -> None:
    body = b"".join(b"%g %g %g\n" % tuple(row) for row in VERTICES)
    mesh = read_ply(ply_header("ascii", 5, 3) + body + b"4 0 1 2 3\n3 2 1 4\n5 0 1 2 3 4\n")
    assert mesh.sizes.tolist() == [4, 3, 5]
    assert mesh.corners.tolist() == [0, 1, 2, 3, 2, 1, 4, 0, 1, 2, 3, 4]


def test_big_endian_files_are_read() -> None:
    header = ply_header("binary_big_endian", 5, 6)
    rows = np.zeros(6, [("size", "u1"), ("corners", ">i4", 3)])
    rows["size"], rows["corners"] = 3, FACES
    mesh = read_ply(header + VERTICES.astype(">f8").tobytes() + rows.tobytes())
    assert np.array_equal(mesh.corners, FACES.ravel())


def test_texture_coordinates_do_not_split_vertices() -> None:
    header = ply_header("ascii", 3, 1).replace(
        b"property double z\n", b"property double z\nproperty float s\nproperty float t\n"
    )
    mesh = read_ply(header + b"0 0 0 0 0\n1 0 0 1 0\n0 1 0 0 1\n3 0 1 2\n")
    assert mesh.vertices.shape == (3, 3)


def test_one_face_is_a_file() -> None:
    mesh = read_ply(ply_header("ascii", 3, 1) + b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    assert mesh.corners.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"plyers\n", "not a PLY file"),
        (b"solid\nend_header", "not a PLY file"),
        (ply_header("ascii", 10**15, 1), "announces 1000000000000000 vertices"),
        (ply_header("ascii", 3, 10**15), "1000000000000000 faces"),
        (ply_header("binary_little_endian", 10**15, 1), "announces 1000000000000000 vertices"),
        (ply_text()[:-20], "announces|cannot be read|unequal"),
        (ply_binary()[:-20], "truncated"),
        (ply_binary() + b"\0", "truncated, damaged, or mixes"),
        (ply_text().replace(b"double x", b"double q"), "without x, y and z|cannot be read"),
        (ply_text().replace(b"double x", b"quadruple x"), "cannot be read"),
        (ply_text(faces=np.array([[0, 1, 9]])), "face 0 refers to vertex 9"),
        (ply_text(faces=np.array([[0, 1, 2], [0, 1, -2]])), "face 1 refers to vertex -2"),
    ],
)
def test_damage_gives_one_clear_error(data: bytes, message: str) -> None:
    with pytest.raises(MeshError, match=message):
        read_ply(data)


def test_mixed_polygons_of_a_binary_file_are_refused() -> None:
    triangle = b"\3" + np.array([0, 1, 2], "<i4").tobytes()
    quad = b"\4" + np.array([0, 1, 2, 3], "<i4").tobytes()
    header = ply_header("binary_little_endian", 5, 2)
    with pytest.raises(MeshError, match="mixes face sizes"):
        read_ply(header + VERTICES.astype("<f8").tobytes() + triangle + quad)
