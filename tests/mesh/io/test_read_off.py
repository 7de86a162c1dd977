from __future__ import annotations

import re

import numpy as np
import pytest

from equigeo.mesh import MeshError
from equigeo.mesh.io.read_off import read_off

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


def test_a_missing_keyword_is_reported() -> None:
    assert "keyword OFF is missing" in read_off(f"3 1 0\n{POINTS}3 0 1 2".encode()).warnings[0]


def test_faces_of_any_size_keep_their_order_and_lines() -> None:
    mesh = read_off(f"OFF\n3 3 0\n{POINTS}3 0 1 2\n\n2 0 1\n4 0 1 2 0".encode())
    assert mesh.sizes.tolist() == [3, 2, 4]
    assert mesh.face_lines is not None
    assert mesh.face_lines.tolist() == [6, 8, 9]


def test_a_point_at_infinity_is_not_finite() -> None:
    mesh = read_off(b"4OFF\n3 1 0\n0 0 0 1\n2 0 0 0\n0 3 0 3\n3 0 1 2")
    assert np.isfinite(mesh.vertices).all(axis=1).tolist() == [True, False, True]
    assert "line 4" in mesh.warnings[0]


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
def test_damage_gives_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(MeshError) as error:
        read_off(text.encode())
    assert re.search(message, str(error.value))
