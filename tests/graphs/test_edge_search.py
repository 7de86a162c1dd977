import itertools
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.graphs import knn_graph, neighbor_list, radius_graph
from equigeo.graphs.backend_choice import check_edge_count, count_pairs, most_edges
from equigeo.graphs.backends import Backend, available_bytes, brute_force, check_size
from equigeo.graphs.edge_search import find_edges, has_duplicates, sort_edges
from equigeo.graphs.periodic import complete_cell, heights, reduce_lattice, search_box
from equigeo.graphs.systems import Candidates, PointSystem
from equigeo.testing import tolerance
from tests.graphs.conformance import EVERY, LARGE, NO_CELL, cases, rotation, weyl
from tests.wrong_inputs import refused

SYSTEM = PointSystem(
    np.array([[0.0, 0, 0], [0.4, 0, 0], [0, 0.3, 5]]), np.eye(3), np.array([True, True, False]), 1.2
)


def search(change, system=SYSTEM):
    return find_edges(system, Backend("changed", lambda system: change(*brute_force(system))))


def test_candidates_that_are_no_edges_are_dropped_and_wrong_lists_raise():
    def more(pairs, shift):
        far = np.array([[9], [0], [0]], np.int32)
        extra = np.concatenate([shift, far, 0 * far], axis=1)
        return Candidates(np.concatenate([pairs, [[0, 1], [1, 1]]], axis=1), extra)

    def beyond(pairs, shift):
        return Candidates(pairs, np.concatenate([shift[:2], np.ones_like(shift[2:])]))

    for a, b in zip(search(more), search(Candidates), strict=True):
        assert np.array_equal(a, b)
    flat = PointSystem(SYSTEM.positions, np.diag([1, 1, 1e-3]), SYSTEM.pbc, 1.2)
    for change, what in (
        (lambda pairs, shift: Candidates(np.tile(pairs, 2), np.tile(shift, 2)), "an edge twice"),
        (lambda pairs, shift: Candidates(pairs[:, :-1], shift[:, :-1]), "without their reverse"),
        (beyond, "images along an axis"),
    ):
        refused(f"'changed' listed .*{what}", search, change, flat, error=RuntimeError)


def test_the_bound_is_one_and_the_count_is_exact():
    for case in cases():
        if not len(case.positions):
            continue
        cell = NO_CELL if case.cell is None else case.cell
        system = PointSystem(case.positions, cell, np.array(case.pbc), case.cutoff * (1 - 1e-7))
        box = search_box(system)
        assert most_edges(box) >= count_pairs(box), case.name
        if len(case.positions) < 50:
            found = brute_force(system)
            own = found.pairs[0] == found.pairs[1]
            if found.shift is not None:
                own &= ~found.shift.any(axis=0)
            assert count_pairs(box) == found.pairs.shape[1] - own.sum(), case.name
    for axes in range(4):  # and the bound is not far off
        pbc = np.arange(3) < axes
        box = search_box(PointSystem(weyl(3000, 3 * LARGE), 3 * LARGE, pbc, 4.0))
        assert count_pairs(box) <= most_edges(box) <= 20 * count_pairs(box)


def test_nothing_is_refused_that_fits(monkeypatch):
    box = search_box(PointSystem(weyl(3000, 3 * LARGE), 3 * LARGE, np.ones(3, bool), 12.0))
    edges = count_pairs(box)
    for there, fits in ((128 * edges + 1, True), (128 * edges - 129, False)):
        for name in ("backends", "backend_choice"):
            module = sys.modules[f"equigeo.graphs.{name}"]
            monkeypatch.setattr(module, "available_bytes", lambda there=there: there)
        if fits:
            check_edge_count(box)
        else:
            refused(r"it reaches .* edges, which take", check_edge_count, box)


SMALL_SHIFTS = st.integers(-3, 3)
LARGE_SHIFTS = st.sampled_from([-(2**31) + 1, -1, 0, 5, 2**31 - 1])


