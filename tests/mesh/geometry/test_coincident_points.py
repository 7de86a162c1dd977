"""Coincident points on lattices, in clouds and in crowds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equigeo.mesh.geometry.coincident_points import coincident_points


@given(
    st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=30),
    st.integers(0, 2**32 - 1),
)
def test_points_on_a_lattice_merge_within_the_tolerance_only(
    cells: list[tuple[int, int, int]], seed: int
) -> None:
    cell = np.array(cells, np.float64).reshape(-1, 3)
    noise = np.random.default_rng(seed).uniform(-1e-10, 1e-10, cell.shape)
    expected = [cells.index(place) for place in cells]
    assert coincident_points(cell + noise, 1e-9).tolist() == expected


def test_close_points_merge_wherever_they_lie() -> None:
    # A grid of cells would part some of these pairs, whatever its origin.
    base = np.random.default_rng(0).random((1000, 3))
    merged = coincident_points(np.concatenate([base, base + 0.9e-9]), 1e-9)
    assert merged.tolist() == [*range(1000), *range(1000)]
    apart = coincident_points(np.concatenate([base, base + np.array([1.1e-9, 0, 0])]), 1e-9)
    assert apart.tolist() == list(range(2000))


def test_signed_zeros_are_one_place_and_nan_is_none() -> None:
    nan = float("nan")
    points = np.array([[0.0, 0, 0], [-0.0, 0, -0.0], [nan, 0, 0], [nan, 0, 0]])
    assert coincident_points(points, 0.0).tolist() == [0, 0, 2, 3]


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_points_at_one_place_merge_without_comparing_all_pairs(count: int) -> None:
    assert not coincident_points(np.zeros((count, 3)), 1e-9).any()


def test_a_dense_cloud_merges_only_true_neighbors() -> None:
    # Along every axis the next point is closer than the tolerance, in space none is.
    side = 47
    lattice = np.stack(np.meshgrid(*[np.arange(side)] * 3), axis=-1).reshape(-1, 3) * 2e-9
    tilted = lattice + lattice[:, [1, 2, 0]] * [0.31, 0.17, 0.23]
    for axis in tilted.T:
        # the tolerance that points are merged with below
        assert np.diff(np.sort(axis)).max() < 1e-9
    cloud = np.concatenate([tilted, tilted[::-1] + 1e-12])
    merged = coincident_points(cloud, 1e-9)
    count = len(lattice)
    assert merged.tolist() == [*range(count), *range(count - 1, -1, -1)]


def test_a_crowd_within_the_tolerance_is_one_point() -> None:
    crowd = np.random.default_rng(0).random((50_000, 3)) * 5e-9
    assert not coincident_points(crowd, 1e-9).any()
