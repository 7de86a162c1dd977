import itertools

import numpy as np
import pytest
import torch
import trimesh

from equigeo.mesh import MeshError, TriangleMesh, load_mesh
from equigeo.mesh.io.off import read_off
from equigeo.mesh.io.ply import format_ply, read_ply
from equigeo.mesh.io.stl import read_stl
from tests.mesh.io.files import (
    FACES,
    VERTICES,
    ply_binary,
    ply_header,
    ply_text,
    stl_binary,
    stl_text,
)
from tests.wrong_inputs import refused

QUADS = np.array([[0, 1, 2, 3], [3, 2, 1, 4], [0, 4, 1, 2]])


def test_faces_of_ply_files_keep_their_order() -> None:
    for write, faces in itertools.product((ply_text, ply_binary), (FACES, QUADS)):
        mesh = read_ply(write(VERTICES, faces))
        assert np.array_equal(mesh.vertices, VERTICES)
        assert np.array_equal(mesh.corners, faces.ravel())
        assert mesh.sizes.tolist() == [faces.shape[1]] * len(faces)
        assert mesh.warnings == ()
    body = b"".join(b"%g %g %g\n" % tuple(row) for row in VERTICES)
    mesh = read_ply(ply_header("ascii", 5, 3) + body + b"4 0 1 2 3\n3 2 1 4\n5 0 1 2 3 4\n")
    assert mesh.sizes.tolist() == [4, 3, 5]
    assert mesh.corners.tolist() == [0, 1, 2, 3, 2, 1, 4, 0, 1, 2, 3, 4]
    triangle = b"\3" + np.array([0, 1, 2], "<i4").tobytes()
    quad = b"\4" + np.array([0, 1, 2, 3], "<i4").tobytes()
    header = ply_header("binary_little_endian", 5, 2)
    with pytest.raises(MeshError, match="mixes face sizes"):
        read_ply(header + VERTICES.astype("<f8").tobytes() + triangle + quad)
    body = b"0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 2 3\n3 0 1 2\n"
    with pytest.raises(MeshError, match="row 0 of 'face' has fewer numbers than it announces"):
        read_ply(ply_header("ascii", 4, 2) + body)


def test_big_endian_files_and_texture_coordinates_are_read() -> None:
    header = ply_header("binary_big_endian", 5, 6)
    rows = np.zeros(6, [("size", "u1"), ("corners", ">i4", 3)])
    rows["size"], rows["corners"] = 3, FACES
    mesh = read_ply(header + VERTICES.astype(">f8").tobytes() + rows.tobytes())
    assert np.array_equal(mesh.corners, FACES.ravel())
    header = ply_header("ascii", 3, 1).replace(
        b"property double z\n", b"property double z\nproperty float s\nproperty float t\n"
    )
    mesh = read_ply(header + b"0 0 0 0 0\n1 0 0 1 0\n0 1 0 0 1\n3 0 1 2\n")
    assert mesh.vertices.shape == (3, 3)


@pytest.mark.parametrize("cut", [3, 5, 7, 20])
def test_text_that_ends_within_a_face_is_refused(cut: int) -> None:
    body = b"0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 2 3\n4 3 0 1 2\n"
    whole = ply_header("ascii", 4, 2) + body
    assert read_ply(whole).sizes.tolist() == [3, 4]
    refused(r"truncated or damaged|unequal length", read_ply, whole[:-cut], error=MeshError)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_end_of_line_behind_binary_data_is_none(end: bytes) -> None:
    whole = read_ply(ply_binary())
    again = read_ply(ply_binary() + end)
    assert np.array_equal(again.vertices, whole.vertices)
    assert np.array_equal(again.corners, whole.corners)
    refused("truncated, damaged, or mixes", read_ply, ply_binary() + end + end, error=MeshError)
    with pytest.raises(MeshError, match="truncated, damaged, or mixes"):
        read_ply(ply_binary()[: -len(end) - 1] + end)


