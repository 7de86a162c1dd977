import itertools

import numpy as np
import pytest
import torch

from equigeo.datasets import load_atomic_split
from equigeo.datasets.atoms.published import (
    HARTREE,
    KCAL_PER_MOL,
    KILOBAR,
    STRESS_ORDER,
    load_mlearn,
    load_qm9,
    load_rmd17,
    stress_matrices,
)
from equigeo.graphs import neighbor_list
from equigeo.testing import tolerance
from tests.datasets.atoms import files
from tests.shared_data import shared_data
from tests.wrong_inputs import refused


def test_hartrees_become_electronvolts_and_missing_properties_are_named(tmp_path):
    for name, column in (("U0", 1), ("U", 2)):
        frames = load_qm9(files.write_qm9(tmp_path), name)
        # One product, rounded by at most half of epsilon on either side.
        assert [f.energy for f in frames[:2]] == pytest.approx(
            [27.211386024367243 * column, 27.211386024367243 * (3 + column)], rel=1e-15
        )
    assert frames[3].name == "QM9 3"
    assert (frames[0].formula, frames[0].forces) == ("H2O", None)
    assert frames[0].positions.dtype == torch.float64
    refused("has no Enthalphy_298K_au", load_qm9, files.write_qm9(tmp_path), "H")
    refused("energy must be one of U0, U, H, G, got 'gap'", load_qm9, tmp_path, "gap")
    broken = files.write_qm9(tmp_path / "b", position=np.full((60, 3), np.nan, np.float32))
    refused(r"qm9_20k\.npz: frame 0: positions must be finite", load_qm9, broken)


@pytest.mark.full
def test_the_published_molecules_have_the_specified_reference_energies():
    split = load_atomic_split(shared_data("qm9"))
    assert (len(split.train), len(split.tests["test"])) == (16_000, 4_000)
    frames = [*split.train, *split.tests["test"]]
    assert len({frame.name for frame in frames}) == 20_000
    elements = (1, 6, 7, 8, 9)
    counts = torch.stack(
        [torch.stack([(f.numbers == z).sum() for z in elements]) for f in frames]
    ).double()
    assert counts.sum(1).mean().item() == pytest.approx(18.0, abs=0.05)  # one decimal
    energies = torch.tensor([frame.energy for frame in frames], dtype=torch.float64)
    found = torch.linalg.lstsq(counts, energies[:, None]).solution[:, 0]
    # Specification potentials.md, section 2.2
    expected = [-16.4274, -1036.0526, -1489.7957, -2046.9861, -2717.4821]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)  # four decimals
    rest = energies - counts @ found
    assert rest.std().item() == pytest.approx(1.093, abs=1e-3)  # three decimals
    assert rest.abs().mean().item() == pytest.approx(0.862, abs=1e-3)  # three decimals


def test_kilocalories_become_electronvolts_once(tmp_path):
    arrays = files.rmd17_arrays()
    frames = load_rmd17(files.write_rmd17(tmp_path), "ethanol")
    assert len(frames) == 6
    frame = frames[2]
    # The unit is 0.04336410390: its sixth digit is followed by a zero.
    assert frame.energy == pytest.approx(arrays["energies"][2] * 0.0433641, rel=1e-7)
    assert torch.equal(frame.positions, torch.from_numpy(arrays["coords"][2]))
    expected = torch.from_numpy(arrays["forces"][2]) * KCAL_PER_MOL
    # One product, rounded by half of epsilon.
    torch.testing.assert_close(frame.forces, expected, rtol=1e-15, atol=0)
    assert frame.numbers.tolist() == [6, 6, 1, 1, 1, 1]
    assert (frame.pbc, frame.cell, frame.stress) == ((False,) * 3, None, None)


def test_units_are_those_of_ase():
    units = pytest.importorskip("ase.units", reason="needs ase")
    near = 1e-15  # products of the same constants of CODATA 2014, some epsilon apart
    assert pytest.approx(units.kcal / units.mol, rel=near) == KCAL_PER_MOL
    assert pytest.approx(units.Hartree, rel=near) == HARTREE
    # The kilobar is written with eleven digits.
    assert pytest.approx(0.1 * units.GPa, rel=1e-10) == KILOBAR


NAN = np.full((6, 6, 3), np.nan)


