from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from equigeo.datasets import load_mlearn
from equigeo.datasets.atoms.load_mlearn import STRESS_ORDER, stress_matrices
from equigeo.graphs import neighbor_list
from equigeo.testing import tolerance
from tests.datasets.atoms.files import mlearn_arrays, write_mlearn
from tests.shared_data import shared_data


@pytest.mark.parametrize(("element", "charge"), [("Mo", 42), ("Si", 14)])
def test_pressures_in_kilobars_become_stresses(tmp_path, element, charge):
    arrays = mlearn_arrays(6, charge)
    frames = load_mlearn(write_mlearn(tmp_path, element, charge=charge), element)
    assert frames.num_atoms == (2, 1, 2, 2, 2, 1)
    assert frames.species == (charge,)
    for frame, row in zip(frames, arrays["virial_stress"], strict=True):
        xx, yy, zz, xy, first, second = -row / 1602.1766208
        yz, xz = (second, first) if element == "Mo" else (first, second)
        expected = torch.tensor([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        torch.testing.assert_close(frame.stress, expected, **tolerance(torch.float64))
        assert frame.pbc == (True, True, True)
        assert frame.name.endswith("Elastic")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell": np.zeros((6, 3, 3))}, "frame 0: periodic lattice vectors must span a cell"),
        ({"cell": None}, "has no array cell"),
        ({"atom_offset": np.arange(7)}, "atom_offset must be the running sum of n_atoms"),
        ({"atomic_number": np.array(79)}, "order of its stress is known for Li, .* number 79"),
        ({"virial_stress": np.zeros((6, 3))}, r"virial_stress must have shape \(6, 6\)"),
    ],
)
def test_bad_frames_are_named_with_their_file(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_mlearn(write_mlearn(tmp_path, test=6, **changes), "Mo")
    assert "Mo_train.npz" in str(caught.value)


def test_names_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"element must be one of Li, .*, got 'Au'"):
        load_mlearn(tmp_path, "Au")
    with pytest.raises(ValueError, match="part must be train or test"):
        load_mlearn(tmp_path, "Mo", "dev")
    with pytest.raises(ValueError, match=r"Cu_train\.npz: no such file"):
        load_mlearn(tmp_path, "Cu")


# Specification potentials.md, section 1.6: edges at 5 angstrom of the first and of all test frames,
# and those of an atom with its own images.
EDGES = {
    "Li": (1160, 30_454, 200), "Cu": (4768, 139_230, 180), "Mo": (1634, 33_764, 116),
    "Ni": (5228, 156_240, 168), "Si": (1670, 41_008, 0), "Ge": (1664, 38_098, 0),
}  # fmt: skip


def edges(frames):
    found = [neighbor_list(f.positions, 5.0, f.cell, f.pbc).edge_index for f in frames]
    own = sum(int((pairs[0] == pairs[1]).sum()) for pairs in found)
    return found[0].shape[1], sum(pairs.shape[1] for pairs in found), own


@pytest.mark.parametrize("element", EDGES)
def test_the_published_crystals_have_the_specified_neighbors(element):
    frames = load_mlearn(shared_data("mlearn_periodic"), element, "test")
    assert edges(frames) == EDGES[element]


# Section 2.6 and 2.2: training frames and the root mean square force in eV/angstrom.
FORCES = {"Li": (241, 0.257), "Si": (214, 0.874), "Ge": (228, 0.658), "Mo": (194, 1.570)}


@pytest.mark.parametrize("element", FORCES)
def test_the_published_crystals_have_the_specified_forces(element):
    number, expected = FORCES[element]
    frames = load_mlearn(shared_data("mlearn_periodic"), element)
    assert len(frames) == number
    force = frames.stacked_forces().square().mean().sqrt().item()
    assert force == pytest.approx(expected, abs=1e-3)  # three decimals
    heights = [1 / f.cell.inverse().norm(dim=0) for f in frames]
    assert min(float(h.min()) for h in heights) >= 2.36


def test_molybdenum_has_the_specified_neighbors():
    frames = load_mlearn(shared_data("mlearn_periodic"), "Mo")
    _, number, own = edges(frames)
    assert (number, own) == (287_908, 508)
    assert number / sum(frames.num_atoms) == pytest.approx(28.5, abs=0.05)  # one decimal


def missed_work(element: str, order: tuple[tuple[int, int], ...], monkeypatch) -> float:
    """Root mean square of energy differences less the work of stresses, over that of differences.

    Over all pairs of strained cells whose strains differ by at most 5 %, with the strain that is
    odd under exchange of the two, and the mean of both stresses.
    """
    monkeypatch.setitem(STRESS_ORDER, element, order)
    frames = load_mlearn(shared_data("mlearn_periodic"), element)
    strained = [f for f in frames if f.name.endswith("Elastic") and len(f) > 2]
    missed, differences = [], []
    for a, b in itertools.combinations(strained, 2):
        step = a.cell.inverse() @ b.cell
        strain = 0.5 * (step - step.inverse())
        if strain.abs().max() < 0.05:
            work = 0.5 * (a.volume * a.stress + b.volume * b.stress)
            differences.append(b.energy - a.energy)
            missed.append(differences[-1] - float((work * strain).sum()))
    missed, differences = torch.tensor(missed), torch.tensor(differences)
    return float(missed.square().mean().sqrt() / differences.square().mean().sqrt())


@pytest.mark.parametrize("element", ["Mo", "Si", "Ge"])
def test_stresses_do_the_work_that_energies_say_in_the_order_of_the_table_alone(
    element, monkeypatch
):
    # found 3.0, 1.7 and 2.5 per cent; 17 per cent and more with any other order
    known = STRESS_ORDER[element]
    assert missed_work(element, known, monkeypatch) < 0.035
    for shears in itertools.permutations([(0, 1), (0, 2), (1, 2)]):
        if shears != known[3:]:
            other = missed_work(element, (*known[:3], *shears), monkeypatch)
            assert other > 0.12


def test_a_single_shear_of_copper_fixes_its_order():
    # strained along xz by 0.035 alone, component 4 of this frame is -59.7 kbar
    frames = load_mlearn(shared_data("mlearn_periodic"), "Cu", "test")
    kilobars = torch.stack([frame.stress for frame in frames]) * -1602.1766208
    sheared = (kilobars[:, 0, 2] + 59.7).abs().argmin()
    assert kilobars[sheared, 0, 2] == pytest.approx(-59.7, abs=0.05)  # one decimal
    assert kilobars[sheared, 1, 2].abs() < 1
    cell = frames[int(sheared)].cell
    shear = cell / cell.det().abs() ** (1 / 3) - torch.eye(3, dtype=torch.float64)
    strain = 0.5 * (shear + shear.T)
    near = torch.finfo(torch.float32).eps  # cells are more precise
    assert strain[0, 2] == pytest.approx(0.035, abs=near)
    assert strain[[0, 1], [1, 2]].abs().max() < near


def test_all_orders_place_six_different_components():
    for element, order in STRESS_ORDER.items():
        assert len({tuple(sorted(place)) for place in order}) == 6
        stress = stress_matrices(np.arange(6.0)[None], element)[0]
        assert torch.equal(stress, stress.T)
