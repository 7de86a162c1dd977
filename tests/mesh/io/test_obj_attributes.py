import time

import numpy as np
import pytest

from equigeo.mesh.io.obj import read_obj
from tests.mesh.io.test_hostile_files import SECONDS

NAN = float("nan")
TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"


def attributes_of(text: bytes):
    """Attributes, once known that the mesh is read whatever they are."""
    mesh = read_obj(text)
    assert mesh.num_faces >= 1
    return mesh.attributes


def test_each_corner_has_its_own_numbers_in_every_spelling() -> None:
    text = (
        TRIANGLE + b"vt 0.5 0.25 9\nvt 1\nvn 0 0 1\nvn 0 1 0\nf 1/1/2 2//1 3/2\nf 1/-1/-2 2 3/1/1"
    )
    found = attributes_of(text)
    none = [NAN, NAN]
    uv = [[0.5, 0.25], none, [1, 0], [1, 0], none, [0.5, 0.25]]
    np.testing.assert_array_equal(found.corners["uv"], uv)
    lost = [NAN] * 3
    normal = [[0, 1, 0], [0, 0, 1], lost, [0, 0, 1], lost, [0, 0, 1]]
    np.testing.assert_array_equal(found.corners["normal"], normal)
    assert found.warnings == ()


def test_colors_stand_behind_positions_and_negative_numbers_count_back() -> None:
    found = attributes_of(b"v 0 0 0 255 0 0\nv 1 0 0 0 51 0 102\nv 0 1 0 1\nf 1 2 3")
    color = [[1, 0, 0, 1], [0, 0.2, 0, 0.4], [NAN] * 4]
    np.testing.assert_array_equal(found.vertices["color"], color)
    assert found.warnings == ()
    found = attributes_of(TRIANGLE + b"vt 1 1\nf 1/-1 2/-1 3/-1\nvt 2 2\nf 1/-1 2/-2 3/2")
    assert found.corners["uv"][:, 0].tolist() == [1, 1, 1, 2, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        TRIANGLE.replace(b"0\n", b"0 1.0\n") + b"f 1 2 3",
        TRIANGLE + b"vtx 1 1\nvp 1 1\n# vt 1 1\nf 1/1 2/1 3/1",
    ],
    ids=["weights", "keywords that begin alike"],
)
def test_what_looks_like_an_attribute_is_none(text: bytes) -> None:
    found = attributes_of(text)
    assert not found
    assert found.warnings == ()


MALFORMED = {
    "no number": (b"vt 0 0\nf 1/a 2/1 3/1", "uv is left out: line 5: expected a vt number, got"),
    "a fraction": (b"vt 0 0\nf 1/1.5 2/1 3/1", "uv is left out: line 5: expected a vt number"),
    "four parts": (b"vn 0 0 1\nf 1//1/1 2//1 3//1", "normal is left out: line 5: expected a vn"),
    "unused": (b"vt 0 0\nvt 1 1\nf 1 2 3", "2 lines of vt belong to no corner; uv is left out"),
    "all outside": (
        b"vt 0 0\nf 1/2 2/2 3/0",
        "3 corners refer to a vt that the file does not hold",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_ones_are_left_out_with_one_warning(name: str) -> None:
    text, message = MALFORMED[name]
    found = attributes_of(TRIANGLE + text)
    assert not found
    assert found.warnings[0].startswith(message)


def test_numbers_outside_and_words_are_nan_with_a_warning() -> None:
    found = attributes_of(TRIANGLE + b"vt 0 0\nvt x 0\nf 1/1 2/2 3/3")
    np.testing.assert_array_equal(found.corners["uv"], [[0, 0], [NAN, 0], [NAN, NAN]])
    assert found.warnings == (
        "1 corners refer to a vt that the file does not hold, first in line 6: uv is NaN there",
        "1 lines of vt are not finite numbers",
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (b" 1 0.5 7.5", "colors of vertices are neither from 0 to 1 nor from 0 to 255; left out"),
        (b" 1 0", "3 vertices have further numbers that are no color; left out"),
        (b" 1 0 0 0 0", "3 vertices have further numbers that are no color; left out"),
        (b" 1 red 0", "3 times the color is no number: NaN there"),
    ],
)
def test_further_numbers_that_are_no_color_are_told(numbers: bytes, message: str) -> None:
    found = attributes_of(TRIANGLE.replace(b"0\n", b"0" + numbers + b"\n") + b"f 1 2 3")
    assert found.warnings == (message,)


@pytest.mark.parametrize("line", [b"vt x y\n", b"vn a b c\n", b"vt 1e999 _\n", b"vt\n"])
def test_half_a_million_lines_of_junk_neither_take_long_nor_refuse_the_file(line: bytes) -> None:
    text = TRIANGLE + line * 500_000 + b"f 1/1/1 2/2/2 3/3/3"
    read_obj(TRIANGLE + b"vt 0 0\nf 1/1 2/1 3/1")  # what is loaded once
    before = time.process_time()
    found = attributes_of(text)
    assert time.process_time() - before < SECONDS
    assert len(found.warnings) == 1
