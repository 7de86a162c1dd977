import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.io.file_mesh import (
    FileAttributes,
    FileMesh,
    differing_attributes,
    join_attributes,
    scale_colors,
)
from equigeo.mesh.io.off import read_off, read_off_attributes
from equigeo.mesh.io.ply import read_ply, read_ply_attributes
from equigeo.mesh.io.ply_elements import Lists
from equigeo.mesh.io.text import TokenTable
from tests.mesh.io.files import ply_text

NAN = float("nan")


def off(keyword: str, vertex: str = "", *faces: str) -> bytes:
    rows = [keyword, f"3 {len(faces or ' ')} 0"]
    rows += [f"{p} {vertex}" for p in ("0 0 0", "1 0 0", "0 1 0")]
    return "\n".join([*rows, *(f"3 0 1 2 {face}" for face in faces or [""])]).encode()


def test_vertices_have_what_the_keyword_announces() -> None:
    for keyword, numbers, expected in (
        ("COFF", "255 0 51", {"color": [1, 0, 0.2]}),
        ("COFF", "255 0 51 102", {"color": [1, 0, 0.2, 0.4]}),
        ("COFF", "0.5 0 1.0 1.0", {"color": [0.5, 0, 1, 1]}),
        ("NOFF", "0 0 -1", {"normal": [0, 0, -1]}),
        ("STOFF", "0.25 4", {"uv": [0.25, 4]}),
        ("CNOFF", "0 1 0 1 0 0", {"normal": [0, 1, 0], "color": [1, 0, 0]}),
        ("STCNOFF", "0 1 0 1 0 0 1 7 8",
         {"normal": [0, 1, 0], "color": [1, 0, 0, 1], "uv": [7, 8]}),
    ):  # fmt: skip
        attributes = read_off(off(keyword, numbers)).attributes
        assert {
            name: values[2].tolist() for name, values in attributes.vertices.items()
        } == expected
        assert attributes.warnings == ()


def test_off_positions_may_be_homogeneous_and_faces_have_colors() -> None:
    mesh = read_off(off("C4OFF", "2 255 255 0 255"))
    assert mesh.vertices[1].tolist() == [0.5, 0, 0]
    assert mesh.attributes.vertices["color"][1].tolist() == [1, 1, 0, 1]
    head, body = off("NOFF", "0 0 1").split(b"0\n", 1)
    mesh = read_off(head + b"0\n" + body.replace(b"\n", b" "))
    assert mesh.attributes.vertices["normal"].tolist() == [[0, 0, 1]] * 3
    assert mesh.attributes.warnings == ()
    faces = read_off(off("OFF", "", "255 0 0", "0 0 255 51", "", "4")).attributes.faces
    color = [[1, 0, 0, 1], [0, 0, 1, 0.2], [NAN] * 4, [NAN] * 4]
    np.testing.assert_array_equal(faces["color"], color)
    np.testing.assert_array_equal(faces["color_index"], [NAN, NAN, NAN, 4])


def test_malformed_attributes_of_off_files_are_left_out_with_one_warning() -> None:
    for keyword, vertex, face, message in (
        ("OFF", "1 0 0", "", "3 vertices have other numbers behind their position than the key"),
        ("COFF", "", "", "3 vertices have other numbers behind their position than the keyword"),
        ("COFF", "1 0", "", "3 vertices have other numbers behind their position than the key"),
        ("COFF", "-1 0 0", "", "colors of vertices are neither from 0 to 1 nor from 0 to 255"),
        ("OFF", "", "1 0.5 300", "colors of faces are neither from 0 to 1 nor from 0 to 255; left"),
        ("OFF", "", "1 0", "1 faces have further numbers that are no color; left out"),
        ("OFF", "", "1 0 0 0 0", "1 faces have further numbers that are no color; left out"),
    ):
        mesh = read_off(off(keyword, vertex, face))
        assert mesh.num_faces == 1
        assert not mesh.attributes
        (warning,) = mesh.attributes.warnings
        assert warning.startswith(message)


def test_words_are_nan_with_a_warning_and_too_many_leave_colors_out() -> None:
    attributes = read_off(off("NOFF", "0 z 1", "red")).attributes
    assert attributes.vertices["normal"][0, [0, 2]].tolist() == [0, 1]
    assert np.isnan(attributes.vertices["normal"][:, 1]).all()
    assert attributes.warnings == (
        "3 times the normal is no number: NaN there",
        "1 times the color index is no number: NaN there",
    )
    table, none = TokenTable(b"x " * 100_000), np.zeros(0, np.int64)
    first, counts = np.arange(0, 99_999, 3), np.full(33_333, 3)
    attributes = read_off_attributes(table, (), (none, none), (first, counts))
    assert not attributes
    assert attributes.warnings[0].startswith("colors are left out: the file has more than 65536")


