from __future__ import annotations

import numpy as np
import pytest
import torch

from equigeo.datasets import load_atomic_split, load_rmd17
from equigeo.datasets.atoms import read_frames
from equigeo.datasets.atoms.units import HARTREE, KCAL_PER_MOL, KILOBAR
from equigeo.graphs import neighbor_list
from tests.datasets.atoms.files import rmd17_arrays, write_rmd17
from tests.shared_data import shared_data


def test_kilocalories_become_electronvolts_once(tmp_path):
    arrays = rmd17_arrays()
    frames = load_rmd17(write_rmd17(tmp_path), "ethanol")
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"forces": None}, "has no array forces"),
        ({"forces": NAN}, "frame 0: forces must be finite"),
        ({"energies": np.array([0, 1, 2, np.nan, 4, 5.0])}, "frame 3: the energy must be finite"),
        ({"coords": 0.1 * rmd17_arrays()["coords"]}, "frame 0: two atoms are .* nanometres"),
        ({"coords": np.zeros((6, 5, 3))}, r"coords must have shape \(6, 6, 3\), got \(6, 5, 3\)"),
        ({"energies": np.arange(6)}, "energies must be of the kind f, got int64"),
        ({"nuclear_charges": np.zeros(6, np.uint8)}, "frame 0: atomic numbers must be 1 to 118"),
    ],
)
def test_bad_frames_are_named_with_their_file(tmp_path, changes, message):
    folder = write_rmd17(tmp_path, test=6, **changes)
    with pytest.raises(ValueError, match=message) as caught:
        load_rmd17(folder, "ethanol")
    assert "rmd17_ethanol_train_01.npz" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\3\4nothing", b"\1\2" * 600])
def test_a_damaged_file_is_one_error(tmp_path, content):
    (tmp_path / "rmd17_ethanol_train_01.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"ethanol_train_01\.npz: cannot be read"):
        load_rmd17(tmp_path, "ethanol")


def test_names_and_sizes_are_checked(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"molecule must be one of aspirin, .*, got 'water'"):
        load_rmd17(tmp_path, "water")
    with pytest.raises(ValueError, match="part must be train or test, got 'dev'"):
        load_rmd17(tmp_path, "ethanol", "dev")
    monkeypatch.setattr(read_frames, "MAX_BYTES", 100)
    with pytest.raises(ValueError, match="bytes, more than 100"):
        load_rmd17(write_rmd17(tmp_path), "ethanol")


# Specification potentials.md, sections 1.6, 2.2 and 2.6: edges of the first and of all training
# frames at 5 angstrom, neighbours of an atom; root mean square force in eV/angstrom.
FIGURES = {"ethanol": (72, 72_000, 8.000, 1.20), "aspirin": (294, 302_404, 14.40, 1.26)}


@pytest.mark.parametrize("molecule", FIGURES)
def test_the_published_frames_have_the_specified_neighbors_and_forces(molecule):
    first, number, mean, scale = FIGURES[molecule]
    frames = load_rmd17(shared_data("rmd17"), molecule)
    counts = [neighbor_list(frame.positions, 5.0).num_edges for frame in frames]
    assert (counts[0], sum(counts)) == (first, number)
    assert number / sum(frames.num_atoms) == pytest.approx(mean, abs=5e-3)  # two decimals
    force = frames.stacked_forces().square().mean().sqrt().item()
    assert force == pytest.approx(scale, abs=5e-3)  # two decimals


def test_the_published_forces_and_energies_have_the_specified_spread():
    folder = shared_data("rmd17")
    found = {}
    for molecule in ("benzene", "uracil", "ethanol"):
        frames = load_rmd17(folder, molecule)
        forces = 1e3 * frames.stacked_forces()
        energies = torch.tensor([frame.energy for frame in frames], dtype=torch.float64)
        found[molecule] = forces.square().mean().sqrt().item(), 1e3 * energies.std().item()
        net = torch.stack([frame.forces.sum(0) for frame in frames]).abs().max()
        assert net < 6e-6 * KCAL_PER_MOL
        assert 661 - 1 < forces.abs().mean().item() < 976 + 1
    assert found["benzene"][0] == pytest.approx(909, abs=1)
    assert found["uracil"][0] == pytest.approx(1364, abs=1)
    assert all(107 - 1 < std < 289 + 1 for _, std in found.values())


def test_the_official_split_is_a_thousand_each_without_common_frames():
    split = load_atomic_split(shared_data("rmd17"), "ethanol")
    assert (len(split.train), len(split.tests["test"])) == (1000, 1000)
    keys = [
        {f.positions.numpy().tobytes() for f in part} for part in (split.train, split.tests["test"])
    ]
    assert not keys[0] & keys[1]