def test_bad_frames_are_named_with_their_file(tmp_path):
    for changes, message in (
        ({"forces": None}, "has no array forces"),
        ({"forces": NAN}, "frame 0: forces must be finite"),
        ({"energies": np.array([0, 1, 2, np.nan, 4, 5.0])}, "frame 3: the energy must be finite"),
        ({"coords": 0.1 * files.rmd17_arrays()["coords"]}, "frame 0: two atoms are .* nanometers"),
        ({"coords": np.zeros((6, 5, 3))}, r"coords must have shape \(6, 6, 3\), got \(6, 5, 3\)"),
        ({"energies": np.arange(6)}, "energies must be floating, got int64"),
        ({"nuclear_charges": np.zeros(6, np.uint8)}, "frame 0: atomic numbers must be 1 to 118"),
        ({"cell": np.zeros((6, 3, 3))}, "frame 0: periodic lattice vectors must span a cell"),
        ({"cell": None}, "has no array cell"),
        ({"atom_offset": np.arange(7)}, "atom_offset must be the running sum of n_atoms"),
        ({"atomic_number": np.array(79)}, "order of its stress is known for Li, .* number 79"),
        ({"virial_stress": np.zeros((6, 3))}, r"virial_stress must have shape \(6, 6\)"),
    ):
        crystals = changes.keys() <= files.mlearn_arrays().keys()
        write, load, name, file = (
            (files.write_mlearn, load_mlearn, "Mo", "Mo_train.npz")
            if crystals
            else (files.write_rmd17, load_rmd17, "ethanol", "rmd17_ethanol_train_01.npz")
        )
        assert file in refused(message, load, write(tmp_path, test=6, **changes), name)


def test_names_are_checked(tmp_path):
    refused(r"element must be one of Li, .*, got 'Au'", load_mlearn, tmp_path, "Au")
    refused("part must be train or test", load_mlearn, tmp_path, "Mo", "dev")
    refused(r"Cu_train\.npz: no such file", load_mlearn, tmp_path, "Cu")
    refused(r"molecule must be one of aspirin, .*, got 'water'", load_rmd17, tmp_path, "water")
    refused("part must be train or test, got 'dev'", load_rmd17, tmp_path, "ethanol", "dev")


# Specification potentials.md, sections 1.6 and 2.2: root mean square force in eV/angstrom.
FIGURES = {"ethanol": 1.20, "aspirin": 1.26, "benzene": 0.909, "uracil": 1.364}


@pytest.mark.parametrize("molecule", FIGURES)
def test_the_published_frames_have_the_specified_forces(molecule):
    frames = load_rmd17(shared_data("rmd17"), molecule)
    force = frames.stacked_forces().square().mean().sqrt().item()
    assert force == pytest.approx(FIGURES[molecule], abs=5e-3)  # two decimals


def test_the_official_split_is_a_thousand_each_without_common_frames():
    split = load_atomic_split(shared_data("rmd17"), "ethanol")
    assert (len(split.train), len(split.tests["test"])) == (1000, 1000)
    keys = [
        {f.positions.numpy().tobytes() for f in part} for part in (split.train, split.tests["test"])
    ]
    assert not keys[0] & keys[1]


@pytest.mark.parametrize(("element", "charge"), [("Mo", 42), ("Si", 14)])
def test_pressures_in_kilobars_become_stresses(tmp_path, element, charge):
    arrays = files.mlearn_arrays(6, charge=charge)
    frames = load_mlearn(files.write_mlearn(tmp_path, element, charge=charge), element)
    assert frames.num_atoms == (2, 1, 2, 2, 2, 1)
    assert frames.species == (charge,)
    for frame, row in zip(frames, arrays["virial_stress"], strict=True):
        xx, yy, zz, xy, first, second = -row / 1602.1766208
        yz, xz = (second, first) if element == "Mo" else (first, second)
        expected = torch.tensor([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        torch.testing.assert_close(frame.stress, expected, **tolerance(torch.float64))
        assert frame.pbc == (True, True, True)
        assert frame.name.endswith("Elastic")


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


def test_the_published_crystals_are_read_with_neighbors_and_orders():
    frames = load_mlearn(shared_data("mlearn_periodic"), "Mo")
    found = [neighbor_list(f.positions, 5.0, f.cell, f.pbc).edge_index for f in frames]
    number = sum(pairs.shape[1] for pairs in found)
    assert (number, sum(int((pairs[0] == pairs[1]).sum()) for pairs in found)) == (287_908, 508)
    assert number / sum(frames.num_atoms) == pytest.approx(28.5, abs=0.05)  # one decimal
    for element, order in STRESS_ORDER.items():
        assert len({tuple(sorted(place)) for place in order}) == 6
        stress = stress_matrices(np.arange(6.0)[None], element)[0]
        assert torch.equal(stress, stress.T)


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
def test_stresses_match_energies_in_the_order_of_the_table_alone(element, monkeypatch):
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
