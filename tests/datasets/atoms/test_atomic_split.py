import pytest
import torch

from equigeo.datasets import load_atomic_split
from equigeo.graphs import neighbor_list
from tests.datasets.atoms.files import write_mlearn, write_qm9, write_rmd17, xyz_frame
from tests.shared_data import shared_data


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
    with pytest.raises(ValueError, match="name one of its sets, benzene, ethanol; got none"):
        load_atomic_split(rmd17)
    with pytest.raises(ValueError, match="got 'water'"):
        load_atomic_split(rmd17, "water")
    with pytest.raises(ValueError, match="is one data set, without others to name"):
        load_atomic_split(rmd17 / "rmd17_ethanol_train_01.npz", "ethanol")
    with pytest.raises(ValueError, match="is one data set, without others to name; got 'H2O'"):
        load_atomic_split(write_qm9(tmp_path / "qm9"), "H2O")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty: expected one train\*\.xyz.*got none"):
        load_atomic_split(tmp_path / "empty")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"a\.txt: expected a file \.npz, \.xyz"):
        load_atomic_split(tmp_path / "a.txt")


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
    with pytest.raises(ValueError, match=r"got train\.xyz, train_2\.xyz"):
        load_atomic_split(tmp_path)
    (tmp_path / "isolated_atoms.xyz").write_text(ALONE.replace("energy={energy}", ""))
    (tmp_path / "train_2.xyz").unlink()
    with pytest.raises(ValueError, match=r"isolated_atoms\.xyz: frame 0 has no energy"):
        load_atomic_split(tmp_path)


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
    with pytest.raises(ValueError, match="name one of its sets, 3BPA, acac, ethanol; got 'water'"):
        botnet("water")
