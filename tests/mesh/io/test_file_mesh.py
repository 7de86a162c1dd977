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


@given(st.lists(st.integers(0, 7), max_size=10))
def test_a_polygon_gives_two_triangles_less_than_its_corners(sizes: list[int]) -> None:
    total = sum(sizes)
    file = FileMesh(np.zeros((total, 3)), np.arange(total), np.array(sizes, np.int64))
    triangles, polygon = file.fan_triangles()
    assert file.num_triangles == len(triangles)
    assert np.bincount(polygon, minlength=len(sizes)).tolist() == [max(s - 2, 0) for s in sizes]
    assert (np.diff(polygon) >= 0).all()
    first = np.cumsum(sizes) - sizes if sizes else np.zeros(0)
    assert (triangles[:, 0] == first[polygon]).all()
    assert (triangles[:, 2] == triangles[:, 1] + 1).all()


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
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
    ],
)
def test_colors_are_scaled_by_their_type_and_range(values, expected) -> None:
    found = scale_colors(values)
    assert found is None if expected is None else found[0].tolist() == expected
    assert scale_colors(np.zeros((0, 3))).shape == (0, 3)
    assert np.isnan(scale_colors(np.full((2, 3), NAN))).all()


def test_values_that_agree_stay_with_vertices_and_nan_agrees_with_nan() -> None:
    values = {"same": np.array([[1, NAN]] * 3), "other": np.array([0.0, 1, NAN])}
    own, shared = np.array([[0, 1, 2]]), np.array([[0, 1, 1]])
    assert list(differing_attributes(values, own, shared)) == ["other"]
    assert differing_attributes(values, own, own) == {}


def test_parts_are_joined_with_nan_and_opaque_where_some_have_none() -> None:
    parts = [{"color": np.zeros((1, 3))}, {}, {"color": np.zeros((1, 4))}]
    joined, warnings = join_attributes(parts, [1, 2, 1])
    assert joined["color"][[0, 3]].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert np.isnan(joined["color"][1:3]).all()
    assert warnings == ("2 of 4 vertices have no color: NaN there",)
    attributes = FileAttributes({"color": np.zeros((9, 3))}, {}, {"uv": np.zeros((9, 2))})
    assert repr(attributes) == "FileAttributes(vertices=['color'], corners=['uv'])"
