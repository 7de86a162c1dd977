import itertools
import tarfile
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

from equigeo.datasets import TSPInstance, load_tsplib, optimal_lengths, uniform_cities
from equigeo.datasets import optimal_lengths as function
from equigeo.datasets.tours import optimal_tour, read_tsplib
from equigeo.testing import tolerance
from tests.datasets.tsplib_files import BOX, explicit, write_library
from tests.shared_data import on_data
from tests.wrong_inputs import refused


@cache
def library(folder):
    return {instance.name: instance for instance in load_tsplib(folder)}


KINDS = {
    111: {"EUC_2D": 78, "EXPLICIT": 17, "GEO": 10, "CEIL_2D": 4, "ATT": 2},
    11: {"EUC_2D": 2, "EXPLICIT": 4, "GEO": 3, "ATT": 2},
}
BEST = {
    "berlin52": 7542, "kroA100": 21282, "eil51": 426, "a280": 2579, "pla85900": 142_382_641,
}  # fmt: skip


@on_data("tsplib")
def test_the_library_is_read(folder):
    found = library(folder)
    assert Counter(instance.kind for instance in found.values()) == KINDS[len(found)]
    assert all(instance.best for instance in found.values())
    fixed = [name for name, instance in found.items() if instance.fixed]
    assert fixed == [name for name in ("linhp318",) if name in found]
    sizes = [len(instance) for instance in found.values()]
    assert (sizes, sizes[0], sizes[-1]) == (sorted(sizes), 14, 85_900 if len(found) > 11 else 666)
    known = BEST.keys() & found.keys()
    assert {name: found[name].best for name in known} == {name: BEST[name] for name in known}
    assert "berlin52" in known


# Published with TSPLIB95 to check an implementation: the tours through the cities in their order.
@on_data("tsplib")
@pytest.mark.parametrize(
    ("name", "length"), [("pcb442", 221_440), ("gr666", 423_710), ("att532", 309_636)]
)
def test_canonical_tours_have_the_published_lengths(folder, name, length):
    instance = library(folder)[name]
    assert instance.length(np.arange(len(instance))) == length


# One or more for every kind of distance but CEIL_2D and for every format of a matrix.
@on_data("tsplib")
@pytest.mark.parametrize(
    "name", "burma14 ulysses22 gr17 fri26 bayg29 bays29 att48 berlin52".split()
)
def test_the_shortest_tour_has_the_best_known_length(folder, name):
    instance = library(folder)[name]
    every = np.arange(len(instance))
    tour = optimal_tour(instance.distances(every[:, None], every))
    assert instance.length(tour) == instance.best


def test_coordinates_are_sorted_by_number_and_fixed_edges_kept(tmp_path):
    (tmp_path / "box.tsp").write_text(BOX)
    instance = read_tsplib(tmp_path / "box.tsp")
    assert instance.coordinates.tolist() == [[0, 0], [0, 4], [3, 4], [3, 0]]
    assert (instance.name, instance.kind, instance.best) == ("box", "EUC_2D", None)
    assert instance.length([0, 1, 2, 3]) == 14
    text = BOX.replace("NODE_COORD", "FIXED_EDGES_SECTION\n1 3\n-1\nNODE_COORD")
    (tmp_path / "box.tsp").write_text(text)
    assert read_tsplib(tmp_path / "box.tsp").fixed == ((0, 2),)


def test_all_formats_of_a_matrix_say_the_same(tmp_path):
    for form, numbers in (
        ("UPPER_ROW", "1 2 3 4\n5 6 7 8 9 10"),
        ("UPPER_DIAG_ROW", "0 1 2 3 4 0 5 6 7\n0 8 9 0 10 0"),
        ("LOWER_DIAG_ROW", "0 1 0 2 5 0 3 6 8 0\n4 7 9 10 0"),
        ("FULL_MATRIX", "0 1 2 3 4 1 0 5 6 7 2 5 0 8 9 3 6 8 0 10 4 7 9 10 0"),
    ):
        (tmp_path / "five.tsp").write_text(explicit(form, numbers))
        matrix = read_tsplib(tmp_path / "five.tsp").matrix
        assert matrix[np.triu_indices(5, 1)].tolist() == list(range(1, 11))
        assert np.array_equal(matrix, matrix.T)