@pytest.mark.parametrize("shifts", [SMALL_SHIFTS, LARGE_SHIFTS, None])
@given(st.data())
def test_edges_are_sorted_by_target_source_and_shift(shifts, data):
    count = data.draw(st.sampled_from([1, 2, 5, 2**20 + 1]))
    node = st.integers(0, count - 1)
    length = data.draw(st.integers(0, 12))
    pairs = np.array(data.draw(st.lists(st.tuples(node, node), min_size=length, max_size=length)))
    pairs = np.ascontiguousarray(pairs.reshape(-1, 2).T, np.int64)
    shift = None
    if shifts is not None:
        rows = st.tuples(shifts, shifts, shifts)
        shift = np.array(data.draw(st.lists(rows, min_size=length, max_size=length)), np.int32)
        shift = np.ascontiguousarray(shift.reshape(-1, 3).T)
    before = rows_of(Candidates(pairs, shift))
    found = sort_edges(Candidates(pairs, shift), count)
    assert rows_of(found) == sorted(before)
    assert has_duplicates(found) == (len(set(before)) < len(before))
    assert found.shift is None or found.shift.dtype == np.int32


def rows_of(found):
    source, target = found.pairs
    keys = [target, source] if found.shift is None else [target, source, *found.shift]
    return [*zip(*(key.tolist() for key in keys), strict=True)]


MODULE = sys.modules["equigeo.graphs.backends"]


def test_the_least_that_is_known_counts(monkeypatch):
    assert MODULE._of_machine() > 2**20
    for machine, group, want in (
        *((100, None, 100), (100, 50, 50), (None, 50, 50), (None, None, None)),
    ):
        monkeypatch.setattr(MODULE, "_of_machine", lambda machine=machine: machine)
        monkeypatch.setattr(MODULE, "_of_control_group", lambda group=group: group)
        assert available_bytes() == want


def test_edges_that_do_not_fit_into_memory_are_refused_by_the_argument_of_the_search(monkeypatch):
    monkeypatch.setattr(MODULE, "available_bytes", lambda: 2 * 10**9)
    message = (
        r"cutoff must be smaller: it reaches 1e\+09 edges, which take 24 GB of memory where 2 GB"
    )
    refused(message, check_size, 1e9, 3, "edges")
    check_size(1e8, 2)
    for name, size in (("memory_reserved", 6e9), ("memory_allocated", 5e9)):
        monkeypatch.setattr(torch.cuda, name, lambda device, size=size: int(size))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 * 10**9, 8 * 10**10))
    for edges, fits in ((1.6e8, True), (1.7e8, False)):  # of 3 GB and 1 GB of unused blocks
        if fits:
            check_size(edges, 3, "edges", device=torch.device("cuda"))
        else:
            refused("where 4 GB", check_size, edges, 3, "edges", device=torch.device("cuda"))
    monkeypatch.setattr(MODULE, "available_bytes", lambda: None)
    check_size(1e30, 1)
    monkeypatch.setattr(MODULE, "ALWAYS_THERE", 0)
    monkeypatch.setattr(MODULE, "available_bytes", lambda: 100)
    refused("k must be smaller: it reaches 30 pairs", knn_graph, torch.rand(10, 3), 1)


CELL = torch.tensor([[2.0, 0, 0], [0.3, 2.1, 0], [0, 0.4, 1.9]], dtype=torch.float64)
POINTS = torch.tensor([[0.0, 0, 0], [1, 1, 1], [0.5, 0.1, 1.2]], dtype=torch.float64)