@pytest.mark.parametrize(
    ("kind", "number", "fits"),
    [("int", 2**31 - 1, True), ("int", 2**31 + 5, False), ("int32", -(2**31) - 1, False),
     ("uint", 2**32 - 1, True), ("uint8", 256, False), ("uchar", -1, False),
     ("short", -(2**15), True), ("char", 128, False), ("int", 10**40, False),
     ("double", 2**40, True)],
)  # fmt: skip
def test_numbers_beyond_their_type_are_refused(kind: str, number: int, fits: bool) -> None:
    whole = ply_header("ascii", 3, 1) + b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
    added = f"property {kind} n\n".encode()
    of_face = whole.replace(b"end_header", added + b"end_header")
    of_face = of_face.replace(b"3 0 1 2", f"3 0 1 2 {number}".encode())
    of_vertex = whole.replace(b"element face", added + b"element face")
    for row in (b"\n0 0 0", b"\n1 0 0", b"\n0 1 0"):
        of_vertex = of_vertex.replace(row, row + f" {number}".encode())
    for data, where in ((of_face, "faces"), (of_vertex, "vertices")):
        if fits:
            assert set(getattr(read_ply(data).attributes, where)["n"].tolist()) == {number}
        else:
            refused(f"for a number of type {kind}", read_ply, data, error=MeshError)


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
def test_damage_of_ply_files_gives_one_clear_error(data: bytes, message: str) -> None:
    refused(message, read_ply, data, error=MeshError)


def test_vertices_solids_headers_and_rests_of_stl_files_are_understood() -> None:
    for write in (stl_text, stl_binary):
        mesh = read_stl(write())
        assert len(mesh.vertices) == len(VERTICES)
        assert np.array_equal(mesh.vertices[mesh.corners], VERTICES[FACES.ravel()])
    mesh = read_stl(stl_text() + b"\nsolid\nendsolid\n" + stl_text(VERTICES + 5))
    assert mesh.num_faces == 2 * len(FACES)
    data = b"solid" + stl_binary()[5:]
    assert read_stl(data).num_faces == len(FACES)
    assert read_stl(b"solid\nendsolid").num_faces == 0
    mesh = read_stl(stl_binary() + b"\0\0\0")
    assert mesh.warnings == ("3 bytes after the last triangle",)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\n", "is empty"),
        (b"nothing", "neither 'solid'"),
        (stl_binary()[:-7], "announces 6 triangles"),
        (b"\xff" * 200, "announces 4294967295 triangles"),
        (stl_text()[:-30], "truncated"),
        (stl_text().replace(b"vertex 1.0", b"vertex one", 1), "truncated"),
        (stl_text().replace(b"vertex 1.0", b"", 1), "truncated"),
    ],
)
def test_damage_of_stl_files_gives_one_clear_error(data: bytes, message: str) -> None:
    refused(message, read_stl, data, error=MeshError)


def test_nan_and_unreadable_normals_of_stl_files_are_no_errors(capfd) -> None:
    data = bytearray(stl_binary())
    data[96:100] = b"\x01\x00\x80\x7f"  # first coordinate of the first corner
    assert np.isnan(read_stl(bytes(data)).vertices).sum() == 1
    mesh = read_stl(stl_text().replace(b"normal 0", b"normal x", 1))
    assert mesh.num_faces == len(FACES)
    assert mesh.warnings == ("failed to extract face_normals",)
    assert capfd.readouterr() == ("", "")


POINTS = "0 0 0\n1 0 0\n0 1 0\n"


@pytest.mark.parametrize(
    "text",
    [
        "OFF\n3 1 3\n" + POINTS + "3 0 1 2\n",
        "OFF 3 1 0\n" + POINTS + "3 0 1 2",
        "  OFF3 1 0 # glued\n" + POINTS + "3 0 1 2",
        "OFF\n3 1\n" + POINTS + "3 0 1 2",
        "3 1 0\n" + POINTS + "3 0 1 2",
        "# first\n\nOFF # keyword\n# counts\n3 1 0\n\n" + POINTS + "# faces\n3 0 1 2 # one",
        "OFF\n3 1 0\n" + POINTS + "3 0 1 2 0.5 0.5 0.5 1",
        "COFF\n3 1 0\n0 0 0 9 9 9 255\n1 0 0 9 9 9 255\n0 1 0 9 9 9 255\n3  0 1 2",
        "NOFF\n3 1 0\n0 0 0 0 0 1\n1 0 0 0 0 1\n0 1 0 0 0 1\n3 0 1 2",
        "STOFF\n3 1 0\n0 0 0 .5 .5\n1 0 0 .5 .5\n0 1 0 .5 .5\n3 0 1 2",
        "4OFF\n3 1 0\n0 0 0 1\n2 0 0 2\n0 3 0 3\n3 0 1 2",
        "OFF\r\n3 1 0\r\n" + POINTS.replace("\n", "\r\n") + "3 0 1 2\r\n",
        "OFF 3 1 0\n" + POINTS + "3\n0\n1\n2",
        "OFF 3 1 0\n0 0 0 1 0 0\n0 1\n0 3 0 1 2",
    ],
)
def test_spellings_of_one_triangle_agree(text: str) -> None:
    mesh = read_off(text.encode())
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    assert mesh.corners.tolist() == [0, 1, 2]
    assert mesh.sizes.tolist() == [3]