def test_distances_are_rounded_as_their_kind_says():
    place = np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 1.5], [10.0, 0.0]])
    lengths = {  # of 1.118, 1.5 and 10; for ATT of these over sqrt(10): 0.354, 0.474, 3.162
        kind: TSPInstance("x", kind, place).distances(0, [1, 2, 3]).tolist()
        for kind in ("EUC_2D", "CEIL_2D", "ATT")
    }
    assert lengths == {"EUC_2D": [1, 2, 10], "CEIL_2D": [2, 2, 10], "ATT": [1, 1, 4]}
    # A quarter of a great circle, 6378.388 km times pi / 2 = 10019.1, and the next kilometre.
    poles = TSPInstance("x", "GEO", np.array([[0.0, 0.0], [90.0, 0.0], [0.0, 90.0]]))
    assert poles.distances(0, [1, 2]).tolist() == [10020, 10020]
    # Hundredths are minutes: 1.30 is one degree and a half, 166.98 km on the equator.
    minutes = TSPInstance("x", "GEO", np.array([[0.0, 0.0], [0.0, 1.30], [0.0, -1.30]]))
    assert minutes.distances(0, [1, 2]).tolist() == [167, 167]


def test_fields_that_do_not_fit_together_raise():
    for changes, message in (
        ({"kind": "EUC_3D"}, "must be EUC_2D, CEIL_2D, ATT, GEO, EXPLICIT, got 'EUC_3D'"),
        ({"coordinates": None}, "need coordinates and no matrix"),
        ({"coordinates": np.zeros((3, 3))}, r"\(cities, 2\)"),
        ({"coordinates": np.full((3, 2), np.nan)}, "finite"),
        ({"kind": "EXPLICIT"}, "square matrix"),
        ({"kind": "EXPLICIT", "matrix": np.arange(4).reshape(2, 2)}, "symmetric"),
    ):
        fields = {"name": "x", "kind": "EUC_2D", "coordinates": np.zeros((3, 2))} | changes
        refused(message, TSPInstance, **fields)


def test_a_damaged_file_is_one_error(tmp_path):
    for old, new, message in (
        ("DIMENSION: 4\n", "", "it has no DIMENSION"),
        ("DIMENSION: 4", "DIMENSION: 5", "has 12 numbers, expected 15"),
        ("DIMENSION: 4", "DIMENSION: 0", "has 0 cities"),
        ("DIMENSION: 4", "DIMENSION: 1000000000", "not 1 to 100000"),
        ("DIMENSION: 4", "DIMENSION: four", "four"),
        ("TYPE : TSP", "TYPE : ATSP", "no symmetric instance: ATSP"),
        ("EUC_2D", "XRAY1", "got 'XRAY1'"),
        ("NODE_COORD_SECTION", "TOUR_SECTION", "no symmetric instance: TSP, TOUR_SECTION"),
        ("NODE_COORD_SECTION\n", "", "numbers outside of a section"),
        (" 3 3 4", " 3 3", "has 11 numbers, expected 12"),
        (" 3 3 4", " 3 1_0 4", "a number with an underscore"),
        (" 3 3 4", " 2 3 4", "numbered from 1 to 4"),
        (" 3 3 4", " 3 3 1e999", "finite"),
        (" 3 3 4", " 3 3 4x", "4x"),
        ("four", "f\xf6ur", "ascii"),
        ("EUC_2D", "EXPLICIT", "EDGE_WEIGHT_FORMAT must be FULL_MATRIX"),
        ("NODE_COORD_SECTION", "FIXED_EDGES_SECTION\n1 9\n-1\nNODE_COORD_SECTION", "pairs of"),
    ):
        assert old in BOX
        (tmp_path / "box.tsp").write_bytes(BOX.replace(old, new, 1).encode("latin-1"))
        text = refused(message, read_tsplib, tmp_path / "box.tsp")
        assert text.startswith(f"{tmp_path / 'box.tsp'}: ")


def test_folders_and_archives_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "cache"))
    folder = write_library(tmp_path / "data" / "tsplib")
    (tmp_path / "packed").mkdir()
    with tarfile.open(tmp_path / "packed" / "tsplib.tar.xz", "w:xz") as archive:
        archive.add(folder, "tsplib")
    packed = tmp_path / "packed"
    for place in (folder, tmp_path / "data", packed / "tsplib.tar.xz", packed):
        found = load_tsplib(place)
        assert [(i.name, i.best) for i in found] == [("box", 14), ("five", 27), ("ring", 52)]
    assert [i.name for i in load_tsplib(folder, most=5)] == ["box", "five"]
    (folder / "solutions").unlink()
    assert [i.best for i in load_tsplib(folder)] == [None] * 3


