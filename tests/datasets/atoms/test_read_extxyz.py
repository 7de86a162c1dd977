from __future__ import annotations

import sys

import pytest
import torch

from equigeo.datasets import format_extxyz, read_extxyz
from tests.datasets.atoms.files import xyz_frame

pytest.importorskip("ase", reason="needs ase")


def write(folder, *frames):
    path = folder / "frames.xyz"
    path.write_text("".join(frames))
    return path


def test_energies_and_forces_are_read_wherever_ase_puts_them(tmp_path):
    frames = read_extxyz(write(tmp_path, xyz_frame(), xyz_frame("-30")))
    assert [frame.energy for frame in frames] == [-31.5, -30.0]
    assert frames[0].forces.tolist() == [[0.5, 0, 0], [-0.5, 0, 0]]
    assert frames[0].numbers.tolist() == [1, 1]
    assert frames[0].cell is None
    named = xyz_frame().replace("energy", "REF_energy").replace("forces", "dft_forces")
    (frame,) = read_extxyz(write(tmp_path, named), energy="REF_energy", forces="dft_forces")
    assert (frame.energy, frame.forces[0, 0].item()) == (-31.5, 0.5)
    (bare,) = read_extxyz(write(tmp_path, named))
    assert (bare.energy, bare.forces) == (None, None)


CRYSTAL = (
    '1\nLattice="3 0 0 0 3 0 0 0 4" Properties=species:S:1:pos:R:3 energy=-1 {label} pbc="{pbc}"\n'
    "Cu 0 0 0\n"
)
NINE = '"1 6 5 6 2 4 5 4 3"'
EXPECTED = [[1.0, 6, 5], [6, 2, 4], [5, 4, 3]]


def test_stresses_are_read_from_nine_numbers_or_a_virial(tmp_path):
    (frame,) = read_extxyz(write(tmp_path, CRYSTAL.format(label=f"stress={NINE}", pbc="T T T")))
    assert frame.stress.tolist() == EXPECTED
    (frame,) = read_extxyz(write(tmp_path, CRYSTAL.format(label=f"virial={NINE}", pbc="T T T")))
    torch.testing.assert_close(frame.stress * -36, torch.tensor(EXPECTED, dtype=torch.float64))
    (frame,) = read_extxyz(write(tmp_path, CRYSTAL.format(label="", pbc="T T T")))
    assert frame.stress is None
    (slab,) = read_extxyz(write(tmp_path, CRYSTAL.format(label=f"stress={NINE}", pbc="T T F")))
    assert (slab.stress, slab.pbc) == (None, (True, True, False))


def test_what_is_written_is_read_again_to_the_last_digit(tmp_path):
    sources = [
        xyz_frame(length="0.7412345678901234"),
        CRYSTAL.format(label=f"stress={NINE}", pbc="T T T"),
        CRYSTAL.format(label="", pbc="F F F"),
    ]
    frames = [read_extxyz(write(tmp_path, source))[0] for source in sources]
    again = read_extxyz(write(tmp_path, format_extxyz(frames)))
    for one, other in zip(frames, again, strict=True):
        assert (one.energy, one.pbc) == (other.energy, other.pbc)
        for name in ("numbers", "positions", "cell", "forces", "stress"):
            a, b = getattr(one, name), getattr(other, name)
            assert (a is None and b is None) or torch.equal(a, b), name


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (xyz_frame(energy="nan"), "the energy must be finite, got nan"),
        (xyz_frame(force="nan"), "forces must be finite"),
        (xyz_frame(length="0.074"), "two atoms are 0.074 angstrom apart.*nanometres"),
        (xyz_frame(length="0"), "two atoms are 0 angstrom apart"),
        (xyz_frame().replace("energy", "units=kcal/mol energy"), "units must be eV and angstrom"),
        (xyz_frame().replace("energy", "energy_unit=Hartree energy"), "'energy_unit' = 'Hartree'"),
        (xyz_frame().replace("F F F", "T T T"), "periodic axes need a cell, got none"),
        (xyz_frame().replace("H 0 0 0", "Zz 0 0 0"), "cannot be read"),
        ("2\n\nH 0 0 0\n", "cannot be read"),
    ],
)
def test_a_bad_frame_is_named_with_its_number_and_file(tmp_path, frame, message):
    path = write(tmp_path, xyz_frame(), frame)
    with pytest.raises(ValueError, match=message) as caught:
        read_extxyz(path)
    assert str(caught.value).startswith(f"{path}: frame ")
    if "cannot be read" not in message:
        assert f"{path}: frame 1: " in str(caught.value)


def test_units_that_are_ours_are_accepted(tmp_path):
    path = write(tmp_path, xyz_frame().replace("energy", "units=eV energy"))
    assert len(read_extxyz(path)) == 1


def test_files_that_are_none_are_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"nowhere\.xyz: no such file"):
        read_extxyz(tmp_path / "nowhere.xyz")
    with pytest.raises(ValueError, match=r"frames\.xyz: has no frames"):
        read_extxyz(write(tmp_path))
    with pytest.raises(ValueError, match=r"frames\.xyz: frame 0: cannot be read"):
        read_extxyz(write(tmp_path, "\0\1\2" * 100))
    path = write(tmp_path, xyz_frame())
    monkeypatch.setitem(sys.modules, "ase.io", None)
    with pytest.raises(ImportError, match=r"pip install 'ase>=3\.23'"):
        read_extxyz(path)
