import itertools
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import trimesh
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import MeshError, TriangleMesh, load_mesh
from equigeo.mesh.io.obj import read_obj
from equigeo.mesh.io.off import read_off
from equigeo.mesh.io.ply import format_ply, read_ply
from equigeo.mesh.io.stl import read_stl
from tests.mesh.definitions import count_calls
from tests.mesh.io import files
from tests.wrong_inputs import refused

fails = partial(refused, error=MeshError)

QUADS = np.array([[0, 1, 2, 3], [3, 2, 1, 4], [0, 4, 1, 2]])


def test_faces_of_ply_files_keep_their_order() -> None:
    for write, faces in itertools.product((files.ply_text, files.ply_binary), (files.FACES, QUADS)):
        mesh = read_ply(write(files.VERTICES, faces))
        assert np.array_equal(mesh.vertices, files.VERTICES)
        assert np.array_equal(mesh.corners, faces.ravel())
        assert mesh.sizes.tolist() == [faces.shape[1]] * len(faces)
        assert mesh.warnings == ()
    body = b"".join(b"%g %g %g\n" % tuple(row) for row in files.VERTICES)
    mesh = read_ply(files.ply_header("ascii", 5, 3) + body + b"4 0 1 2 3\n3 2 1 4\n5 0 1 2 3 4\n")
    assert mesh.sizes.tolist() == [4, 3, 5]
    assert mesh.corners.tolist() == [0, 1, 2, 3, 2, 1, 4, 0, 1, 2, 3, 4]
    body = b"0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 2 3\n3 0 1 2\n"
    fails(
        "row 0 of 'face' has fewer numbers than it announces",
        read_ply,
        files.ply_header("ascii", 4, 2) + body,
    )


VERTEX = {f"float {axis}": files.VERTICES[:, k].tolist() for k, axis in enumerate("xyz")}
MIXED = [[0, 2, 1], [0, 1, 4, 3], [0, 3, 2], [1, 2, 4], [2, 3, 4]]
CORNERS = {"list uchar int vertex_indices": MIXED}
LAYOUTS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "triangles and quads": {"vertex": VERTEX, "face": CORNERS},
    "another element first": {
        "camera": {"float a": [1, 2], "list uint uchar b": [[], [7] * 300]},
        "vertex": VERTEX,
        "edge": {"int vertex1": [0], "int vertex2": [1]},
        "face": CORNERS,
    },
    "lists of vertices": {
        "vertex": {"list char short near": [[], [1], [], [1, 2], []]} | VERTEX,
        "face": CORNERS,
    },
    "faces first": {"face": CORNERS, "vertex": VERTEX},
    "another name": {"vertex": VERTEX, "face": {"list uchar uint vertices": MIXED}},
    "behind other lists": {
        "vertex": VERTEX,
        "face": {
            "double quality": [1, 2, 3, 4, 5],
            "list uchar float weights": [[0.5]] * 3 + [[]] * 2,
            "list int64 int64 corners": MIXED,
            "short label": [1, 2, 3, 4, 5],
        },
    },
}