def test_vectors_can_be_computed_for_other_positions_and_trained_with():
    edges = neighbor_list(POINTS, 2.5, CELL)
    assert torch.equal(edges.edge_vectors(POINTS, CELL), edges.vectors)
    assert torch.equal(edges.edge_vectors(POINTS, CELL[None]), edges.vectors)
    assert torch.equal(edges.edge_vectors(2 * POINTS, 2 * CELL), 2 * edges.vectors)
    assert edges.edge_vectors(POINTS.float(), CELL).dtype == torch.float32
    inside = neighbor_list(POINTS, 2.5)  # no edge crosses a cell
    assert torch.equal(inside.edge_vectors(POINTS), inside.vectors)
    refused("cell must be given, since edges cross it, got None", edges.edge_vectors, POINTS)
    refused(r"positions must be \(3, dim\), got \(2, 3\)", edges.edge_vectors, POINTS[:2], CELL)
    refused(r"cell must be \(3, 3\) or \(systems, 3, 3\)", edges.edge_vectors, POINTS, CELL[0])
    with pytest.raises(ValueError, match=r"cell must be \(3, 3\) for one system"):
        edges.edge_vectors(POINTS, CELL.expand(2, 3, 3))
    edges = neighbor_list(POINTS, 2.5, CELL, ptr=torch.tensor([0, 1, 3])).to("meta")
    assert all(x.is_meta for x in (edges.edge_index, edges.shifts, edges.vectors, edges.batch))
    assert edges.num_edges == edges.distances.shape[0]
    assert "edge_index=(2, " in repr(edges)
    positions = torch.zeros(2, 3, requires_grad=True)
    neighbor_list(positions, 1.0).distances.sum().backward()
    assert torch.equal(positions.grad, torch.zeros(2, 3))
    found = neighbor_list(POINTS, 2.5, CELL)
    with torch.inference_mode():
        edges = found.edges
    assert not edges.order.is_inference()
    assert not edges.edge_index.is_inference()


ENTRIES = st.integers(-30, 30)


@given(st.integers(1, 3), st.data())
def test_reduced_vectors_span_the_same_lattice_and_are_short(k, data):
    row = st.lists(ENTRIES, min_size=3, max_size=3)
    rows = np.array(data.draw(st.lists(row, min_size=k, max_size=k)), float)
    if np.linalg.matrix_rank(rows) < k:
        return
    basis = reduce_lattice(rows)
    assert basis.dtype == np.int64
    assert round(abs(np.linalg.det(basis))) == 1
    reduced = basis @ rows
    gram = reduced @ reduced.T
    # Of two of a reduced basis neither sum nor difference is shorter than the longer one.
    for i in range(k):
        for j in range(i):
            assert 2 * abs(gram[i, j]) <= min(gram[i, i], gram[j, j]) * (1 + 1e-6)
    assert np.linalg.norm(reduced, axis=1).max() <= np.linalg.norm(rows, axis=1).max() * (1 + 1e-9)


def test_sheared_cells_become_cubes_short_vectors_stay_and_the_axes_complete_cells():
    for shear in (20, 200, 2e4):
        cell = np.array([[1, 0, 0], [shear, 1, 0], [-shear / 2, shear / 4, 1]]) @ rotation()
        reduced = reduce_lattice(cell) @ cell
        np.testing.assert_allclose(reduced @ reduced.T, np.eye(3), atol=1e-9 * shear)
    for rows in (np.diag([3.0, 1, 2]), np.array([[0, 0, 5.0], [4, 0, 0]]), np.ones((1, 3))):
        assert np.array_equal(reduce_lattice(rows), np.eye(len(rows)))
    cell = np.full((3, 3), 7.0)
    assert np.array_equal(complete_cell(cell, np.zeros(3, bool)), np.eye(3))


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100])
def test_scales_do_not_matter(scale):
    cell = np.array([[1, 0, 0], [0.3, 1, 0], [0, 0.2, 1]]) * scale
    complete = complete_cell(cell, np.array([True, False, True]))
    assert np.isfinite(complete).all()
    assert abs(complete[1] @ cell[0]) <= 1e-12 * scale
    assert np.linalg.norm(complete[1]) == pytest.approx(1)
    assert heights(cell) == pytest.approx(heights(cell / scale) * scale)
    assert np.array_equal(reduce_lattice(cell), np.eye(3))


NUMBERS = st.integers(-8000, 8000).map(lambda n: n / 8)


