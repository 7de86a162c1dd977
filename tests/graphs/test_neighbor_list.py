"""The conformance suite: every backend gives the right list for every system, or is refused."""

import math
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from equigeo.graphs import (
    EdgeIndex,
    NeighborList,
    VerletList,
    cell_list,
    knn_graph,
    neighbor_list,
)
from equigeo.graphs.backend_choice import BACKENDS, choose_backend, require_package
from equigeo.graphs.backends import Backend
from equigeo.testing import tolerance
from tests.graphs.conformance import (
    EVERY,
    PERIODIC,
    Case,
    assert_same,
    cases,
    rotation,
    scalar_edges,
    weyl,
)
from tests.shared_data import COMMITTED, on_data
from tests.tier import tier
from tests.wrong_inputs import refused

# Sums of them are exact, and ties frequent.
EIGHTHS = st.integers(-24, 24).map(lambda n: n / 8) | st.just(-0.0)


@st.composite
def systems(draw):
    """Points anywhere, a cell of any shape, any axes periodic, any cut-off."""
    points = draw(st.lists(st.tuples(EIGHTHS, EIGHTHS, EIGHTHS), max_size=5))
    entries = st.lists(EIGHTHS, min_size=3, max_size=3)
    cell = torch.tensor(draw(st.lists(entries, min_size=3, max_size=3)), dtype=torch.float64)
    pbc = draw(st.lists(st.booleans(), min_size=3, max_size=3))
    cutoff = draw(st.integers(1, 24)) / 8
    positions = torch.tensor(points, dtype=torch.float64).reshape(-1, 3)
    return positions, cutoff, cell, pbc


def rows_of(edges):
    return {
        (s, t, *n)
        for s, t, n in zip(*edges.edge_index.tolist(), edges.shifts.tolist(), strict=True)
    }


@pytest.mark.parametrize("backend", PERIODIC)
@given(system=systems())
def test_all_backends_list_what_all_pairs_and_images_are(backend, system):
    positions, cutoff, cell, pbc = system
    rows = cell[torch.tensor(pbc)]
    if len(rows) and float(torch.linalg.svdvals(rows)[-1]) <= 0.2:
        return  # more images are near than can be compared
    found = neighbor_list(positions, cutoff, cell, pbc, backend=backend)
    want = neighbor_list(positions, cutoff, cell, pbc, backend="brute")
    assert_same(found, want)


@given(systems())
def test_an_adversarial_cell_gives_the_right_list_or_an_error(system):
    positions, cutoff, cell, pbc = system
    scale = torch.tensor([1.0, 1e-3, 1e3], dtype=torch.float64)[:, None]
    try:
        found = neighbor_list(positions, cutoff, cell * scale, pbc)
    except ValueError as error:
        message = str(error)
        if "independent vectors" in message or "cutoff must be smaller" in message:
            return
        raise
    if found.num_edges < 10_000 and len(positions):
        reverse = {(t, s, *(-k for k in n)) for s, t, *n in rows_of(found)}
        assert reverse == rows_of(found)
        assert len(reverse) == found.num_edges


CELL = torch.tensor([[4.0, 0.2, 0], [1.1, 3.7, 0.3], [-0.8, 0.6, 4.4]], dtype=torch.float64)
POINTS = torch.from_numpy(weyl(7, CELL.numpy()))
MIXED = [True, False, True]
CLOSE = tolerance(torch.float64, terms=3)


@pytest.mark.parametrize("backend", PERIODIC)
@pytest.mark.parametrize("pbc", [True, MIXED])
def test_the_list_is_invariant_to_isometries_and_permutations(backend, pbc):
    edges = neighbor_list(POINTS, 3.3, CELL, pbc, backend=backend)
    turn = torch.from_numpy(-rotation())  # a reflection as well
    turned = neighbor_list(POINTS @ turn + 3, 3.3, CELL @ turn, pbc, backend=backend)
    assert torch.equal(turned.edge_index, edges.edge_index)
    assert torch.equal(turned.shifts, edges.shifts)
    assert_close(turned.vectors, edges.vectors @ turn, **CLOSE)
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    permuted = neighbor_list(POINTS[order], 3.3, CELL, pbc, backend=backend)
    relabelled = {(int(order[s]), int(order[t]), *n) for s, t, *n in rows_of(permuted)}
    assert relabelled == rows_of(edges)


