from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh import MeshError
from equigeo.mesh.io.obj import read_obj
from tests.mesh.definitions import count_calls

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


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_understood(encoding: str) -> None:
    assert corners("# naïve\n" + TRIANGLE + "f 1 2 3", encoding) == [0, 1, 2]


def test_spaces_and_lines_are_those_of_an_editor() -> None:
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
    with pytest.raises(MeshError, match=r"^line 5\b"):
        corners(TRIANGLE + f"f 1 2 3\nf 1 2 {index}\nf 3 2 1")


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
def test_every_spelling_of_a_mesh_reads_the_same(
    spelled: tuple[np.ndarray, list[list[int]], str],
) -> None:
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