@given(st.data())
def test_points_are_inside_of_a_compact_right_handed_cell(data):
    row = st.lists(NUMBERS, min_size=3, max_size=3)
    cell = np.array(data.draw(st.lists(row, min_size=3, max_size=3)))
    positions = np.array(data.draw(st.lists(row, min_size=1, max_size=5)))
    pbc = np.array(data.draw(st.lists(st.booleans(), min_size=3, max_size=3)))
    rows = cell[pbc]
    if len(rows) and np.linalg.svd(rows)[1][-1] <= 1e-3 * np.abs(rows).max():
        return
    box = search_box(PointSystem(positions, cell, pbc, 2.0))
    fractions = box.points @ np.linalg.inv(box.cell)
    assert fractions.min() > -1e-6
    assert fractions.max() < 1 + 1e-6
    assert np.linalg.det(box.cell) > 0
    assert (
        np.linalg.norm(box.cell[pbc] / 2, axis=1)
        <= np.linalg.norm(rows, axis=1).max(initial=0) * (1 + 1e-9)
    ).all()
    assert 4.0 < box.cutoff < 4.002  # so that lengths are doubled
    assert (heights(box.cell)[~pbc] > 3 * 4.0 * 0.99).all()
    # Back in the caller's terms: a pair of the box is the same vector there.
    count = len(positions)
    pairs = np.stack([np.arange(count), np.roll(np.arange(count), 1)])
    zero = np.zeros((3, count), np.int32)
    moved = box.given_terms(Candidates(pairs, zero.copy() if pbc.any() else None))
    shift = zero if moved.shift is None else moved.shift
    assert not shift[~pbc].any()
    inside = (box.points[pairs[1]] - box.points[pairs[0]]) / 2
    outside = positions[pairs[1]] - positions[pairs[0]] + shift.T @ np.where(pbc[:, None], cell, 0)
    # Positions of up to 1e3; whole multiples of the caller's vectors, in eighths, are exact.
    near = 1e3 * tolerance(torch.float64, terms=3)["atol"]
    np.testing.assert_allclose(inside, outside, rtol=0, atol=near)


def test_simple_systems_are_left_alone_and_heights_are_volume_over_area():
    positions = np.array([[0.5, 0.5, 0.5], [0.25, 0.75, 0]])
    box = search_box(PointSystem(positions, np.eye(3), np.ones(3, bool), 5.0))
    assert box.points is positions
    assert np.array_equal(box.cell, np.eye(3))
    assert box.wraps is None
    assert box.basis is None
    cell = np.array([[10, 0, 0], [9.6, 1.2, 0], [1, 2, 3.0]])
    volume = abs(np.linalg.det(cell))
    areas = [np.linalg.norm(np.cross(cell[a - 2], cell[a - 1])) for a in range(3)]
    assert heights(cell) == pytest.approx([volume / area for area in areas])


@pytest.mark.parametrize("far", [1e10, 1e17])
def test_shifts_that_would_overflow_are_refused(far):
    system = PointSystem(np.array([[far, 0, 0]]), np.eye(3), np.ones(3, bool), 1.0)
    refused("positions must lie within 2147483647 cells", search_box, system)
    # A basis in which a shift gets longer.
    cell = np.array([[1, 0, 0], [1e4, 1, 0], [0, 0, 1.0]])
    near = PointSystem(np.array([[0, 1e6, 0], [0, 0, 0]]), cell, np.ones(3, bool), 1.0)
    pair = Candidates(np.array([[0], [1]]), np.zeros((3, 1), np.int32))
    refused("or shifts overflow", search_box(near).given_terms, pair)


GRID = torch.cartesian_prod(*[torch.arange(4.0)] * 3)  # shells of ties


