import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from equigeo.datasets import (
    AtomicFrame,
    AtomicFrames,
    format_extxyz,
    load_atomic_split,
    read_extxyz,
)
from equigeo.datasets.atoms.frames import HEAVIEST, SYMBOLS, symbol
from equigeo.graphs import neighbor_list
from tests.datasets.atoms.files import write_mlearn, write_qm9, write_rmd17, xyz_frame
from tests.shared_data import shared_data
from tests.wrong_inputs import refused

EYE = torch.eye(3, dtype=torch.float64)
WATER = {"numbers": torch.tensor([8, 1, 1]), "positions": EYE}


def test_a_frame_says_what_it_is_and_which_axes_need_a_vector():
    frame = AtomicFrame(**WATER, cell=9 * EYE, pbc=(True,) * 3, energy=-1.0, forces=EYE, stress=EYE)
    assert repr(frame) == "AtomicFrame(H2O, periodic TTT, energy, forces, stress)"
    assert (len(frame), frame.volume) == (3, pytest.approx(729))
    assert AtomicFrame(**WATER, cell=9 * EYE).volume is None
    ethanol = AtomicFrame(torch.tensor([6, 8, 1, 6]), torch.rand(4, 3, dtype=torch.float64))
    assert ethanol.formula == "C2HO"
    slab = torch.tensor([[3.0, 0, 0], [0, 3, 0], [0, 0, 0]], dtype=torch.float64)
    assert AtomicFrame(**WATER, cell=slab, pbc=(True, True, False)).volume is None
    refused("must span a cell", AtomicFrame, **WATER, cell=slab, pbc=(False, True, True))
    with pytest.raises(TypeError, match=r"positions must be torch\.float64, got torch\.float32"):
        AtomicFrame(**(WATER | {"positions": EYE.float()}))


def test_symbols_are_those_of_the_elements():
    assert (len(SYMBOLS), HEAVIEST) == (119, 118)
    assert [SYMBOLS[z] for z in (1, 6, 8, 14, 29, 42, 118)] == "H C O Si Cu Mo Og".split()
    assert (symbol(0), symbol(119)) == ("0", "119")
    assert len(set(SYMBOLS)) == 119
    data = pytest.importorskip("ase.data", reason="needs ase")
    assert list(SYMBOLS) == list(data.chemical_symbols)


NAN = torch.full((3, 3), float("nan"), dtype=torch.float64)
FLAT = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=torch.float64)


def test_what_does_not_fit_together_is_refused():
    for changes, message in (
        ({"positions": EYE[:2]}, r"positions must have shape \(3, 3\), got \(2, 3\)"),
        ({"positions": NAN}, "positions must be finite"),
        ({"numbers": torch.tensor([8, 1, 0])}, "atomic numbers must be 1 to 118, got 0 to 8"),
        ({"numbers": torch.tensor([8, 1, 119])}, "got 1 to 119"),
        ({"numbers": torch.zeros(0, dtype=torch.long), "positions": EYE[:0]}, "got none"),
        ({"energy": float("inf")}, "energy must be finite, got inf"),
        ({"forces": NAN}, "forces must be finite"),
        ({"forces": EYE[:1]}, r"forces must have shape \(3, 3\), got \(1, 3\)"),
        ({"pbc": (True, True, True)}, "periodic axes need a cell, got none"),
        ({"pbc": (True, True, True), "cell": FLAT}, "must span a cell"),
        ({"pbc": (True, False, False), "cell": torch.zeros(3, 3).double()}, "must span a cell"),
        ({"pbc": (True, True)}, "pbc must be three flags"),
        ({"stress": EYE}, "a stress needs a periodic axis, got none"),
        ({"stress": EYE, "cell": EYE}, "a stress needs a periodic axis"),
        ({"stress": EYE, "cell": FLAT, "pbc": (True, False, False)}, "a cell with a volume"),
    ):
        refused(message, AtomicFrame, **WATER | changes)


