from __future__ import annotations

import numpy as np
import pytest

from equigeo.mesh import MeshError
from equigeo.mesh.io.read_stl import read_stl

from .mesh_texts import FACES, VERTICES, stl_binary, stl_text


@pytest.mark.parametrize("write", [stl_text, stl_binary])
def test_corners_at_the_same_place_are_one_vertex(write) -> None:
    mesh = read_stl(write())
    assert len(mesh.vertices) == len(VERTICES)
    assert np.array_equal(mesh.vertices[mesh.corners], VERTICES[FACES.ravel()])


def test_solids_follow_one_another() -> None:
    mesh = read_stl(stl_text() + b"\nsolid\nendsolid\n" + stl_text(VERTICES + 5))
    assert mesh.num_faces == 2 * len(FACES)


def test_a_binary_header_may_say_solid() -> None:
    data = b"solid" + stl_binary()[5:]
    assert read_stl(data).num_faces == len(FACES)


def test_bytes_after_the_last_triangle_are_reported() -> None:
    mesh = read_stl(stl_binary() + b"\0\0\0")
    assert mesh.num_faces == len(FACES)
    assert mesh.warnings == ("3 bytes after the last triangle",)


def test_no_triangle_is_no_error_of_the_reader() -> None:
    assert read_stl(b"solid\nendsolid").num_faces == 0


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
def test_damage_gives_one_clear_error(data: bytes, message: str) -> None:
    with pytest.raises(MeshError, match=message):
        read_stl(data)


def test_a_signaling_nan_is_a_corner_like_any_other() -> None:
    data = bytearray(stl_binary())
    data[96:100] = b"\x01\x00\x80\x7f"  # first coordinate of the first corner
    assert np.isnan(read_stl(bytes(data)).vertices).sum() == 1


def test_unreadable_normals_are_a_note_and_print_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    mesh = read_stl(stl_text().replace(b"normal 0", b"normal x", 1))
    assert mesh.num_faces == len(FACES)
    assert mesh.warnings == ("failed to extract face_normals",)
    assert capfd.readouterr() == ("", "")