def compared(x, cutoff, loop=False):
    """All pairs, by target and source."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    near = square < cutoff * cutoff
    near.fill_diagonal_(loop)
    target, source = near.nonzero().T
    return torch.stack([source, target])


@pytest.mark.parametrize("backend", EVERY)
def test_edges_are_all_pairs_that_are_nearer(backend):
    for cutoff in (1.0, 1.5, 2.0, float(np.nextafter(2.0, 3)), 10.0):
        found = radius_graph(GRID, cutoff, backend=backend)
        assert torch.equal(found, compared(GRID, cutoff))
        assert torch.equal(found, neighbor_list(GRID, cutoff, backend=backend).edge_index)
        found = radius_graph(GRID, cutoff, loop=True, backend=backend)
        assert torch.equal(found, compared(GRID, cutoff, True))


@pytest.mark.parametrize("backend", EVERY)
@given(data=st.data())
def test_points_may_have_any_number_of_coordinates(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    cutoff = data.draw(st.integers(1, 12)) / 4
    assert torch.equal(radius_graph(x, cutoff, backend=backend), compared(x, cutoff))


@pytest.mark.parametrize("backend", EVERY)
def test_no_edge_joins_two_clouds(backend):
    x = torch.zeros(6, 3)
    batch = torch.tensor([0, 0, 2, 2, 2, 3])
    edges = radius_graph(x, 1.0, batch, backend=backend)
    assert edges.tolist() == [[1, 0, 3, 4, 2, 4, 2, 3], [0, 1, 2, 2, 3, 3, 4, 4]]
    assert torch.equal(
        edges, radius_graph(x, 1.0, ptr=torch.tensor([0, 2, 2, 5, 6]), backend=backend)
    )


def sorted_all(x, k, loop=False):
    """All distances, sorted; the lower number first of equals."""
    square = (x[:, None].double() - x.double()).square().sum(-1)
    if not loop:
        square.fill_diagonal_(torch.inf)
    count = min(k, len(x) if loop else max(len(x) - 1, 0))
    nearest = square.argsort(dim=1, stable=True)[:, :count]
    return torch.stack([nearest.flatten(), torch.arange(len(x)).repeat_interleave(count)])


@pytest.mark.parametrize("backend", EVERY)
def test_ties_are_decided_by_numbers(backend):
    for k, loop in itertools.product([0, 1, 3, 7, 63, 100], [False, True]):
        found = knn_graph(GRID, k, loop=loop, backend=backend)
        assert torch.equal(found, sorted_all(GRID, k, loop)), (k, loop)


@pytest.mark.parametrize("backend", EVERY)
@given(data=st.data())
def test_neighbors_are_those_of_all_distances(backend, data):
    dim = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-4, 4).map(lambda n: n / 4), min_size=dim, max_size=dim)
    x = torch.tensor(data.draw(st.lists(row, max_size=12))).reshape(-1, dim)
    k, loop = data.draw(st.integers(0, 13)), data.draw(st.booleans())
    assert torch.equal(knn_graph(x, k, loop=loop, backend=backend), sorted_all(x, k, loop))


@pytest.mark.parametrize("backend", EVERY)
def test_clouds_are_searched_one_by_one(backend):
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    sizes = [4, 0, 1, 25]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    parts = [
        knn_graph(x[a:b], 5, backend=backend) + a
        for a, b in zip(ptr.tolist()[:-1], ptr.tolist()[1:], strict=True)
    ]
    assert torch.equal(knn_graph(x, 5, ptr=ptr, backend=backend), torch.cat(parts, dim=1))
    batch = torch.tensor([0] * 4 + [2] + [3] * 25)
    assert torch.equal(knn_graph(x, 5, batch, backend=backend), torch.cat(parts, dim=1))


def test_wrong_arguments_are_named():
    for wrong, error, message in (
        ({"positions": torch.zeros(3)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": torch.zeros(3, 0)}, ValueError, r"positions must be \(points, dim\)"),
        ({"positions": GRID.long()}, TypeError, "positions must be floating"),
        ({"positions": GRID * torch.nan}, ValueError, "positions must be finite"),
        ({"loop": None}, TypeError, "loop must be a bool, got None"),
        ({"batch": torch.zeros(3).long()}, ValueError, "batch must be"),
        ({"backend": "own"}, ValueError, "backend must be one of"),
        ({"cutoff": 0}, ValueError, "cutoff must be positive"),
        ({"k": -1}, ValueError, "k must not be negative, got -1"),
        ({"k": 2.0}, TypeError, "k must be an integer, got float"),
        ({"k": True}, TypeError, "k must be an integer, got bool"),
    ):
        for search, good in ((radius_graph, {"cutoff": 1.0}), (knn_graph, {"k": 3})):
            if good.keys() == wrong.keys() or wrong.keys().isdisjoint({"cutoff", "k"}):
                refused(message, search, error=error, **{"positions": GRID} | good | wrong)
            assert search(torch.zeros(0, 2), **good).shape == (2, 0)
            assert search(torch.zeros(0, 2), **good, loop=True).shape == (2, 0)
