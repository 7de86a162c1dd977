"""Shortest tours: proved against all tours, cached, and only for what has distances."""

import itertools

import numpy as np
import pytest
import torch

from equigeo.datasets import optimal_lengths, optimal_tour, uniform_cities
from equigeo.datasets import optimal_lengths as function
from equigeo.testing import tolerance


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "optimal_lengths"


def shortest(points):
    rest = np.array(list(itertools.permutations(range(1, len(points)))), dtype=int)
    tours = np.concatenate([np.zeros((len(rest), 1), dtype=int), rest], 1)
    visited = points[tours]
    return np.linalg.norm(visited - np.roll(visited, -1, 1), axis=-1).sum(-1).min()


@pytest.mark.parametrize("cities", [1, 2, 3, 4, 5, 8])
def test_no_tour_is_shorter(cities):
    points = uniform_cities(5, cities)
    want = [shortest(instance.numpy()) for instance in points]
    near = tolerance(torch.float64, terms=cities)["atol"]
    assert optimal_lengths(points).tolist() == pytest.approx(want, abs=near)


def test_clusters_need_cuts():
    generator = np.random.default_rng(0)
    corners = ((0, 0), (1, 0), (0, 1))
    points = np.concatenate([corner + 0.01 * generator.random((3, 2)) for corner in corners])
    length = optimal_lengths(torch.from_numpy(points)[None]).item()
    # One more city is reached from another of its cluster, there and back.
    assert length == pytest.approx(shortest(points[:8]), abs=2 * 0.01 * 2**0.5)
    assert length > 3  # three separate triangles would have length 0.1


def test_cities_on_a_circle_are_visited_in_order():
    angles = 2 * np.pi * np.arange(12) / 12
    order = np.random.default_rng(0).permutation(12)
    place = np.exp(1j * angles)[order]
    distances = abs(place[:, None] - place)
    tour = order[optimal_tour((distances + distances.T) / 2)]
    steps = (tour - np.roll(tour, 1)) % 12
    assert set(steps.tolist()) in ({1}, {11})


def test_results_are_kept_and_damaged_ones_replaced(cache, monkeypatch):
    cities = uniform_cities(3, 6)
    monkeypatch.setitem(function.__globals__, "BLOCK", 2)
    want = optimal_lengths(cities)
    files = sorted(cache.iterdir())
    assert len(files) == 2
    with monkeypatch.context() as patch:
        patch.setitem(function.__globals__, "optimal_tour", None)
        assert torch.equal(optimal_lengths(cities), want)
    for content in (b"", b"PK\3\4nothing", files[0].read_bytes()[:-40]):
        files[0].write_bytes(content)
        assert torch.equal(optimal_lengths(cities), want)
    assert optimal_lengths(cities[:0]).shape == (0,)
    for wrong in (torch.full((1, 4, 2), torch.nan), torch.zeros(4, 2)):
        with pytest.raises(ValueError, match="must be finite"):
            optimal_lengths(wrong)


@pytest.mark.parametrize(
    "distances", [np.zeros((2, 3)), np.zeros(4), [[0, 1], [2, 0]], [[0, np.inf], [np.inf, 0]]]
)
def test_distances_must_be_finite_and_symmetric(distances):
    with pytest.raises(ValueError, match="finite symmetric matrix"):
        optimal_tour(distances)


def test_uniform_instances_are_the_published_ones():
    cities = uniform_cities(10, 20)
    generator = np.random.RandomState(1234)
    assert torch.equal(cities, torch.from_numpy(generator.uniform(size=(10_000, 20, 2)))[:10])
    assert not torch.equal(uniform_cities(10, 20, seed=4321), cities)
    for arguments in ((0, 20), (1, 0), (1, 20, -1), (1, 20, 2**32)):
        with pytest.raises(ValueError, match="numbers must be positive"):
            uniform_cities(*arguments)
