import time
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import MeshError
from equigeo.mesh.io.obj import read_obj
from tests.mesh.definitions import count_calls
from tests.mesh.io.test_hostile_files import SECONDS
from tests.wrong_inputs import refused

TRIANGLE = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"


def corners(text: str, encoding: str = "ascii") -> list[int]:
    return read_obj(text.encode(encoding)).corners.tolist()


@pytest.mark.parametrize(
    "face",
    [
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
    ],
)
def test_spellings_of_one_face_agree(face: str) -> None:
    assert corners(TRIANGLE + face) == [0, 1, 2]


def test_obj_encodings_spaces_and_lines_are_those_of_an_editor() -> None:
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        assert corners("# naïve\n" + TRIANGLE + "f 1 2 3", encoding) == [0, 1, 2]
    text = TRIANGLE + "f -3 -2 -1\nv 5 5 5\nf -3 -2 -1"
    assert corners(text) == [0, 1, 2, 1, 2, 3]
    assert corners((TRIANGLE + "f 1 2 3").replace("\n", "\r")) == [0, 1, 2]
    wrapped = b"bplist00\0\xff\n" + TRIANGLE.encode() + b"f 1 2 3\nend\0\0"
    assert read_obj(wrapped).corners.tolist() == [0, 1, 2]
    mesh = read_obj(("# a\n\n" + TRIANGLE + "\nf 1 2 \\\n3\nf 3 2 1").encode())
    assert mesh.vertex_lines is not None
    assert mesh.face_lines is not None
    assert mesh.vertex_lines.tolist() == [3, 4, 5]
    assert mesh.face_lines.tolist() == [7, 9]


def test_positions_are_three_numbers() -> None:
    mesh = read_obj(b"v 1 2 3 0.5 nan red\nv 4 5 6 1\nv 7 8 9\nf 1 2 3")
    assert mesh.vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert mesh.warnings == ()
    mesh = read_obj(b"v 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3")
    assert np.isnan(mesh.vertices[0]).tolist() == [False, False, True]


@pytest.mark.parametrize("number", ["1.0f", "1,5", "1_0", "0x10", "3.1+e2", "abc", "9" * 80])
def test_a_coordinate_that_is_no_number_becomes_nan_with_its_line(number: str) -> None:
    mesh = read_obj(f"v 0 0 {number}\nv 1 0 0\nv 0 1 0\nf 1 2 3".encode())
    assert np.isnan(mesh.vertices[0, 2])
    assert np.isfinite(mesh.vertices[1:]).all()
    assert "first in line 1" in mesh.warnings[0]


@pytest.mark.parametrize("index", ["0", "4", "-4", "1.5", "x", "1_0", "/2", str(2**80)])
def test_an_impossible_index_names_its_line(index: str) -> None:
    refused(r"^line 5\b", corners, TRIANGLE + f"f 1 2 3\nf 1 2 {index}\nf 3 2 1", error=MeshError)


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
TRIANGLE_BYTES = TRIANGLE.encode()


def attributes_of(text: bytes):
    """Attributes, once known that the mesh is read whatever they are."""
    mesh = read_obj(text)
    assert mesh.num_faces >= 1
    return mesh.attributes


def test_each_corner_has_its_own_numbers_in_every_spelling() -> None:
    lines = b"vt 0.5 0.25 9\nvt 1\nvn 0 0 1\nvn 0 1 0\nf 1/1/2 2//1 3/2\nf 1/-1/-2 2 3/1/1"
    found = attributes_of(TRIANGLE_BYTES + lines)
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
    found = attributes_of(TRIANGLE_BYTES + b"vt 1 1\nf 1/-1 2/-1 3/-1\nvt 2 2\nf 1/-1 2/-2 3/2")
    assert found.corners["uv"][:, 0].tolist() == [1, 1, 1, 2, 1, 2]


def test_weights_and_keywords_that_begin_alike_are_no_attributes() -> None:
    weights = TRIANGLE_BYTES.replace(b"0\n", b"0 1.0\n") + b"f 1 2 3"
    for text in (weights, TRIANGLE_BYTES + b"vtx 1 1\nvp 1 1\n# vt 1 1\nf 1/1 2/1 3/1"):
        found = attributes_of(text)
        assert not found
        assert found.warnings == ()


MALFORMED = [
    (b"vt 0 0\nf 1/a 2/1 3/1", "uv is left out: line 5: expected a vt number, got"),
    (b"vt 0 0\nf 1/1.5 2/1 3/1", "uv is left out: line 5: expected a vt number"),
    (b"vn 0 0 1\nf 1//1/1 2//1 3//1", "normal is left out: line 5: expected a vn"),
    (b"vt 0 0\nvt 1 1\nf 1 2 3", "2 lines of vt belong to no corner; uv is left out"),
    (b"vt 0 0\nf 1/2 2/2 3/0", "3 corners refer to a vt that the file does not hold"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_attributes_of_obj_files_are_left_out_with_one_warning(text, message) -> None:
    found = attributes_of(TRIANGLE_BYTES + text)
    assert not found
    assert found.warnings[0].startswith(message)


def test_numbers_outside_and_words_are_nan_with_a_warning() -> None:
    found = attributes_of(TRIANGLE_BYTES + b"vt 0 0\nvt x 0\nf 1/1 2/2 3/3")
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
    found = attributes_of(TRIANGLE_BYTES.replace(b"0\n", b"0" + numbers + b"\n") + b"f 1 2 3")
    assert found.warnings == (message,)


@pytest.mark.parametrize("line", [b"vt x y\n", b"vn a b c\n", b"vt 1e999 _\n", b"vt\n"])
def test_half_a_million_lines_of_junk_neither_take_long_nor_refuse_the_file(line: bytes) -> None:
    text = TRIANGLE_BYTES + line * 500_000 + b"f 1/1/1 2/2/2 3/3/3"
    read_obj(TRIANGLE_BYTES + b"vt 0 0\nf 1/1 2/1 3/1")  # what is loaded once
    before = time.process_time()
    found = attributes_of(text)
    assert time.process_time() - before < SECONDS
    assert len(found.warnings) == 1