def test_frames_are_a_sequence():
    bare, full = AtomicFrame(**WATER), AtomicFrame(**WATER, energy=1.0, forces=2 * EYE)
    frames = AtomicFrames((full, bare, full), "three")
    assert repr(frames) == "AtomicFrames('three', 3 frames, 3 to 3 atoms of H O)"
    assert [*frames] == [full, bare, full]
    assert frames[1] is bare
    assert frames[::2].frames == (full, full) == frames.select([2, 0]).frames
    assert frames.lacking("forces") == [1]
    refused(r"three: frame 1 has no energy \(1 of 3 frames", frames.require, "energy")
    refused("label must be one of energy, forces, stress, got 'x'", frames.require, "x")
    assert torch.equal(frames[::2].stacked_forces(), torch.cat([2 * EYE, 2 * EYE]))
    with pytest.raises(ValueError, match="three: has no frames"):
        frames[3:]
    refused("frames are missing", AtomicFrames, ())


pytest.importorskip("ase", reason="needs ase")


def write(folder, *frames):
    path = folder / "frames.xyz"
    path.write_text("".join(frames))
    return path


def read(folder, *frames, **keys):
    return read_extxyz(write(folder, *frames), **keys)


def test_energies_and_forces_are_read_wherever_ase_puts_them(tmp_path):
    frames = read(tmp_path, xyz_frame(), xyz_frame("-30"))
    assert [frame.energy for frame in frames] == [-31.5, -30.0]
    assert frames[0].forces.tolist() == [[0.5, 0, 0], [-0.5, 0, 0]]
    assert frames[0].numbers.tolist() == [1, 1]
    assert frames[0].cell is None
    named = xyz_frame().replace("energy", "REF_energy").replace("forces", "dft_forces")
    (frame,) = read(tmp_path, named, energy="REF_energy", forces="dft_forces")
    assert (frame.energy, frame.forces[0, 0].item()) == (-31.5, 0.5)
    other = xyz_frame().replace("energy", "my_energy").replace("forces", "F")
    (bare,) = frames = read(tmp_path, other)
    assert (bare.energy, bare.forces, bare.info["my_energy"]) == (None, None, -31.5)
    message = r"no frame has 'E' for energy; the file has F, my_energy"
    refused(message, read, tmp_path, other, energy="E")
    refused(r"frame 0 has no forces .*; the file has F, my_energy", frames.require, "forces")


def test_usual_names_of_labels_are_known(tmp_path):
    for energy, forces in product(
        ("REF_energy", "energy_ref", "dft_energy", "TotEnergy", "free_energy", "DFT_energy"),
        ("REF_forces", "force", "dft_forces", "forces_ref"),
    ):
        named = xyz_frame().replace("energy", energy).replace("forces", forces)
        (frame,) = read(tmp_path, named)
        assert (frame.energy, frame.forces[0, 0].item()) == (-31.5, 0.5)


def test_one_name_of_a_label_counts_for_a_whole_file(tmp_path):
    frames = read(tmp_path, xyz_frame(), xyz_frame("-30").replace("energy", "dft_energy"))
    assert [frame.energy for frame in frames] == [-31.5, None]
    smeared = xyz_frame().replace("energy", "energy=-7 free_energy")
    assert read(tmp_path, smeared)[0].energy == -7.0
    clash = xyz_frame().replace("energy", "energy=-7 REF_energy")
    refused("frame 0 has energy and REF_energy, which differ; name", read, tmp_path, clash)
    assert read(tmp_path, clash, energy="REF_energy")[0].energy == -31.5


def test_a_selected_frame_is_named_by_its_number_in_the_file(tmp_path):
    bare = xyz_frame().replace("energy", "other")
    frames = read(tmp_path, *[xyz_frame()] * 4, bare).select([3, 4, 0])
    refused(r"frames\.xyz: frame 4 has no energy \(1 of 3", frames.require, "energy")
    for name in ("7 of another", "frames.xyz", "frames.xyz x", "my frames.xyz 7"):
        unnamed = AtomicFrames((frames[0], replace(frames[1], name=name)), "frames.xyz")
        refused(r"frames\.xyz: frame 1 has no energy", unnamed.require, "energy")
    for name in ("md@300K.xyz", "train.xyz@600K.xyz", "a@1.xyz"):  # a sign that is no index
        write(tmp_path, xyz_frame("-1")).rename(tmp_path / name.partition("@")[0])
        write(tmp_path, xyz_frame("-30"), xyz_frame("-29")).rename(tmp_path / name)
        assert [frame.energy for frame in read_extxyz(tmp_path / name)] == [-30.0, -29.0]


