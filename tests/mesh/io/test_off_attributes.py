import numpy as np
import pytest

from equigeo.mesh.io.off_attributes import OffRows, read_off_attributes
from equigeo.mesh.io.read_off import read_off
from equigeo.mesh.io.token_table import TokenTable

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


def test_homogeneous_positions_come_first() -> None:
    mesh = read_off(off("C4OFF", "2 255 255 0 255"))
    assert mesh.vertices[1].tolist() == [0.5, 0, 0]
    assert mesh.attributes.vertices["color"][1].tolist() == [1, 1, 0, 1]


def test_numbers_that_follow_one_another_have_them_too() -> None:
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
def test_malformed_ones_are_left_out_with_one_warning(keyword, vertex, face, message) -> None:
    mesh = read_off(off(keyword, vertex, face))
    assert mesh.num_faces == 1
    assert not mesh.attributes
    (warning,) = mesh.attributes.warnings
    assert warning.startswith(message)


def test_words_are_nan_with_a_warning() -> None:
    attributes = read_off(off("NOFF", "0 z 1", "red")).attributes
    assert attributes.vertices["normal"][0, [0, 2]].tolist() == [0, 1]
    assert np.isnan(attributes.vertices["normal"][:, 1]).all()
    assert attributes.warnings == (
        "3 times the normal is no number: NaN there",
        "1 times the color index is no number: NaN there",
    )


def test_too_many_words_leave_colors_out() -> None:
    table, none = TokenTable(b"x " * 100_000), np.zeros(0, np.int64)
    first, counts = np.arange(0, 99_999, 3), np.full(33_333, 3)
    rows = OffRows(none, none, first, counts, False, False, False)
    attributes = read_off_attributes(table, rows)
    assert not attributes
    assert attributes.warnings[0].startswith("colors are left out: the file has more than 65536")
