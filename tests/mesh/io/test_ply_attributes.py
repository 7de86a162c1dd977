import numpy as np
import pytest

from equigeo.mesh.io.off import read_off, read_off_attributes
from equigeo.mesh.io.ply import read_ply, read_ply_attributes
from equigeo.mesh.io.text import TokenTable
from tests.mesh.io.files import FACES, VERTICES

NAN = float("nan")


def off(keyword: str, vertex: str = "", *faces: str) -> bytes:
    rows = [keyword, f"3 {len(faces or ' ')} 0"]
    rows += [f"{p} {vertex}" for p in ("0 0 0", "1 0 0", "0 1 0")]
    return "\n".join([*rows, *(f"3 0 1 2 {face}" for face in faces or [""])]).encode()


@pytest.mark.parametrize(
    ("keyword", "numbers", "expected"),
    [
        ("COFF", "255 0 51", {"color": [1, 0, 0.2]}),
        ("COFF", "255 0 51 102", {"color": [1, 0, 0.2, 0.4]}),
        ("COFF", "0.5 0 1.0 1.0", {"color": [0.5, 0, 1, 1]}),
        ("NOFF", "0 0 -1", {"normal": [0, 0, -1]}),
        ("STOFF", "0.25 4", {"uv": [0.25, 4]}),
        ("CNOFF", "0 1 0 1 0 0", {"normal": [0, 1, 0], "color": [1, 0, 0]}),
        (
            "STCNOFF",
            "0 1 0 1 0 0 1 7 8",
            {"normal": [0, 1, 0], "color": [1, 0, 0, 1], "uv": [7, 8]},
        ),
    ],
)
def test_vertices_have_what_the_keyword_announces(keyword, numbers, expected) -> None:
    attributes = read_off(off(keyword, numbers)).attributes
    assert {name: values[2].tolist() for name, values in attributes.vertices.items()} == expected
    assert attributes.warnings == ()


def test_homogeneous_positions_come_first_and_lines_may_be_joined() -> None:
    mesh = read_off(off("C4OFF", "2 255 255 0 255"))
    assert mesh.vertices[1].tolist() == [0.5, 0, 0]
    assert mesh.attributes.vertices["color"][1].tolist() == [1, 1, 0, 1]
    head, body = off("NOFF", "0 0 1").split(b"0\n", 1)
    mesh = read_off(head + b"0\n" + body.replace(b"\n", b" "))
    assert mesh.attributes.vertices["normal"].tolist() == [[0, 0, 1]] * 3
    assert mesh.attributes.warnings == ()


def test_faces_have_colors_or_an_index() -> None:
    faces = read_off(off("OFF", "", "255 0 0", "0 0 255 51", "", "4")).attributes.faces
    np.testing.assert_array_equal(
        faces["color"], [[1, 0, 0, 1], [0, 0, 1, 0.2], [NAN] * 4, [NAN] * 4]
    )
    np.testing.assert_array_equal(faces["color_index"], [NAN, NAN, NAN, 4])


@pytest.mark.parametrize(
    ("keyword", "vertex", "face", "message"),
    [
        ("OFF", "1 0 0", "", "3 vertices have other numbers behind their position than the key"),
        ("COFF", "", "", "3 vertices have other numbers behind their position than the keyword"),
        ("COFF", "1 0", "", "3 vertices have other numbers behind their position than the key"),
        ("COFF", "-1 0 0", "", "colors of vertices are neither from 0 to 1 nor from 0 to 255"),
        ("OFF", "", "1 0.5 300", "colors of faces are neither from 0 to 1 nor from 0 to 255; left"),
        ("OFF", "", "1 0", "1 faces have further numbers that are no color; left out"),
        ("OFF", "", "1 0 0 0 0", "1 faces have further numbers that are no color; left out"),
    ],
)
def test_malformed_attributes_of_off_files_are_left_out_with_one_warning(
    keyword, vertex, face, message
) -> None:
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


@pytest.mark.parametrize("kind", ["uchar", "ushort", "short", "int", "uint", "float", "double"])
def test_numbers_keep_their_names_and_types(kind: str) -> None:
    data = ply([f"{kind} quality"], [f"{kind} label"], ["1", "2", "3", "7"])
    attributes = read_ply(data).attributes
    expected = {"uchar": "u1", "ushort": "i4", "short": "i2", "int": "i4", "uint": "i8"}
    expected |= {"float": "f4", "double": "f8"}
    assert attributes.vertices["quality"].tolist() == [1, 2, 3]
    assert attributes.faces["label"].tolist() == [7, 7]
    assert attributes.vertices["quality"].dtype == expected[kind]
    assert attributes.faces["label"].dtype == expected[kind]
    assert attributes.warnings == ()