NONE = np.zeros(0, np.int64)


def ply(vertex: list[str], face: list[str], rows: list[str], more: str = "") -> bytes:
    """Text of two triangles with further properties; ``rows`` are three vertices and two faces."""
    head = ["ply", "format ascii 1.0", "element vertex 3"]
    head += [f"property {p}" for p in ("float x", "float y", "float z", *vertex)]
    head += ["element face 2", "property list uchar int vertex_indices"]
    head += [*(f"property {p}" for p in face), *([more] if more else []), "end_header"]
    rows = [*rows[:4], rows[3], *rows[4:]]  # both faces have the same
    start = ("0 0 0", "1 0 0", "0 1 0", "3 0 1 2", "3 2 1 0")
    body = [f"{a} {b}" for a, b in zip(start, rows, strict=False)] + rows[5:]
    return "\n".join([*head, *body, ""]).encode()


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("uchar", "u1"), ("ushort", "i4"), ("short", "i2"), ("int", "i4"), ("uint", "i8"),
     ("float", "f4"), ("double", "f8")],
)  # fmt: skip
def test_numbers_keep_their_names_and_types(kind: str, dtype: str) -> None:
    data = ply([f"{kind} quality"], [f"{kind} label"], ["1", "2", "3", "7"])
    attributes = read_ply(data).attributes
    quality, label = attributes.vertices["quality"], attributes.faces["label"]
    assert (quality.tolist(), label.tolist()) == ([1, 2, 3], [7, 7])
    assert quality.dtype == label.dtype == dtype
    assert attributes.warnings == ()


def test_colors_and_texture_coordinates_are_found_by_name() -> None:
    for names, row in (("red green blue", "255 51 0"), ("blue red green", "0 255 51")):
        data = ply([], [f"uchar {name}" for name in names.split()], ["", "", "", row])
        assert read_ply(data).attributes.faces["color"].tolist() == [[1, 0.2, 0]] * 2
    for row in ("100 0 65535", "100 0 100"):
        data = ply([], [f"ushort {name}" for name in ("red", "green", "blue")], ["", "", "", row])
        expected = [float(word) / 65535 for word in row.split()]
        assert read_ply(data).attributes.faces["color"].tolist() == [expected] * 2
    for names in ("s t", "u v", "texture_u texture_v"):
        data = ply([f"float {name}" for name in names.split()], [], ["0 1", "2 3", "4 5", ""])
        assert read_ply(data).attributes.vertices["uv"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_lists_of_faces_are_texture_coordinates_of_corners() -> None:
    data = ply([], ["list uchar float texcoord", "int label"], ["", "", "", "6 0 1 2 3 4 5 8"])
    attributes = read_ply(data).attributes
    assert attributes.corners["uv"].tolist() == [[0, 1], [2, 3], [4, 5]] * 2
    assert attributes.faces["label"].tolist() == [8, 8]
    lists = Lists(np.array([6, 8]), np.append(np.arange(6.0), np.arange(8.0)))
    found = read_ply_attributes({}, {"texcoord": lists}, np.array([3, 4]), {})
    assert found.corners["uv"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5], [6, 7]]


COLOR, NORMAL = (tuple(f"float {c}" for c in names) for names in (
    ("red", "green", "blue"), ("nx", "ny", "nz", "normal")))  # fmt: skip


def test_what_is_no_attribute_is_told() -> None:
    for vertex, face, rows, message in (
        ([], ["list uchar float texcoord"], ["", "", "", "4 0 1 2 3"], "face property 'texcoord'"),
        (["list uchar uchar red"], [], ["1 0", "2 0 0", "1 0", ""],
         "vertex property 'red', a list"),
        ([], ["list uchar int flags"], ["", "", "", "2 0 1"], "face property 'flags', a list"),
        (["list uchar int near"], [], ["2 0 1"] * 3 + [""], "vertex property 'near', a list"),
        (COLOR, [], ["0 -1 0"] * 3 + [""], "vertex colors out of range"),
        (NORMAL, [], ["0 0 1 5"] * 3 + [""], "vertex property 'normal', no name of its own"),
    ):  # fmt: skip
        mesh = read_ply(ply(vertex, face, rows))
        assert mesh.num_faces == 2
        (warning,) = mesh.attributes.warnings
        assert warning.startswith(f"not read: {message}")