def test_a_folder_without_instances_or_with_odd_lengths_is_refused(tmp_path):
    refused(r"holds no \*\.tsp", load_tsplib, tmp_path)
    (tmp_path / "x").write_text("")
    refused("expected a folder or an archive", load_tsplib, tmp_path / "x")
    folder = write_library(tmp_path / "library")
    for line in ("box 14", "box : many", "box :"):
        (folder / "solutions").write_text(line)
        refused("solutions: expected a name, a colon and a length", load_tsplib, folder)


def test_tours_must_visit_every_city_and_are_optimal_in_the_small_library(tmp_path):
    for instance in load_tsplib(write_library(tmp_path / "library")):
        others = itertools.permutations(range(1, len(instance)))
        assert min(instance.length([0, *rest]) for rest in others) == instance.best
    instance = TSPInstance("box", "EUC_2D", np.zeros((3, 2)))
    for tour in ([0, 1], [0, 1, 1], [0, 1, 3], [[0, 1, 2]]):
        refused("box: a tour must visit each of 3 cities once", instance.length, tour)


@pytest.fixture(autouse=True)
def stored(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIGEO_CACHE", str(tmp_path / "stored"))
    return tmp_path / "stored" / "optimal_lengths"


def shortest(points):
    rest = itertools.permutations(range(1, len(points)))
    visited = points[np.array([[0, *order] for order in rest])]
    return np.linalg.norm(visited - np.roll(visited, -1, 1), axis=-1).sum(-1).min()


@pytest.mark.parametrize("cities", [1, 2, 3, 4, 5, 8])
def test_no_tour_is_shorter(cities):
    points = uniform_cities(5, cities)
    want = [shortest(instance.numpy()) for instance in points]
    near = tolerance(torch.float64, terms=cities)["atol"]
    assert optimal_lengths(points).tolist() == pytest.approx(want, abs=near)


def test_clusters_need_cuts_circles_are_visited_in_order_and_wrong_distances_raise():
    generator = np.random.default_rng(0)
    corners = ((0, 0), (1, 0), (0, 1))
    points = np.concatenate([corner + 0.01 * generator.random((3, 2)) for corner in corners])
    length = optimal_lengths(torch.from_numpy(points)[None]).item()
    # One more city is reached from another of its cluster, there and back.
    assert length == pytest.approx(shortest(points[:8]), abs=2 * 0.01 * 2**0.5)
    assert length > 3  # three separate triangles would have length 0.1
    angles = 2 * np.pi * np.arange(12) / 12
    order = np.random.default_rng(0).permutation(12)
    place = np.exp(1j * angles)[order]
    distances = abs(place[:, None] - place)
    tour = order[optimal_tour((distances + distances.T) / 2)]
    steps = (tour - np.roll(tour, 1)) % 12
    assert set(steps.tolist()) in ({1}, {11})
    for wrong in (np.zeros((2, 3)), np.zeros(4), [[0, 1], [2, 0]], [[0, np.inf], [np.inf, 0]]):
        refused("finite symmetric matrix", optimal_tour, wrong)


def test_results_are_kept_and_damaged_ones_replaced(stored, monkeypatch):
    cities = uniform_cities(3, 6)
    monkeypatch.setitem(function.__globals__, "BLOCK", 2)
    want = optimal_lengths(cities)
    files = sorted(stored.iterdir())
    assert len(files) == 2
    with monkeypatch.context() as patch:
        patch.setitem(function.__globals__, "optimal_tour", None)
        assert torch.equal(optimal_lengths(cities), want)
    for content in (b"", b"PK\3\4nothing", files[0].read_bytes()[:-40]):
        files[0].write_bytes(content)
        assert torch.equal(optimal_lengths(cities), want)
    assert optimal_lengths(cities[:0]).shape == (0,)
    for wrong in (torch.full((1, 4, 2), torch.nan), torch.zeros(4, 2)):
        refused("must be finite", optimal_lengths, wrong)


def test_uniform_instances_are_the_published_ones():
    cities = uniform_cities(10, 20)
    generator = np.random.RandomState(1234)
    assert torch.equal(cities, torch.from_numpy(generator.uniform(size=(10_000, 20, 2)))[:10])
    assert not torch.equal(uniform_cities(10, 20, seed=4321), cities)
    for arguments in ((0, 20), (1, 0), (1, 20, -1), (1, 20, 2**32)):
        refused("numbers must be positive", uniform_cities, *arguments)