@pytest.mark.parametrize("order", [("red", "green", "blue"), ("blue", "red", "green")])
def test_colors_are_found_by_name(order: tuple[str, ...]) -> None:
    values = {"red": "255", "green": "51", "blue": "0"}
    row = " ".join(values[name] for name in order)
    data = ply([], [f"uchar {name}" for name in order], ["", "", "", row])
    assert read_ply(data).attributes.faces["color"].tolist() == [[1, 0.2, 0]] * 2


@pytest.mark.parametrize("names", [("s", "t"), ("u", "v"), ("texture_u", "texture_v")])
def test_texture_coordinates_have_several_names(names: tuple[str, str]) -> None:
    data = ply([f"float {name}" for name in names], [], ["0 1", "2 3", "4 5", ""])
    assert read_ply(data).attributes.vertices["uv"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_lists_of_faces_are_texture_coordinates_of_corners() -> None:
    data = ply([], ["list uchar float texcoord", "int label"], ["", "", "", "6 0 1 2 3 4 5 8"])
    attributes = read_ply(data).attributes
    assert attributes.corners["uv"].tolist() == [[0, 1], [2, 3], [4, 5]] * 2
    assert attributes.faces["label"].tolist() == [8, 8]
    rows = np.empty(2, object)
    rows[:] = [np.arange(6.0), np.arange(8.0)]
    found = read_ply_attributes({}, {"texcoord": rows}, np.array([3, 4]), {})
    assert found.corners["uv"].tolist() == [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    ("vertex", "face", "rows", "message"),
    [
        ([], ["list uchar float texcoord"], ["", "", "", "4 0 1 2 3"], "face property 'texcoord'"),
        (
            ["list uchar uchar red"],
            [],
            ["1 0", "2 0 0", "1 0", ""],
            "vertex property 'red', a list",
        ),
        ([], ["list uchar int flags"], ["", "", "", "2 0 1"], "face property 'flags', a list"),
        (["list uchar int near"], [], ["2 0 1"] * 3 + [""], "vertex property 'near', a list"),
        (
            [f"float {c}" for c in ("red", "green", "blue")],
            [],
            ["0 -1 0"] * 3 + [""],
            "vertex colors out of range",
        ),
        (
            ["float nx", "float ny", "float nz", "float normal"],
            [],
            ["0 0 1 5"] * 3 + [""],
            "vertex property 'normal', no name of its own",
        ),
    ],
)
def test_what_is_no_attribute_is_told(vertex, face, rows, message) -> None:
    mesh = read_ply(ply(vertex, face, rows))
    assert mesh.num_faces == 2
    (warning,) = mesh.attributes.warnings
    assert warning.startswith(f"not read: {message}")


def test_other_elements_are_told_and_warnings_name_a_few() -> None:
    data = ply([], [], [""] * 4 + ["0 1"], "element edge 1\nproperty int a\nproperty int b")
    assert read_ply(data).attributes.warnings == ("not read: element 'edge'",)
    columns = {f"\x1b{k}{'x' * 1000}": np.zeros(3) for k in range(200)}
    attributes = read_ply_attributes(columns, {}, NONE, {})
    (warning,) = attributes.warnings
    assert warning.isprintable()
    assert len(warning) < 400
    assert warning.endswith("and 196 more")


def test_a_single_row_is_no_exception_and_positions_alone_are_no_attributes() -> None:
    attributes = read_ply_attributes({}, {"label": np.array(5)}, np.array([3]), {})
    assert attributes.faces["label"].tolist() == [5]
    head = b"ply\nformat ascii 1.0\nelement vertex 5\nproperty float x\nproperty float y\n"
    head += b"property float z\nelement face 6\nproperty list uchar int vertex_index\nend_header\n"
    rows = [" ".join(map(str, row)) for row in VERTICES.tolist()]
    rows += ["3 " + " ".join(map(str, row)) for row in FACES.tolist()]
    assert not read_ply(head + "\n".join(rows).encode()).attributes