@pytest.mark.parametrize("pbc", [False, MIXED, True])
@pytest.mark.parametrize("differentiable", [False, True])
@pytest.mark.parametrize("backend", PERIODIC)
def test_zeros_have_the_sign_of_the_difference_inside_of_the_cell(backend, differentiable, pbc):
    points = torch.tensor([[0.0, 0, 0], [-0.0, 1, 0]], dtype=torch.float64)
    points.requires_grad_(differentiable)
    vectors = neighbor_list(points, 1.5, 3 * torch.eye(3).double(), pbc, backend=backend).vectors
    assert str(vectors.tolist()) == "[[0.0, -1.0, 0.0], [-0.0, 1.0, 0.0]]"


@pytest.mark.parametrize("backend", EVERY)
def test_batches_are_their_systems(backend):
    periodic = backend != "torch-cluster"
    cells = torch.stack([CELL, torch.zeros(3, 3).double(), 2 * CELL, CELL])
    pbc = torch.tensor([[True] * 3, [False] * 3, MIXED, [True] * 3]) & periodic
    sizes = [7, 5, 0, 3]
    positions = [POINTS[:size] for size in sizes]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    whole = neighbor_list(torch.cat(positions), 3.3, cells, pbc, ptr=ptr, backend=backend)
    parts = [
        neighbor_list(x, 3.3, cell, flags, backend=backend)
        for x, cell, flags in zip(positions, cells, pbc, strict=True)
    ]
    want = [part.edge_index + start for part, start in zip(parts, ptr.tolist()[:-1], strict=True)]
    assert torch.equal(whole.edge_index, torch.cat(want, dim=1))
    assert torch.equal(whole.shifts, torch.cat([part.shifts for part in parts]))
    assert torch.equal(whole.vectors, torch.cat([part.vectors for part in parts]))
    assert whole.batch.tolist() == [0] * 7 + [1] * 5 + [3] * 3
    assert (whole.batch[whole.edge_index[0]] == whole.batch[whole.edge_index[1]]).all()
    assert torch.equal(whole.edge_vectors(torch.cat(positions), cells), whole.vectors)
    by_batch = neighbor_list(
        torch.cat(positions), 3.3, cells, pbc, batch=whole.batch, backend=backend
    )
    assert torch.equal(by_batch.edge_index, whole.edge_index)


@pytest.mark.parametrize("at_once", [7, 2**23])  # pairs
@pytest.mark.parametrize("single", [0.0, 2.0**20])  # extent up to which float32 is used
@pytest.mark.parametrize("many", [0, 2**20])  # edges
def test_cells_search_all_systems_of_the_suite_in_one_call(monkeypatch, at_once, single, many):
    monkeypatch.setattr(cell_list, "_AT_ONCE", at_once)
    monkeypatch.setattr(cell_list, "_SINGLE", single)
    monkeypatch.setattr(sys.modules["equigeo.graphs.neighbor_list"], "_MANY", many)
    chosen = [case for case in cases() if case.cutoff == 5 and len(case.positions) < 20]
    cells = torch.stack(
        [torch.from_numpy(np.zeros((3, 3)) + (0 if c.cell is None else c.cell)) for c in chosen]
    )
    x = torch.cat([torch.from_numpy(case.positions.copy()) for case in chosen])
    ptr = torch.tensor([0, *(len(case.positions) for case in chosen)]).cumsum(0)
    pbc = torch.tensor([case.pbc for case in chosen])
    found = neighbor_list(x, 5, cells, pbc, ptr=ptr, backend="cells")
    assert_same(found, neighbor_list(x, 5, cells, pbc, ptr=ptr, backend="scipy"))
    assert found.num_edges == sum(case.edges for case in chosen) > 2000


ODD = {
    "empty": (torch.zeros(0, 3).double(), 1e18 * torch.eye(3).double(), True),
    "far": (torch.full((1, 3), 1e17, dtype=torch.float64), torch.zeros(3, 3).double(), False),
    "wide": (torch.tensor([[-1e10, 0, 0], [1e10, 0, 0]]).double(), 0 * CELL, False),
    "sheared": (POINTS, CELL + 1e6 * CELL[[0, 0, 0]] * torch.tensor([[0], [1], [0]]), True),
}