def test_other_elements_single_rows_and_positions_alone() -> None:
    data = ply([], [], [""] * 4 + ["0 1"], "element edge 1\nproperty int a\nproperty int b")
    assert read_ply(data).attributes.warnings == ("not read: element 'edge'",)
    columns = {f"\x1b{k}{'x' * 1000}": np.zeros(3) for k in range(200)}
    attributes = read_ply_attributes(columns, {}, NONE, {})
    (warning,) = attributes.warnings
    assert warning.isprintable()
    assert len(warning) < 400
    assert warning.endswith("and 196 more")
    attributes = read_ply_attributes({}, {"label": Lists(np.ones(1), np.array([5]))}, NONE, {})
    assert attributes.faces["label"].tolist() == [5]
    assert not read_ply(ply_text().replace(b"vertex_indices", b"vertex_index")).attributes


@given(st.lists(st.integers(0, 7), max_size=10))
def test_a_polygon_gives_two_triangles_less_than_its_corners(sizes: list[int]) -> None:
    total = sum(sizes)
    points = np.random.default_rng(total).normal(size=(total, 3))
    file = FileMesh(points, np.arange(total), np.array(sizes, np.int64))
    triangles, polygon = file.triangles()
    assert file.num_triangles == len(triangles)
    assert np.bincount(polygon, minlength=len(sizes)).tolist() == [max(s - 2, 0) for s in sizes]
    assert (np.diff(polygon) >= 0).all()
    owner = np.repeat(np.arange(len(sizes)), sizes)
    assert (owner[triangles] == polygon[:, None]).all()


def test_colors_are_scaled_by_their_type_and_range() -> None:
    for values, expected in (
        *(
            (np.array([[0, 1, 2]], kind), [0, 1 / 255, 2 / 255])  # also where all are small
            for kind in (np.uint8, np.int8, np.int32, np.int64, np.uint32)
        ),
        (np.array([[0, 65535]], np.uint16), [0, 1]),
        # whole numbers of a text count to 255 if any is above 1
        (np.array([[0.0, 1, 255], [NAN] * 3]), [0, 1 / 255, 1]),
        (np.array([[0.0, 1, 1]]), [0, 1, 1]),
        (np.array([[0.0, 1, 1.0000001]]), [0, 1, 1]),
        *((np.array([[0.0, 0.5, bad]]), None) for bad in (-1.0, 256.0, 1.5, np.inf, -np.inf)),
    ):
        found = scale_colors(values)
        assert found is None if expected is None else found[0].tolist() == expected
        assert scale_colors(np.zeros((0, 3))).shape == (0, 3)
        assert np.isnan(scale_colors(np.full((2, 3), NAN))).all()


def test_attributes_that_agree_stay_with_vertices_and_parts_are_joined() -> None:
    values = {"same": np.array([[1, NAN]] * 3), "other": np.array([0.0, 1, NAN])}
    own, shared = np.array([[0, 1, 2]]), np.array([[0, 1, 1]])
    assert list(differing_attributes(values, own, shared)) == ["other"]
    assert differing_attributes(values, own, own) == {}
    parts = [{"color": np.zeros((1, 3))}, {}, {"color": np.zeros((1, 4))}]
    joined, warnings = join_attributes(parts, [1, 2, 1])
    assert joined["color"][[0, 3]].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert np.isnan(joined["color"][1:3]).all()
    assert warnings == ("2 of 4 vertices have no color: NaN there",)
    attributes = FileAttributes({"color": np.zeros((9, 3))}, {}, {"uv": np.zeros((9, 2))})
    assert repr(attributes) == "FileAttributes(vertices=['color'], corners=['uv'])"


@pytest.mark.parametrize("kind", [("uchar", 51), ("ushort", 13107), ("float", 0.2), ("float", 51)])
def test_a_color_alone_is_scaled_as_several_are(kind):
    name, value = kind
    found = read_ply(ply([], [f"{name} red"], ["", "", "", str(value)])).attributes.faces
    assert found["red"].tolist() == pytest.approx([0.2] * 2)
    bad = read_ply(ply([], ["float red"], ["", "", "", "-1"])).attributes
    assert (bad.faces, bad.warnings) == ({}, ("not read: face colors out of range",))