def test_faces_of_any_size_keep_their_order_and_missing_parts_are_reported() -> None:
    mesh = read_off(f"OFF\n3 3 0\n{POINTS}3 0 1 2\n\n2 0 1\n4 0 1 2 0".encode())
    assert mesh.sizes.tolist() == [3, 2, 4]
    assert mesh.face_lines is not None
    assert mesh.face_lines.tolist() == [6, 8, 9]
    mesh = read_off(b"4OFF\n3 1 0\n0 0 0 1\n2 0 0 0\n0 3 0 3\n3 0 1 2")
    assert np.isfinite(mesh.vertices).all(axis=1).tolist() == [True, False, True]
    assert "line 4" in mesh.warnings[0]
    assert "keyword OFF is missing" in read_off(f"3 1 0\n{POINTS}3 0 1 2".encode()).warnings[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("OFF\n353535235358 6 0\n" + POINTS, "353535235358 vertices"),
        ("OFF\n-3 1 0\n" + POINTS, "counts start at 0"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n", "announces 3 vertices and 1 faces"),
        ("OFF\n3 2 0\n" + POINTS + "3 0 1 2\n3 0", r"line 7 \(face 1\).*'3 0'"),
        ("OFF\n3 1 0\n" + POINTS + "3 0 1 3", r"line 6 \(face 0\) refers to vertex 3"),
        ("OFF\n3 1 0\n" + POINTS + "3 0 1 -1", r"line 6 \(face 0\) refers to vertex -1"),
        ("OFF\n3 1 0\n" + POINTS + "3 0 1 1.5", "line 6: expected a vertex number, got '1.5'"),
        ("OFF\n", "not an OFF file"),
        ("OFF\nthree one 0\n", "got 'three one 0'"),
        ("solid cube\nfacet\n", "not an OFF file"),
        ("# nothing\n", "not an OFF file"),
        ("nOFF 4\n3 1 0\n", "free dimension"),
        ("OFF BINARY\n\0\0\0\3", "binary OFF"),
        ("OFF\n3 1 0\n\0\0\0", "binary data"),
    ],
)
def test_damage_of_off_files_gives_one_clear_error(text: str, message: str) -> None:
    refused(message, read_off, text.encode(), error=MeshError)


ICOSAHEDRON = TriangleMesh.from_trimesh(trimesh.creation.icosahedron())


def _colors(n):
    return [[i % 256, (7 * i) % 256, 255 - i % 256] for i in range(n)]


def test_the_mesh_and_its_colours_read_back(tmp_path):
    path = tmp_path / "mesh.ply"
    path.write_bytes(
        format_ply(ICOSAHEDRON, face_colors=_colors(20), face_labels=list(range(-1, 19)))
    )
    mesh, report = load_mesh(path)
    assert torch.equal(mesh.vertices, ICOSAHEDRON.vertices.to(mesh.vertices))
    assert torch.equal(mesh.faces, ICOSAHEDRON.faces)
    assert report.is_clean
    path.write_bytes(format_ply(ICOSAHEDRON, face_colors=torch.tensor(_colors(20))))
    seen = trimesh.load(path, process=False).visual.face_colors[:, :3]
    assert seen.tolist() == _colors(20)


def test_labels_stand_behind_the_corners_and_no_faces_are_written():
    text = format_ply(ICOSAHEDRON, face_labels=torch.arange(20)).decode()
    assert "property int label\nend_header" in text
    assert [int(line.split()[4]) for line in text.splitlines()[-20:]] == list(range(20))
    empty = TriangleMesh(torch.eye(3), torch.zeros(0, 3, dtype=torch.long))
    colors = torch.zeros(0, 3)
    assert b"element face 0\n" in format_ply(empty, face_colors=colors, face_labels=[])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"face_colors": _colors(19)}, "face_colors must be"),
        ({"face_colors": [[0, 0, 256]] * 20}, "from 0 to 255"),
        ({"face_labels": [0] * 21}, "face_labels must be"),
        ({"face_labels": [2**31 + 5] * 20}, "face_labels must be integers of 32 bits"),
    ],
)
def test_colors_and_labels_that_do_not_fit_are_refused(arguments, message):
    refused(message, format_ply, ICOSAHEDRON, **arguments)
    with pytest.raises(TypeError):
        format_ply("mesh")