CARBON = "1\nProperties=species:S:1:pos:R:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"99999999999{CARBON[1:]} energy=1\nC 0 0 0\n", "announces 9999999"),
        (f"{CARBON}:forces:R:999999999999\nC 0 0 0\n", "fewer than 10000"),
        (xyz_frame() + "3\n\nH 0 0 0\n", "frame 1: announces 3 atoms, has 1"),
        (f"{xyz_frame()}{CARBON} energy=1\nC 0 0 0 5.0\n",
         "frame 1: atom 0 has 5 columns, Properties announce 4"),
        (f'{CARBON} Lattice="9 0 0 0 9 0 0 0 9 energy=1\nC 0 0 0\n',
         "frame 0: has a quote that is not closed"),
    ],
    ids=["atoms", "columns", "cut", "surplus", "quote"],
)  # fmt: skip
def test_counts_are_compared_before_anything_is_read(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr("ase.io.iread", lambda *_, **__: pytest.fail("reads"))
    refused(message, read, tmp_path, text)


def crystal(label="", pbc="T T T"):
    return (
        '1\nLattice="3 0 0 0 3 0 0 0 4" Properties=species:S:1:pos:R:3 energy=-1 '
        f'{label} pbc="{pbc}"\nCu 0 0 0\n'
    )


NINE = '"1 6 5 6 2 4 5 4 3"'
EXPECTED = [[1.0, 6, 5], [6, 2, 4], [5, 4, 3]]


def test_stresses_are_read_from_nine_numbers_or_a_virial(tmp_path):
    for name in ("stress", "REF_stress"):
        assert read(tmp_path, crystal(f"{name}={NINE}"))[0].stress.tolist() == EXPECTED
    for name in ("virial", "virials", "REF_virials"):
        (frame,) = read(tmp_path, crystal(f"{name}={NINE}"))
        torch.testing.assert_close(frame.stress * -36, torch.tensor(EXPECTED, dtype=torch.float64))
    assert read(tmp_path, crystal())[0].stress is None
    (slab,) = read(tmp_path, crystal(f"stress={NINE}", "T T F"))
    assert (slab.stress.tolist(), slab.pbc) == (EXPECTED, (True, True, False))


def test_stresses_and_virials_of_one_frame_must_agree(tmp_path):
    def stress_beside(other, name="virials", **keys):
        text = crystal(f"stress={NINE} {name}={other}")
        return read(tmp_path, text, **keys)[0].stress.tolist()

    assert stress_beside('"-36 -216 -180 -216 -72 -144 -180 -144 -108"') == EXPECTED
    assert stress_beside('"-36.4 -216 -180 -216 -72 -144 -180 -144 -108"') == EXPECTED
    for other in ('"36 216 180 216 72 144 180 144 108"', NINE):  # another sign, another unit
        refused("frame 0: stress and virial disagree", stress_beside, other)
        assert stress_beside(other, stress="stress") == EXPECTED
    for same in (NINE, '"1 2 3 4 5 6"'):
        assert stress_beside(same, "REF_stress") == EXPECTED
    for other in (NINE.replace("3", "9"), '"1 2 9 4 5 6"'):
        message = "frame 0 has stress and REF_stress, which differ"
        refused(message, stress_beside, other, "REF_stress")


KEPT = 'config_type="a \\"b\\" c" id=7 ok=T dipole="0.1 0.2 0.3" names="_JSON [\\"x\\", 1]"'


def test_what_is_written_is_read_again_to_the_last_digit(tmp_path):
    sources = [
        xyz_frame(length="0.7412345678901234"),
        crystal(f"stress={NINE}"),
        crystal(pbc="F F F"),
        crystal(KEPT, "F F F").replace("R:3", "R:3:spin:I:2:tag:S:1", 1)[:-1] + " 1 -2 up\n",
    ]
    frames = [read(tmp_path, source)[0] for source in sources]
    again = read(tmp_path, format_extxyz(frames))
    for one, other in zip(frames, again, strict=True):
        assert (one.energy, one.pbc) == (other.energy, other.pbc)
        for name in ("numbers", "positions", "cell", "forces", "stress"):
            a, b = getattr(one, name), getattr(other, name)
            assert (a is None and b is None) or torch.equal(a, b), name
        assert str(one.info) == str(other.info)
        assert str(one.columns) == str(other.columns)
    assert frames[-1].info["config_type"] == 'a "b" c'
    assert frames[-1].columns["spin"].tolist() == [[1, -2]]
    assert len(frames[-1].info) == 5


def test_a_bad_frame_is_named_with_its_number_and_file(tmp_path):
    for frame, message in (
        (xyz_frame(energy="nan"), "the energy must be finite, got nan"),
        (xyz_frame(force="nan"), "forces must be finite"),
        (xyz_frame(length="0.074"), "two atoms are 0.074 angstrom apart.*nanometers"),
        (xyz_frame(length="0"), "two atoms are 0 angstrom apart"),
        (xyz_frame().replace("energy", "units=kcal/mol energy"), "units must be eV and angstrom"),
        (xyz_frame().replace("energy", "energy_unit=Hartree energy"), "'energy_unit' = 'Hartree'"),
        (xyz_frame().replace("F F F", "T T T"), "periodic axes need a cell, got none"),
        (xyz_frame().replace("H 0 0 0", "Zz 0 0 0"), "cannot be read"),
        ("2\n\nH 0 0 0\n", "announces 2 atoms, has 1"),
    ):
        path = write(tmp_path, xyz_frame(), frame)
        text = refused(message, read_extxyz, path)
        assert text.startswith(f"{path}: frame ")
        if "cannot be read" not in message:
            assert f"{path}: frame 1: " in text


@pytest.mark.parametrize("label", ["stress", "virial"])
@pytest.mark.parametrize(
    ("text", "energy", "length", "forces", "stress"),
    [
        ("hartree bohr", "Hartree", "Bohr", None, None),
        ("kJ/mol nm", "kJ/mol", "nm", None, None),
        ("Hartree A hartree/Bohr GPa", "Hartree", "Angstrom", "Hartree/Bohr", "GPa"),
    ],
)
def test_files_in_other_units_are_converted(tmp_path, label, text, energy, length, forces, stress):
    pytest.importorskip("ase", reason="needs ase")
    from ase import Atoms, units
    from ase.io import write

    def value(unit):
        above, _, below = unit.partition("/")
        return getattr(units, above) / (getattr(units, below) if below else 1.0)

    e, x = value(energy), value(length)
    f, s = value(forces) if forces else e / x, value(stress) if stress else e / x**3
    cell, given = 3.0 * np.eye(3), {"stress": 0.02 / s, "virial": -0.02 * 27 / e}[label]
    atoms = Atoms("OH", [(0, 0, 0), (0, 0, 1 / x)], cell=cell / x, pbc=True)
    atoms.info |= {"energy": -3.0 / e, label: given * np.eye(3), "units": text}
    atoms.info["REF_energy"] = atoms.info["energy"]
    atoms.arrays["forces"] = np.full((2, 3), 0.7) / f
    write(tmp_path / "a.xyz", atoms, format="extxyz")
    (frame,) = read_extxyz(tmp_path / "a.xyz", units=text)
    near = {"rel": 1e-6}  # eight digits are written, and constants are of two years
    assert frame.energy == pytest.approx(-3.0, **near)
    assert frame.positions[1, 2].item() == pytest.approx(1.0, **near)
    assert frame.cell[0, 0].item() == pytest.approx(3.0, **near)
    assert frame.forces[1, 2].item() == pytest.approx(0.7, **near)
    assert frame.stress[0, 0].item() == pytest.approx(0.02, **near)
    # What was converted does not stand beside it in the units of the file.
    (tmp_path / "b.xyz").write_text(format_extxyz([frame]))
    (again,) = read_extxyz(tmp_path / "b.xyz")
    assert (again.energy, again.stress.tolist()) == (frame.energy, frame.stress.tolist())
    refused("units must be eV and angstrom", read_extxyz, tmp_path / "a.xyz")
    for wrong in ("hartree", "MeV A", "bohr hartree", f"{text} eV", "eV A eV/parsec", " "):
        refused("units must be an energy", read_extxyz, tmp_path / "a.xyz", units=wrong)


def test_files_that_are_none_are_named_and_our_own_units_are_accepted(tmp_path, monkeypatch):
    refused(r"nowhere\.xyz: no such file", read_extxyz, tmp_path / "nowhere.xyz")
    assert len(read(tmp_path, xyz_frame().replace("energy", "units=eV energy"))) == 1
    refused(r"frames\.xyz: has no frames", read, tmp_path)
    refused(r"frames\.xyz: frame 0: cannot be read", read, tmp_path, "\0\1\2" * 100)
    path = write(tmp_path, xyz_frame())
    monkeypatch.setitem(sys.modules, "ase.io", None)
    refused(r"pip install 'ase>=3\.23'", read_extxyz, path, error=ImportError)


def test_every_layout_is_known(tmp_path):
    rmd17 = write_rmd17(tmp_path / "rmd17")
    split = load_atomic_split(rmd17, "ethanol")
    assert repr(split) == "AtomicSplit('rMD17 ethanol', train: 6, test: 4)"
    one = load_atomic_split(rmd17 / "rmd17_ethanol_train_01.npz")
    assert (len(one.train), len(one.tests["test"])) == (6, 4)
    assert load_atomic_split(rmd17 / "rmd17_ethanol_test_01.npz").tests == {}

    mlearn = write_mlearn(tmp_path / "mlearn")
    assert repr(load_atomic_split(mlearn, "Mo")) == "AtomicSplit('mlearn Mo', train: 6, test: 4)"
    assert len(load_atomic_split(mlearn / "Mo_train.npz").tests["test"]) == 4
    write_mlearn(tmp_path / "mlearn", "Li", charge=3)
    assert "shear labels" in load_atomic_split(mlearn, "Li").remark

    split = load_atomic_split(write_qm9(tmp_path / "qm9"))
    assert (len(split.train), len(split.tests["test"])) == (16, 4)
    again = load_atomic_split(tmp_path / "qm9" / "qm9_20k.npz")
    assert [f.name for f in again.train] == [f.name for f in split.train]


def test_sets_that_are_not_named_are_listed(tmp_path):
    rmd17 = write_rmd17(tmp_path / "rmd17")
    write_rmd17(rmd17, "benzene")
    refused("name one of its sets, benzene, ethanol; got none", load_atomic_split, rmd17)
    refused("got 'water'", load_atomic_split, rmd17, "water")
    qm9, single = write_qm9(tmp_path / "qm9"), "is one data set, without others to name; got "
    refused(single, load_atomic_split, rmd17 / "rmd17_ethanol_train_01.npz", "ethanol")
    refused(f"{single}'H2O'", load_atomic_split, qm9, "H2O")
    (tmp_path / "empty").mkdir()
    refused(r"empty: expected one train\*\.xyz.*got none", load_atomic_split, tmp_path / "empty")
    (tmp_path / "a.txt").write_text("")
    refused(r"a\.txt: expected a file \.npz, \.xyz", load_atomic_split, tmp_path / "a.txt")


def test_a_tenth_of_a_single_file_is_for_testing(tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    file = tmp_path / "mine.xyz"
    file.write_text("".join(xyz_frame(energy=str(k)) for k in range(25)))
    split, again = load_atomic_split(file), load_atomic_split(file)
    energies = [[f.energy for f in part] for part in (split.train, split.tests["test"])]
    assert [len(part) for part in energies] == [23, 2]
    assert sorted(energies[0] + energies[1]) == list(range(25))
    assert energies == [[f.energy for f in part] for part in (again.train, again.tests["test"])]
    assert "2 frames drawn at random are the test set" in split.remark
    file.write_text(xyz_frame() * 9)
    assert load_atomic_split(file).tests == {}


ALONE = '1\nProperties=species:S:1:pos:R:3 energy={energy} pbc="F F F"\nH 0 0 0\n'


def test_isolated_atoms_are_references_and_not_trained_on(tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    (tmp_path / "train.xyz").write_text(xyz_frame() + ALONE.format(energy=-13.5) + xyz_frame())
    (tmp_path / "test_hot.xyz").write_text(xyz_frame())
    split = load_atomic_split(tmp_path)
    assert (len(split.train), split.isolated, [*split.tests]) == (2, {1: -13.5}, ["test_hot"])
    (tmp_path / "train.xyz").write_text(xyz_frame())
    (tmp_path / "isolated_atoms.xyz").write_text(ALONE.format(energy=-13.6))
    assert load_atomic_split(tmp_path).isolated == {1: -13.6}
    (tmp_path / "train_2.xyz").write_text(xyz_frame())
    refused(r"got train\.xyz, train_2\.xyz", load_atomic_split, tmp_path)
    (tmp_path / "isolated_atoms.xyz").write_text(ALONE.replace("energy={energy}", ""))
    (tmp_path / "train_2.xyz").unlink()
    refused(r"isolated_atoms\.xyz: frame 0 has no energy", load_atomic_split, tmp_path)


def force_rms(frames):
    return 1e3 * frames.stacked_forces().square().mean().sqrt().item()


@pytest.fixture(scope="module")
def botnet(tmp_path_factory):
    pytest.importorskip("ase", reason="needs ase")
    folder = shared_data("botnet_3bpa_acac_ethanol")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIGEO_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield lambda name: load_atomic_split(folder, name)


# Specification potentials.md, sections 2.2 and 2.6.
def test_3bpa_is_read_with_its_temperatures_and_isolated_atoms(botnet):
    split = botnet("3BPA")
    assert (len(split.train), set(split.train.num_atoms)) == (500, {27})
    assert split.isolated == {
        1: -13.587222780835477, 6: -1029.4889999855063, 7: -1484.9814568572233,
        8: -2041.9816003861047,
    }  # fmt: skip
    energies = torch.tensor([f.energy for f in split.train], dtype=torch.float64)
    assert 1e3 * energies.std().item() == pytest.approx(165, abs=1)
    assert force_rms(split.train) == pytest.approx(948, abs=1)
    edges = sum(neighbor_list(f.positions, 5.0).num_edges for f in split.train)
    # 16.72 over all 500 frames, where the specification says 16.6
    assert edges / sum(split.train.num_atoms) == pytest.approx(16.6, abs=0.15)
    # 22 of the 84 frames at 300 K are among those to train on
    sizes = {name: len(part) for name, part in split.tests.items()}
    assert sizes == {"300 K": 62, "600 K": 83, "1200 K": 83}
    forces = [force_rms(part) for part in split.tests.values()]
    assert forces == sorted(forces)
    known = {f.positions.numpy().tobytes() for f in split.train}
    tested = [f.positions.numpy().tobytes() for part in split.tests.values() for f in part]
    assert not known & set(tested)
    assert "not the official test frames" in split.remark
    assert split.train[0].pbc == (False, False, False)


def test_official_test_frames_of_3bpa_are_taken_where_they_are(tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    folder = tmp_path / "dataset_3BPA"
    folder.mkdir()
    for name in ("train_300K", "train_mixedT", "test_300K", "test_1200K"):
        (folder / f"{name}.xyz").write_text(xyz_frame())
    split = load_atomic_split(tmp_path, "3BPA")
    assert set(split.tests) == {"test_300K", "test_1200K"}
    assert split.remark == ""


def test_acetylacetone_is_read_with_its_tests(botnet):
    split = botnet("acac")
    sizes = {name: len(part) for name, part in split.tests.items()}
    assert sizes == {
        "test_H_transfer": 15, "test_MD_300K": 650, "test_MD_600K": 650, "test_dihedral": 45,
    }  # fmt: skip
    assert len(split.train) == 500
    assert force_rms(split.tests["test_MD_300K"]) == pytest.approx(1041, abs=1)
    assert force_rms(split.tests["test_MD_600K"]) == pytest.approx(1366, abs=1)
    assert len(split.tests["test_dihedral"].lacking("forces")) == 45
    assert split.isolated[6] == pytest.approx(-1026.853899612, abs=1e-9)  # nine decimals
    edges = sum(neighbor_list(f.positions, 5.0).num_edges for f in split.train)
    assert edges / sum(split.train.num_atoms) == pytest.approx(12.1, abs=0.05)  # one decimal


def test_the_ethanol_of_that_archive_is_read(botnet):
    split = botnet("ethanol")
    assert (len(split.train), len(split.tests["test_dimers"])) == (1000, 429)
    assert set(split.tests["test_dimers"].num_atoms) == {2}
    refused("name one of its sets, 3BPA, acac, ethanol; got 'water'", botnet, "water")