@pytest.mark.parametrize(("points", "cell", "pbc"), ODD.values(), ids=ODD)
def test_cells_compare_no_more_pairs_of_a_system_whatever_others_are(
    monkeypatch, points, cell, pbc
):
    totals, near = [], cell_list._near
    monkeypatch.setattr(cell_list, "_near", lambda *given: totals.append(given[2]) or near(*given))
    usual = torch.from_numpy(weyl(500, 5 * np.eye(3)))
    x, cells = torch.cat([usual, points]), torch.stack([5 * torch.eye(3).double(), cell])
    ptr, flags = torch.tensor([0, 500, len(x)]), torch.tensor([[True] * 3, [pbc] * 3])
    neighbor_list(usual, 1.0, cells[0], backend="cells")
    neighbor_list(points, 1.0, cell, pbc, backend="cells")
    alone = sum(totals)
    totals.clear()
    found = neighbor_list(x, 1.0, cells, flags, ptr=ptr, backend="cells")
    assert found.num_edges < sum(totals) <= alone
    assert_same(found, neighbor_list(x, 1.0, cells, flags, ptr=ptr, backend="scipy"))


@pytest.mark.parametrize("backend", ["cells", "scipy"])
@pytest.mark.parametrize(("far", "cutoff"), [(1e20, 1e-150), (1e100, 1e-100), (1e149, 1e-20)])
def test_points_may_lie_beyond_any_multiple_of_the_cutoff(backend, far, cutoff):
    x = torch.zeros(4, 3, dtype=torch.float64)
    x[1, 0], x[2, 0], x[3, 1], x[3, 2] = far, cutoff / 2, far, cutoff / 2
    found = neighbor_list(x, cutoff, backend=backend)
    assert found.edge_index.tolist() == [[2, 0], [0, 2]]
    assert_same(found, neighbor_list(x, cutoff, backend="brute"))