@pytest.mark.parametrize("order", files.PLY_ENCODINGS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_a_ply_file_gives_its_faces(name: str, order: str) -> None:
    mesh = read_ply(files.ply_file(order, LAYOUTS[name]))
    assert np.array_equal(mesh.vertices, files.VERTICES)
    assert mesh.sizes.tolist() == [len(face) for face in MIXED]
    assert mesh.corners.tolist() == [corner for face in MIXED for corner in face]
    if name == "behind other lists":
        assert mesh.attributes.faces["label"].tolist() == [1, 2, 3, 4, 5]
        assert mesh.attributes.faces["quality"].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("order", files.PLY_ENCODINGS)
def test_strips_of_ply_files_are_triangles(order: str) -> None:
    strips = [[0, 1, 2, 3, -1, 4, 3, 2], [0, 1, 2, 2, 4, 4, 3, 0], [-1], [], [-1, 1, 2, -1, -1]]
    elements = {"vertex": VERTEX, "tristrips": {"list int int vertex_indices": strips}}
    mesh = read_ply(files.ply_file(order, elements))
    found = mesh.corners.reshape(-1, 3).tolist()
    assert found[:4] == [[0, 1, 2], [1, 3, 2], [4, 3, 2], [0, 1, 2]]
    assert found[4:] == [[4, 0, 3]]  # all but this one only turn the strip
    assert mesh.attributes.warnings == ()
    none = {"list uchar int vertex_indices": [], "int label": []}
    mesh = read_ply(files.ply_file(order, elements | {"face": none}))
    assert (mesh.num_faces, bool(mesh.attributes)) == (5, False)
    mesh = read_ply(files.ply_file(order, elements | {"face": CORNERS}))
    assert mesh.num_faces == len(MIXED)
    assert mesh.attributes.warnings == ("not read: element 'tristrips'",)


@st.composite
def ply_elements(draw: st.DrawFn) -> dict[str, dict[str, list[Any]]]:
    """Vertices and faces among other elements, each with further properties, in any order."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    names = draw(st.permutations(["vertex", "face", "edge", "material"]))
    elements = {}
    for name in names[: draw(st.integers(2, 4))] if {"vertex", "face"} <= {*names[:2]} else names:
        rows = draw(st.integers(int(name == "vertex"), 4))
        columns: dict[str, list[Any]] = {}
        for number in range(draw(st.integers(int(name in ("edge", "material")), 3))):
            kind = draw(st.sampled_from(sorted(files.PLY_TYPES)))
            length = draw(st.sampled_from(["", "", "uchar", "int"]))
            sizes = rng.integers(0, 4, rows)
            values = [rng.integers(0, 100, size).tolist() for size in sizes]
            column = f"list {length} {kind} p{number}" if length else f"{kind} p{number}"
            columns[column] = values if length else rng.integers(0, 100, rows).tolist()
        if name == "vertex":
            columns |= {f"double {axis}": rng.normal(size=rows).tolist() for axis in "xyz"}
        elif name == "face":
            sizes = rng.integers(1, 6, rows) if draw(st.booleans()) else np.full(rows, 3)
            columns["list uchar int vertex_index"] = [[0] * size for size in sizes]
        shuffled = draw(st.permutations(sorted(columns)))
        elements[name] = {column: columns[column] for column in shuffled}
    return elements


@given(ply_elements(), st.sampled_from(["", "<", ">"]), st.integers(1, 100))
def test_any_elements_are_read_and_a_cut_file_is_refused(elements, order, cut) -> None:
    data = files.ply_file(order, elements)
    mesh = read_ply(data)
    assert mesh.vertices.T.tolist() == [elements["vertex"][f"double {axis}"] for axis in "xyz"]
    faces = elements["face"]["list uchar int vertex_index"]
    assert mesh.sizes.tolist() == [len(face) for face in faces]
    for name, found in (("vertex", mesh.attributes.vertices), ("face", mesh.attributes.faces)):
        for column, values in elements[name].items():
            if column.split()[0] != "list" and column[-1] not in "xyz":
                assert found[column.split()[-1]].tolist() == values
    if order:
        body = len(data) - data.index(b"end_header\n") - len(b"end_header\n")
        fails("truncated|announces", read_ply, data[: -min(cut, body)])


def test_big_endian_files_and_texture_coordinates_are_read() -> None:
    header = files.ply_header("binary_big_endian", 5, 6)
    rows = np.array([(3, face) for face in files.FACES], [("size", "u1"), ("corners", ">i4", 3)])
    mesh = read_ply(header + files.VERTICES.astype(">f8").tobytes() + rows.tobytes())
    assert np.array_equal(mesh.corners, files.FACES.ravel())
    header = files.ply_header("ascii", 3, 1).replace(
        b"property double z\n", b"property double z\nproperty float s\nproperty float t\n"
    )
    mesh = read_ply(header + b"0 0 0 0 0\n1 0 0 1 0\n0 1 0 0 1\n3 0 1 2\n")
    assert mesh.vertices.shape == (3, 3)


@pytest.mark.parametrize("cut", [3, 5, 7, 20])
def test_text_that_ends_within_a_face_is_fails(cut: int) -> None:
    body = b"0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 2 3\n4 3 0 1 2\n"
    whole = files.ply_header("ascii", 4, 2) + body
    assert read_ply(whole).sizes.tolist() == [3, 4]
    fails(r"truncated or damaged|unequal length", read_ply, whole[:-cut])


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_an_end_of_line_behind_binary_data_is_none(end: bytes) -> None:
    whole = read_ply(files.ply_binary())
    again = read_ply(files.ply_binary() + end)
    assert np.array_equal(again.vertices, whole.vertices)
    assert np.array_equal(again.corners, whole.corners)
    fails("bytes after its last element", read_ply, files.ply_binary() + end + end)
    fails("row 5 of 'face' has a list", read_ply, files.ply_binary()[: -len(end) - 1] + end)


@pytest.mark.parametrize(
    ("kind", "number", "fits"),
    [("int", 2**31 - 1, True), ("int", 2**31 + 5, False), ("int32", -(2**31) - 1, False),
     ("uint", 2**32 - 1, True), ("uint8", 256, False), ("uchar", -1, False),
     ("short", -(2**15), True), ("char", 128, False), ("int", 10**40, False),
     ("double", 2**40, True)],
)  # fmt: skip
def test_numbers_beyond_their_type_are_fails(kind: str, number: int, fits: bool) -> None:
    whole = files.ply_header("ascii", 3, 1) + b"0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"
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
            fails(f"for a number of type {kind}", read_ply, data)


def test_vertices_solids_headers_and_rests_of_stl_files_are_understood() -> None:
    for write in (files.stl_text, files.stl_binary):
        mesh = read_stl(write())
        assert len(mesh.vertices) == len(files.VERTICES)
        assert np.array_equal(mesh.vertices[mesh.corners], files.VERTICES[files.FACES.ravel()])
    mesh = read_stl(files.stl_text() + b"\nsolid\nendsolid\n" + files.stl_text(files.VERTICES + 5))
    assert mesh.num_faces == 2 * len(files.FACES)
    data = b"solid" + files.stl_binary()[5:]
    assert read_stl(data).num_faces == len(files.FACES)
    assert read_stl(b"solid\nendsolid").num_faces == 0
    named = files.stl_text().replace(b"solid thing", b"solid a VERTEX 1 2 3")
    for text in (named, files.stl_text().upper(), files.stl_text().replace(b"\n", b" \r\n\t")):
        assert np.array_equal(read_stl(text).vertices, read_stl(files.stl_text()).vertices)
    mesh = read_stl(files.stl_binary() + b"\0\0\0")
    assert mesh.warnings == ("3 bytes after the last triangle",)


def test_nan_and_unreadable_normals_of_stl_files_are_no_errors(capfd) -> None:
    data = bytearray(files.stl_binary())
    data[96:100] = b"\x01\x00\x80\x7f"  # first coordinate of the first corner
    assert np.isnan(read_stl(bytes(data)).vertices).sum() == 1
    mesh = read_stl(files.stl_text().replace(b"normal 0", b"normal x", 1))
    assert mesh.num_faces == len(files.FACES)
    assert mesh.warnings == ()
    assert capfd.readouterr() == ("", "")


POINTS = "0 0 0\n1 0 0\n0 1 0\n"


def test_spellings_of_one_triangle_agree() -> None:
    for text in (
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
    ):
        mesh = read_off(text.encode())
        assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        assert mesh.corners.tolist() == [0, 1, 2]
        assert mesh.sizes.tolist() == [3]


def test_faces_of_any_size_keep_their_order_and_missing_parts_are_reported() -> None:
    mesh = read_off(f"OFF\n3 3 0\n{POINTS}3 0 1 2\n\n2 0 1\n4 0 1 2 0".encode())
    assert mesh.sizes.tolist() == [3, 2, 4]
    assert mesh.face_lines.tolist() == [6, 8, 9]
    mesh = read_off(b"4OFF\n3 1 0\n0 0 0 1\n2 0 0 0\n0 3 0 3\n3 0 1 2")
    assert np.isfinite(mesh.vertices).all(axis=1).tolist() == [True, False, True]
    assert "line 4" in mesh.warnings[0]
    assert "keyword OFF is missing" in read_off(f"3 1 0\n{POINTS}3 0 1 2".encode()).warnings[0]


PLY_DAMAGE = (
    (b"plyers\n", "not a PLY file"),
    (b"solid\nend_header", "not a PLY file"),
    (files.ply_header("ascii", 10**15, 1), "announces 1000000000000000 vertices"),
    (files.ply_header("ascii", 3, 10**15), "1000000000000000 faces"),
    (files.ply_header("binary_little_endian", 10**15, 1), "announces 1000000000000000 vertices"),
    (files.ply_text()[:-20], "announces 6 rows of 'face' but holds 4"),
    (files.ply_binary()[:-20], "truncated or damaged: row 4 of 'face' has a list of 3 numbers"),
    (files.ply_binary()[:200], "truncated or damaged: row 1 of 'vertex' is not there"),
    (files.ply_binary() + b"\0", "has 1 bytes after its last element"),
    (files.ply_text().replace(b"double x", b"double q"), "without x, y and z"),
    (
        files.ply_text().replace(b"double x", b"list int double x"),
        "row 1 of .vertex. has fewer numbers",
    ),
    (files.ply_text().replace(b"double x", b"quadruple x"), "declares 'property quadruple x'"),
    (files.ply_text().replace(b"double x", b"x"), "declares 'property x', which is no property"),
    (files.ply_text().replace(b"double x", b"double y"), "declares 'y' twice"),
    (files.ply_text().replace(b"element face", b"element vertex"), "declares 'vertex' twice"),
    (files.ply_text().replace(b"list uchar", b"list float"), "with a length of type float"),
    (files.ply_text().replace(b"list uchar int", b"int"), "faces without a list of vertex indices"),
    (files.ply_text().replace(b"uchar int", b"uchar float"), "without a list of vertex indices"),
    (files.ply_text().replace(b"ascii", b"utf-8"), "must have the format ascii, .* got 'utf-8'"),
    (files.ply_text().replace(b"element face", b"element a 1\nelement face"), "without properties"),
    (files.ply_text().replace(b"0.0", b"zero", 1), "row 0 of 'vertex' has 'zero' for a number"),
    (files.ply_text().replace(b"3 0 2 1", b"3 0 2 1.5"), "row 0 of 'face' has '1.5' for a number"),
    (files.ply_text().replace(b"3 0 2 1", b"-3 0 2 1"), "has '-3' for a number of type uchar"),
    (files.ply_text(faces=np.array([[0, 1, 9]])), "face 0 refers to vertex 9"),
    (files.ply_text(faces=np.array([[0, 1, 2], [0, 1, -2]])), "face 1 refers to vertex -2"),
)
STL_DAMAGE = (
    (b"\n", "is empty"),
    (b"nothing", "neither 'solid'"),
    (files.stl_binary()[:-7], "announces 6 triangles"),
    (b"\xff" * 200, "announces 4294967295 triangles"),
    (files.stl_text()[:-30], "facet 5 does not have three corners"),
    (
        files.stl_text().replace(b"vertex 1.0", b"vertex one", 1),
        "line 6: expected a number; .* tru",
    ),
    (files.stl_text().replace(b"vertex 1.0", b"", 1), "truncated or damaged: facet 0 does not"),
    (files.stl_text().replace(b"vertex 1.0", b"loop vertex", 1), "line 7: expected a number"),
    (files.stl_text().replace(b"vertex", b"corner"), "truncated or damaged: facet 0 does not"),
    (b"solid\nouter loop vertex loop vertex loop vertex endfacet", "does not have three corners"),
)
OFF_DAMAGE = (
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
)


def test_damage_gives_one_clear_error() -> None:
    for read, rows in ((read_ply, PLY_DAMAGE), (read_stl, STL_DAMAGE), (read_off, OFF_DAMAGE)):
        for data, message in rows:
            fails(message, read, data.encode() if isinstance(data, str) else data)


ICOSAHEDRON = TriangleMesh.from_trimesh(trimesh.creation.icosahedron())


def _colors(n):
    return [[i % 256, (7 * i) % 256, 255 - i % 256] for i in range(n)]


def test_written_meshes_colors_and_labels_read_back(tmp_path):
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
    text = format_ply(ICOSAHEDRON, face_labels=torch.arange(20)).decode()
    assert "property int label\nend_header" in text
    assert [int(line.split()[4]) for line in text.splitlines()[-20:]] == list(range(20))
    empty = TriangleMesh(torch.eye(3), torch.zeros(0, 3, dtype=torch.long))
    colors = torch.zeros(0, 3)
    assert b"element face 0\n" in format_ply(empty, face_colors=colors, face_labels=[])


def test_colors_and_labels_that_do_not_fit_are_fails():
    for arguments, message in (
        ({"face_colors": _colors(19)}, "face_colors must be"),
        ({"face_colors": [[0, 0, 256]] * 20}, "from 0 to 255"),
        ({"face_labels": [0] * 21}, "face_labels must be"),
        ({"face_labels": [2**31 + 5] * 20}, "face_labels must be integers of 32 bits"),
    ):
        refused(message, format_ply, ICOSAHEDRON, **arguments)
    refused(".", format_ply, "mesh", error=TypeError)


TEXT = files.TRIANGLE.decode()


def corners(text: str, encoding: str = "ascii") -> list[int]:
    return read_obj(text.encode(encoding)).corners.tolist()


def test_spellings_of_one_face_agree() -> None:
    for face in (
        "f 1 2 3",
        "f 1/4 2/5 3/6",
        "f 1//4 2//5 3//6",
        "f 1/1/1 2/2/2 3/3/3",
        "f 1// 2// 3//",
        "f -3 -2 -1",
        "f -3/-1 2/7 -1//2",
        "  \tf\t1   2 \t3  ",
        "f 1 2 3 # the only one",
        "f 1 \\\n2 \\\n 3",
        "f 1 2 \\\r\n3",
        "g a face f 9 9 9\nf 1 2 3",
        "f 1 2 3\r",
        "o part\nusemtl a b\ns off\nl 1 2\np 3\nvt 0 0\nvn 0 0 1\nf 1 2 3\nvp 1 2",
        "# C:\\models\\\nf 1 2 3",
    ):
        assert corners(TEXT + face) == [0, 1, 2]


def test_obj_encodings_spaces_and_lines_are_those_of_an_editor() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert corners("# naïve\n" + TEXT + "f 1 2 3", encoding) == [0, 1, 2]
    text = TEXT + "f -3 -2 -1\nv 5 5 5\nf -3 -2 -1"
    assert corners(text) == [0, 1, 2, 1, 2, 3]
    assert corners((TEXT + "f 1 2 3").replace("\n", "\r")) == [0, 1, 2]
    wrapped = b"bplist00\0\xff\n" + files.TRIANGLE + b"f 1 2 3\nend\0\0"
    assert read_obj(wrapped).corners.tolist() == [0, 1, 2]
    mesh = read_obj(b"# a\n\n" + files.TRIANGLE + b"\nf 1 2 \\\n3\nf 3 2 1")
    assert mesh.vertex_lines.tolist() == [3, 4, 5]
    assert mesh.face_lines.tolist() == [7, 9]


def test_text_ply_files_have_the_encodings_and_line_ends_of_other_text() -> None:
    square = TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]]))
    text = format_ply(square).decode()
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        for end in ("\n", "\r", "\r\n"):
            mesh = read_ply(text.replace("\n", end).encode(encoding))
            assert mesh.corners.tolist() == [0, 1, 2]
            assert mesh.vertices.tolist() == np.eye(3).tolist()


def test_positions_are_three_numbers_and_impossible_numbers_name_their_line() -> None:
    mesh = read_obj(b"v 1 2 3 0.5 nan red\nv 4 5 6 1\nv 7 8 9\nf 1 2 3")
    assert mesh.vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert mesh.warnings == ()
    mesh = read_obj(b"v 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3")
    assert np.isnan(mesh.vertices[0]).tolist() == [False, False, True]

    for number in ("1.0f", "1,5", "1_0", "0x10", "3.1+e2", "abc", "9" * 80):
        mesh = read_obj(f"v 0 0 {number}\nv 1 0 0\nv 0 1 0\nf 1 2 3".encode())
        assert np.isnan(mesh.vertices[0, 2])
        assert np.isfinite(mesh.vertices[1:]).all()
        assert "first in line 1" in mesh.warnings[0]
    for index in ("0", "4", "-4", "1.5", "x", "1_0", "/2", str(2**80)):
        fails(r"^line 5\b", corners, TEXT + f"f 1 2 3\nf 1 2 {index}\nf 3 2 1")


@st.composite
def spelled_meshes(draw: st.DrawFn) -> tuple[np.ndarray, list[list[int]], str]:
    """A random mesh, and the same written with random liberties."""
    number = st.floats(-1e9, 1e9, allow_nan=False)
    vertices = draw(st.lists(st.tuples(number, number, number), min_size=1, max_size=8))
    index = st.integers(0, len(vertices) - 1)
    faces = draw(st.lists(st.lists(index, min_size=1, max_size=6), max_size=8))
    space = st.sampled_from([" ", "  ", "\t", " \\\n", " \\\r\n\t"])
    after = st.sampled_from(["", " ", " # f 1 1 1", "\r"])
    junk = st.sampled_from(["", "# v 1 1 1", "vn 0 0 1", "vt 0 1", "o f 1", "usemtl v 1", "s off"])
    suffix = st.sampled_from(["", "/", "//", "/3", "//3", "/2/3"])
    form = st.sampled_from([repr, "{:.17e}".format, "{:+.17E}".format])

    rows = []
    for position in vertices:
        parts = ["v", *(draw(form)(x) for x in position)]
        rows += [draw(space).join(parts) + draw(after), draw(junk)]
    for face in faces:
        signed = [i - len(vertices) if draw(st.booleans()) else i + 1 for i in face]
        parts = ["f", *(f"{i}{draw(suffix)}" for i in signed)]
        rows += [draw(space).join(parts) + draw(after), draw(junk)]
    return np.array(vertices, np.float64), faces, "\n".join(rows)


@given(spelled_meshes())
def test_every_spelling_of_a_mesh_reads_the_same(spelled) -> None:
    vertices, faces, text = spelled
    mesh = read_obj(text.encode())
    assert np.array_equal(mesh.vertices, vertices)
    assert mesh.corners.tolist() == [index for face in faces for index in face]
    assert mesh.sizes.tolist() == [len(face) for face in faces]


def test_the_number_of_calls_does_not_grow_with_the_number_of_lines():
    for damage in ("", "v 0 0 oops\n"):
        calls = []
        for count in (500, 10_000):
            text = damage + "v 0.25 0.5 0.75\n" * count + "f 1/1/1 2/2/2 3/3/3\n" * count
            data = text.encode()
            assert read_obj(data).num_faces == count
            calls.append(count_calls(partial(read_obj, data)))
        assert calls[1] < 2 * calls[0]


NAN = float("nan")


def attributes_of(text: bytes):
    """Attributes, once known that the mesh is read whatever they are."""
    mesh = read_obj(text)
    assert mesh.num_faces >= 1
    return mesh.attributes


def test_each_corner_has_its_own_numbers_in_every_spelling() -> None:
    lines = b"vt 0.5 0.25 9\nvt 1\nvn 0 0 1\nvn 0 1 0\nf 1/1/2 2//1 3/2\nf 1/-1/-2 2 3/1/1"
    found = attributes_of(files.TRIANGLE + lines)
    none, lost = [NAN, NAN], [NAN] * 3
    uv = [[0.5, 0.25], none, [1, 0], [1, 0], none, [0.5, 0.25]]
    np.testing.assert_array_equal(found.corners["uv"], uv)
    normal = [[0, 1, 0], [0, 0, 1], lost, [0, 0, 1], lost, [0, 0, 1]]
    np.testing.assert_array_equal(found.corners["normal"], normal)
    assert found.warnings == ()


def test_colors_stand_behind_positions_and_negative_numbers_count_back() -> None:
    found = attributes_of(b"v 0 0 0 255 0 0\nv 1 0 0 0 51 0 102\nv 0 1 0 1\nf 1 2 3")
    color = [[1, 0, 0, 1], [0, 0.2, 0, 0.4], [NAN] * 4]
    np.testing.assert_array_equal(found.vertices["color"], color)
    assert found.warnings == ()
    found = attributes_of(files.TRIANGLE + b"vt 1 1\nf 1/-1 2/-1 3/-1\nvt 2 2\nf 1/-1 2/-2 3/2")
    assert found.corners["uv"][:, 0].tolist() == [1, 1, 1, 2, 1, 2]


def test_weights_and_keywords_that_begin_alike_are_no_attributes() -> None:
    weights = files.TRIANGLE.replace(b"0\n", b"0 1.0\n") + b"f 1 2 3"
    for text in (weights, files.TRIANGLE + b"vtx 1 1\nvp 1 1\n# vt 1 1\nf 1/1 2/1 3/1"):
        found = attributes_of(text)
        assert not found
        assert found.warnings == ()


def test_malformed_attributes_of_obj_files_are_left_out_or_nan_with_a_warning() -> None:
    for text, message in (
        (b"vt 0 0\nf 1/a 2/1 3/1", "uv is left out: line 5: expected a vt number, got"),
        (b"vt 0 0\nf 1/1.5 2/1 3/1", "uv is left out: line 5: expected a vt number"),
        (b"vn 0 0 1\nf 1//1/1 2//1 3//1", "normal is left out: line 5: expected a vn"),
        (b"vt 0 0\nvt 1 1\nf 1 2 3", "2 lines of vt belong to no corner; uv is left out"),
        (b"vt 0 0\nf 1/2 2/2 3/0", "3 corners refer to a vt that the file does not hold"),
    ):
        found = attributes_of(files.TRIANGLE + text)
        assert not found
        assert found.warnings[0].startswith(message)
    found = attributes_of(files.TRIANGLE + b"vt 0 0\nvt x 0\nf 1/1 2/2 3/3")
    np.testing.assert_array_equal(found.corners["uv"], [[0, 0], [NAN, 0], [NAN, NAN]])
    assert found.warnings == (
        "1 corners refer to a vt that the file does not hold, first in line 6: uv is NaN there",
        "1 lines of vt are not finite numbers",
    )


def test_further_numbers_that_are_no_color_are_told() -> None:
    for numbers, message in (
        (b" 1 0.5 7.5", "colors of vertices are neither from 0 to 1 nor from 0 to 255; left out"),
        (b" 1 0", "3 vertices have further numbers that are no color; left out"),
        (b" 1 0 0 0 0", "3 vertices have further numbers that are no color; left out"),
        (b" 1 red 0", "3 times the color is no number: NaN there"),
    ):
        found = attributes_of(files.TRIANGLE.replace(b"0\n", b"0" + numbers + b"\n") + b"f 1 2 3")
        assert found.warnings == (message,)


@pytest.mark.parametrize("line", [b"vt x y\n", b"vn a b c\n", b"vt 1e999 _\n", b"vt\n"])
def test_half_a_million_lines_of_junk_neither_take_long_nor_refuse_the_file(line: bytes) -> None:
    text = files.TRIANGLE + line * 500_000 + b"f 1/1/1 2/2/2 3/3/3"
    read_obj(files.TRIANGLE + b"vt 0 0\nf 1/1 2/1 3/1")  # what is loaded once
    before = time.process_time()
    found = attributes_of(text)
    assert time.process_time() - before < files.SECONDS
    assert len(found.warnings) == 1