class Waits(TorchFunctionMode):
    """Names of calls for which a host waits for a device, with shapes of what is copied."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in {"numpy", "tolist", "item", "nonzero", "__int__", "__float__", "__bool__"}:
            self.found.append((name, *args[0].shape))
        return func(*args, **(kwargs or {}))


def test_the_host_waits_as_often_as_it_says_and_copies_no_points():
    count = len(POINTS)
    with Waits() as waits:
        neighbor_list(POINTS, 3.3, CELL, backend="cells")
    # Cells; sizes and the number of images; pairs; those that are near; those in doubt; edges.
    names = ["numpy", "tolist", "__int__", "nonzero", "nonzero", "__int__"]
    assert [name for name, *_ in waits.found] == names
    assert waits.found[0] == ("numpy", 3, 3)
    moving = VerletList(3.0, 0.3, backend="cells")
    moving.update(POINTS, CELL)
    with Waits() as waits:
        moving.update(POINTS, CELL)
    assert [name for name, *_ in waits.found] == ["numpy", "tolist", "nonzero"]
    with Waits() as waits:
        neighbor_list(POINTS, 3.3, CELL, backend="scipy")
    assert ("numpy", count, 3) in waits.found


def test_half_of_the_list_and_its_reverse_are_the_list():
    for pbc in (True, MIXED, False):
        whole = neighbor_list(POINTS, 4.1, CELL, pbc)
        half = neighbor_list(POINTS, 4.1, CELL, pbc, half=True)
        assert_same(half, neighbor_list(POINTS, 4.1, CELL, pbc, half=True, backend="cells"))
        rows = rows_of(half)
        reverse = {(t, s, *(-k for k in n)) for s, t, *n in rows}
        assert half.half
        assert not rows & reverse
        assert rows | reverse == rows_of(whole)


def test_gradients_reach_positions_and_cell():
    positions, cell = POINTS.clone().requires_grad_(), CELL.clone().requires_grad_()
    edges = neighbor_list(positions, 3.3, cell)

    def distances(x, h):
        return torch.linalg.vector_norm(edges.edge_vectors(x, h), dim=1)

    assert gradcheck(distances, (positions, cell))
    assert gradgradcheck(distances, (positions, cell))
    assert torch.equal(edges.vectors, neighbor_list(POINTS, 3.3, CELL).vectors)
    direct = torch.autograd.grad(edges.distances.sum(), (positions, cell))
    again = torch.autograd.grad(distances(positions, cell).sum(), (positions, cell))
    assert_close(direct, again, rtol=0, atol=0)


# A program of PyTorch's own for tangents, made when the first is.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_tangents_of_forward_mode_reach_the_vectors():
    tangent = torch.ones_like(POINTS).cumsum(0)
    with forward_ad.dual_level():
        edges = neighbor_list(forward_ad.make_dual(POINTS, tangent), 3.3, CELL)
        found = forward_ad.unpack_dual(edges.vectors).tangent
    source, target = edges.edge_index
    assert torch.equal(found, tangent[target] - tangent[source])


def lennard_jones(vectors, smooth):
    """Energies of specs/potentials.md, section 7, oracles 6 to 8."""
    square = vectors.square().sum(1)
    pair = 4 * (square**-6 - square**-3)
    if smooth:
        x = square.sqrt() / 2.5
        pair = pair * (1 - 28 * x**6 + 48 * x**7 - 21 * x**8)
    return pair.sum() / 2


def test_energies_forces_and_stresses_of_crystals_are_those_of_the_specification():
    cell = 2 ** (2 / 3) * torch.from_numpy((1 - np.eye(3)) / 2)
    for cutoff, smooth, energy, trace, edges in (
        (2.5, False, -7.761588139789, 3.393574781379, 54),
        (5.0, False, -8.321785876600, 4.511694333515, 530),
        (10.0, False, -8.379609185049, 4.627338179115, 4188),
        (2.5, True, -6.131315745189, 3.017892997851, 54),
    ):
        strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        deformation = torch.eye(3).double() + (strain + strain.T) / 2
        found = neighbor_list(torch.zeros(1, 3).double(), cutoff, cell @ deformation)
        total = lennard_jones(found.vectors, smooth)
        virial = torch.autograd.grad(total, strain)[0]
        assert found.num_edges == edges
        near = 1e-12  # twelve decimals
        assert total.item() == pytest.approx(energy, abs=near)
        assert virial.trace().item() / 3 == pytest.approx(trace, abs=near)
    offsets = 0.05 * np.sin(np.arange(12.0)).reshape(4, 3)
    fcc = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    strain = np.array([[0.02, 0.01, -0.015], [0.01, -0.01, 0.005], [-0.015, 0.005, 0.03]])
    deformation = torch.from_numpy(np.eye(3) + strain)
    positions = (torch.from_numpy(1.6 * fcc + offsets) @ deformation).requires_grad_()
    cell = (1.6 * torch.eye(3).double() @ deformation).requires_grad_()
    volume = torch.linalg.det(cell.detach())
    edges = neighbor_list(positions, 2.5, cell)
    energy = lennard_jones(edges.vectors, smooth=True)
    forces, of_cell = torch.autograd.grad(energy, (positions, cell))
    virial = positions.detach().T @ forces + cell.detach().T @ of_cell
    assert edges.num_edges == 236
    assert volume.item() == pytest.approx(4.258780160, abs=1e-9)  # nine decimals
    assert energy.item() == pytest.approx(-21.491654497886, abs=1e-12)  # twelve decimals
    want = [3.3357616634, -17.2430611263, -12.4691905170]
    assert (-forces[0]).tolist() == pytest.approx(want, abs=1e-10)  # ten decimals
    size = float(forces.abs().max())
    assert float(forces.sum(0).abs().max()) < size * tolerance(torch.float64, terms=236)["atol"]
    stress = virial / volume
    voigt = [stress[a, b].item() for a, b in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))]
    want = [3.4528383653, 0.2828147894, 1.8488060146, -2.6194547732, -0.7591021225, 1.2436323569]
    assert voigt == pytest.approx(want, abs=1e-10)  # ten decimals


@on_data("rmd17")
@pytest.mark.parametrize(
    ("molecule", "first", "totals"),
    # Of the thousand published frames, and of the first ones that are committed.
    [("ethanol", 72, {1000: 72_000, 200: 14_400}), ("aspirin", 294, {1000: 302_404, 50: 15_168})],
)
def test_molecular_dynamics_has_the_published_numbers_of_edges(folder, molecule, first, totals):
    with np.load(folder / f"rmd17_{molecule}_train_01.npz") as file:
        frames = torch.from_numpy(file["coords"]).double()
    edges = neighbor_list(
        frames.reshape(-1, 3), 5.0, ptr=torch.arange(len(frames) + 1) * frames.shape[1]
    )
    assert int((edges.batch[edges.edge_index[0]] == 0).sum()) == first
    assert edges.num_edges == totals[len(frames)]
    squares = (frames[:, :, None] - frames[:, None]).square().sum(-1)  # one by one
    assert edges.num_edges == int(((squares < 25) & (squares > 0)).sum())


CRYSTALS = [
    *(("Li", 1160, 30454, 200), ("Cu", 4768, 139230, 180), ("Mo", 1634, 33764, 116)),
    *(("Ni", 5228, 156240, 168), ("Si", 1670, 41008, 0), ("Ge", 1664, 38098, 0)),
]


@pytest.mark.parametrize(("element", "first", "total", "own"), CRYSTALS)
def test_crystals_have_the_numbers_of_edges_of_the_specification(element, first, total, own):
    with np.load(COMMITTED / "mlearn_periodic" / f"{element}_test.npz") as file:
        ptr = torch.from_numpy(file["atom_offset"]).long()
        positions, cell = (torch.from_numpy(file[name]).double() for name in ("position", "cell"))
    edges = neighbor_list(positions, 5.0, cell, ptr=ptr)
    source, target = edges.edge_index
    assert int((edges.batch[source] == 0).sum()) == first
    assert edges.num_edges == total
    assert int((source == target).sum()) == own


def test_numbers_are_read_as_they_are_held_and_empty_arrays_are_taken():
    third = torch.tensor([[0.0, 0, 0], [0.1, 0, 0]])  # 0.1 is larger in float32 than in float64
    assert float(third[1, 0]) > 0.1
    assert neighbor_list(third, 0.1).num_edges == 0
    assert neighbor_list(third, float(third[1, 0])).num_edges == 0
    assert neighbor_list(third, float(np.nextafter(float(third[1, 0]), 1))).num_edges == 2
    assert neighbor_list(third, 0.2).vectors.dtype == torch.float32
    half = neighbor_list(third.half(), 0.2)
    assert half.vectors.dtype == torch.float16
    positions = torch.tensor([[1e4, 0, 0], [1e4 + 1 / 1024, 0, 0]])
    edges = neighbor_list(positions.requires_grad_(), 1.0)
    assert edges.vectors[1, 0].item() == 1 / 1024
    turned = torch.complex(POINTS, -POINTS).conj().imag
    assert turned.is_neg()
    assert torch.equal(neighbor_list(turned, 3.3).edge_index, neighbor_list(POINTS, 3.3).edge_index)
    for keywords in ({}, {"cell": torch.eye(3)}, {"ptr": torch.zeros(1, dtype=torch.int64)}):
        edges = neighbor_list(torch.zeros(0, 3), 1.0, **keywords)
        assert edges.edge_index.shape == (2, 0)
        assert edges.edge_index.dtype == torch.int64
        assert edges.shifts.shape == edges.vectors.shape == (0, 3)
        assert edges.shifts.dtype == torch.int32
        assert edges.edges.num_edges == 0
    before = POINTS.clone(), CELL.clone()
    edges = neighbor_list(POINTS.numpy(), 3.3, CELL.numpy(), np.array(MIXED))
    assert torch.equal(edges.edge_index, neighbor_list(POINTS, 3.3, CELL, MIXED).edge_index)
    assert all(map(torch.equal, before, (POINTS, CELL)))


SINGULAR = torch.tensor([[1.0, 0, 0], [2, 0, 0], [0, 0, 1]]).double()
NEARLY = torch.tensor([[1.0, 0, 0], [1, 1e-13, 0], [0, 0, 1]]).double()
BAD = {
    "nan": ({"positions": POINTS * math.nan}, ValueError, "positions must be finite"),
    "infinite": ({"positions": POINTS / 0}, ValueError, "positions must be finite"),
    "huge": ({"positions": POINTS * 1e160}, ValueError, "positions must be at most 1e.150"),
    "integers": ({"positions": POINTS.long()}, TypeError, "positions must be floating"),
    "list": ({"positions": [[0, 0, 0]]}, TypeError, "positions must be a Tensor or a NumPy"),
    "plane": ({"positions": POINTS[:, :2]}, ValueError, r"positions must be \(points, 3\)"),
    "cloud": ({"positions": POINTS[None]}, ValueError, r"positions must be \(points, dim\)"),
    "zero": ({"cutoff": 0.0}, ValueError, "cutoff must be positive and finite, got 0.0"),
    "negative": ({"cutoff": -1}, ValueError, "cutoff must be positive"),
    "no cutoff": ({"cutoff": math.inf}, ValueError, "cutoff must be positive and finite"),
    "nan cutoff": ({"cutoff": math.nan}, ValueError, "cutoff must be positive and finite"),
    "text": ({"cutoff": "5"}, TypeError, "cutoff must be a number, got str"),
    "cell nan": ({"cell": CELL * math.nan}, ValueError, "cell must be finite"),
    "cell shape": ({"cell": CELL[0]}, ValueError, r"cell must be \(3, 3\) or \(1, 3, 3\)"),
    "cell count": ({"cell": CELL.expand(2, 3, 3)}, ValueError, r"got \(2, 3, 3\)"),
    "cell dtype": ({"cell": CELL.float()}, TypeError, "cell must be torch.float64 as positions"),
    "singular": ({"cell": SINGULAR}, ValueError, "cell must have independent vectors"),
    "zeros": ({"cell": 0 * CELL}, ValueError, "cell must have independent vectors"),
    "nearly": ({"cell": NEARLY}, ValueError, "cell must have independent vectors"),
    "no cell": ({"cell": None, "pbc": True}, ValueError, "cell must be given where pbc"),
    "pbc shape": ({"pbc": [True, True]}, ValueError, r"pbc must be a bool, \(3,\) or \(1, 3\)"),
    "pbc numbers": ({"pbc": [1, 1, 0]}, TypeError, "pbc must be bool, got int"),
    "both": ({"batch": torch.zeros(7).long(), "ptr": torch.tensor([0, 7])}, ValueError, "give one"),
    "batch": ({"batch": torch.zeros(6).long()}, ValueError, r"batch must be \(7,\)"),
    "unsorted": ({"batch": torch.arange(7) % 2}, ValueError, "batch must be sorted"),
    "half": ({"half": 1}, TypeError, "half must be a bool, got int"),
    "backend": ({"backend": "faiss"}, ValueError, "backend must be one of auto, scipy"),
    "memory": ({"cutoff": 1e5}, ValueError, "cutoff must be smaller: it reaches"),
    "shifts": ({"positions": POINTS * 1e11}, ValueError, "positions must lie within 2147483647"),
}


@pytest.mark.parametrize(("wrong", "error", "message"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_refused(wrong, error, message):
    cells = torch.stack([CELL, SINGULAR])
    for backend in ("auto", "cells"):
        good = {"positions": POINTS, "cutoff": 3.3, "cell": CELL, "backend": backend}
        refused(message, neighbor_list, error=error, **good | wrong)
        with pytest.raises(ValueError, match=r"independent vectors .* in system 1"):
            neighbor_list(POINTS, 3.3, cells, ptr=torch.tensor([0, 4, 7]), backend=backend)


def test_what_memory_would_not_hold_is_refused_before_it_is_tried(monkeypatch):
    for name in ("backends", "backend_choice"):
        monkeypatch.setattr(f"equigeo.graphs.{name}.available_bytes", lambda: 2**29)
    positions = torch.rand(20_000, 3, generator=torch.Generator().manual_seed(0))
    for backend in ("scipy", "brute"):
        with pytest.raises(ValueError, match=r"cutoff must be smaller: it reaches 4e\+08"):
            neighbor_list(positions, 2.0, backend=backend)
    assert neighbor_list(positions, 0.05).num_edges > 0
    monkeypatch.setattr("equigeo.graphs.backends.available_bytes", lambda: 2**28)
    with pytest.raises(ValueError, match=r"it reaches 4e\+06 edges"):
        neighbor_list(positions[:2000], 2.0, backend="cells")
    assert neighbor_list(positions[:2000], 0.2, backend="cells").num_edges > 0


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_cells_hold_no_images_that_are_far_from_all_points_of_a_thin_lattice(monkeypatch, at):
    points, cell = torch.full((1, 3), at).double(), torch.diag(torch.tensor([1e-3, 1.01, 1.01]))
    want = neighbor_list(points, 1.0, cell.double())
    monkeypatch.setattr("equigeo.graphs.backends.ALWAYS_THERE", 0)
    for bytes_per_edge, fits in ((300, True), (200, False)):
        there = bytes_per_edge * want.num_edges
        monkeypatch.setattr("equigeo.graphs.backends.available_bytes", lambda size=there: size)
        if fits:
            assert_same(neighbor_list(points, 1.0, cell.double(), backend="cells"), want)
        else:
            refused("of memory", neighbor_list, points, 1.0, cell.double(), backend="cells")


def test_programs_that_are_compiled_or_mapped_search_outside():
    def search(x):
        return neighbor_list(x.reshape(7, 3), 3.3).vectors * 2

    edges = neighbor_list(POINTS, 3.3, CELL)
    compiled = torch.compile(edges.edge_vectors, backend="eager", fullgraph=True)
    assert torch.equal(compiled(POINTS, CELL), edges.vectors)
    mapped = torch.vmap(edges.edge_vectors, in_dims=(0, None))(POINTS[None], CELL)
    assert torch.equal(mapped[0], edges.vectors)
    for transform in (lambda f: torch.compile(f, backend="eager"), torch.vmap):
        refused("search outside", transform(search), POINTS[None], error=RuntimeError)


def test_the_index_for_layers_is_sorted_and_strains_move_vectors():
    edges = neighbor_list(POINTS, 3.3, CELL)
    assert isinstance(edges, NeighborList)
    assert isinstance(edges.edges, EdgeIndex)
    assert edges.edges.is_sorted
    assert edges.edges is edges.edges
    assert edges.edges.num_targets == 7
    strain = torch.tensor([[0.02, 0.01, -0.03], [0, -0.01, 0.02], [0.01, 0, 0.03]]).double()
    deformation = torch.eye(3).double() + strain
    moved = edges.edge_vectors(POINTS @ deformation, CELL @ deformation)
    assert_close(moved, edges.vectors @ deformation, **CLOSE)


@pytest.mark.parametrize("backend", ["scipy", "brute", "cells"])
@pytest.mark.parametrize("scale", [1e-170, 1e-300, 1e145])
def test_nearest_points_do_not_depend_on_the_scale(backend, scale):
    want = knn_graph(POINTS, 3)
    assert torch.equal(knn_graph(POINTS * scale, 3, backend=backend), want)


MODULE = sys.modules["equigeo.graphs.backend_choice"]
# Loops would go through all the cells between the points of the others.
FEW = [case for case in cases() if len(case.positions) < 20 and case.name[:2] not in ("18", "19")]


def search(case: Case, backend: str) -> NeighborList:
    cell = None if case.cell is None else torch.from_numpy(case.cell.copy())
    positions = torch.from_numpy(case.positions.copy())
    return neighbor_list(positions, case.cutoff, cell, case.pbc, backend=backend)


def as_rows(edges: NeighborList) -> list[tuple[int, ...]]:
    """Target, source and shift of each edge."""
    return [*map(tuple, torch.cat([edges.edge_index.flip(0).T, edges.shifts], dim=1).tolist())]


@pytest.mark.parametrize("backend", EVERY)
def test_every_backend_passes_the_conformance_suite(backend):
    for case in cases():
        if any(case.pbc) and not BACKENDS[backend].periodic:
            refused(f"{backend}' lists no periodic images", search, case, backend)
            continue
        edges = search(case, backend)
        source, target = edges.edge_index
        assert edges.num_edges == case.edges, case.name
        assert int((source == target).sum()) == case.own, case.name
        # Eight decimals.
        assert float(edges.distances.sum()) == pytest.approx(case.length, abs=1e-8), case.name
        rows = as_rows(edges)
        assert rows == sorted(set(rows)), case.name
        assert {(s, t, *(-k for k in n)) for t, s, *n in rows} == set(rows), case.name
        assert edges.backend == backend
        assert_same(edges, search(case, "scipy"))
        positions, cell = case.positions, np.zeros((3, 3)) if case.cell is None else case.cell
        want = positions[target] - positions[source] + edges.shifts.numpy() @ cell
        near = np.abs(positions).max(initial=1.0) * tolerance(torch.float64, terms=3)["atol"]
        vectors = edges.vectors.numpy()
        np.testing.assert_allclose(vectors, want, rtol=0, atol=near, err_msg=case.name)
        assert bool((edges.distances < case.cutoff).all()), case.name


def test_lists_are_those_of_plain_loops():
    for case in tier(FEW[::2], FEW):
        assert set(as_rows(search(case, "scipy"))) == scalar_edges(case), case.name


@pytest.fixture
def fresh(monkeypatch):
    """A backend that is tried for the first time, from a module of the test."""

    def register(candidates, version="2.5.1", periodic=True):
        monkeypatch.setitem(sys.modules, "fake_list", ModuleType("fake_list"))
        monkeypatch.setattr(MODULE, "version", lambda package: version)
        fake = Backend("fake", candidates, "fake_list", "fake-list", (2, 4), periodic)
        monkeypatch.setitem(BACKENDS, "fake", fake)
        MODULE._admit.cache_clear()
        return fake

    yield register
    MODULE._admit.cache_clear()


def test_a_backend_that_is_right_is_admitted_and_tried_once(fresh):
    calls = []
    right = BACKENDS["scipy"].candidates
    fresh(lambda system: calls.append(1) or right(system))
    assert choose_backend("fake", True).name == "fake"
    tried = len(calls)
    assert tried == 10
    choose_backend("fake", True)
    assert len(calls) == tried


def scipy_edges(keep):
    """The search of scipy, whose edges are repeated or left out."""

    def candidates(system):
        found = BACKENDS["scipy"].candidates(system)
        kept = keep(found)
        shift = None if found.shift is None else found.shift[:, kept]
        return found._replace(pairs=found.pairs[:, kept], shift=shift)

    return candidates


def near_images(found):
    every = np.ones(found.pairs.shape[1], bool)
    return every if found.shift is None else (np.abs(found.shift) <= 1).all(axis=0)


def at_most_32(found):
    rank = [int((found.pairs[0, :k] == s).sum()) for k, s in enumerate(found.pairs[0])]
    return np.array(rank) < 32


def twice(found):
    return np.tile(np.arange(found.pairs.shape[1]), 2)


def breaks(system):
    raise RuntimeError("overflow of a buffer")


@pytest.mark.parametrize("wrong", [*map(scipy_edges, (near_images, at_most_32, twice)), breaks])
def test_a_backend_that_is_wrong_is_refused_by_name(fresh, wrong):
    fresh(wrong)
    with pytest.raises(RuntimeError, match=r"'fake' is unusable: fake-list 2.5.1 returns a wrong"):
        choose_backend("fake", True)


def test_old_versions_unknown_names_and_what_a_backend_cannot_do_are_refused(fresh):
    fake = fresh(BACKENDS["scipy"].candidates, version="2.3.9")
    with pytest.raises(ImportError, match=r"'fake' is unusable: fake-list 2.3.9 is older than 2.4"):
        require_package(fake)
    for name in ("vesin", "own", None):
        refused(r"one of auto, scipy, torch-cluster, brute, .*got", choose_backend, name, True)
    with pytest.raises(ValueError, match=r"'torch-cluster' lists no periodic images: take one of"):
        choose_backend("torch-cluster", True)
    assert choose_backend("auto", True).name == "scipy"
    assert choose_backend("auto", True, "cuda").name == "cells"
    assert choose_backend("scipy", True, "cuda").name == "scipy"


def test_a_missing_package_raises_with_its_name(monkeypatch):
    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(MODULE, "import_module", missing)
    message = r"torch-cluster.* cannot be imported .*pip install torch-cluster"
    refused(message, require_package, BACKENDS["torch-cluster"], error=ImportError)
