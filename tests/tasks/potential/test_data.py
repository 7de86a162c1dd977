from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from equigeo.datasets import AtomicFrames
from equigeo.potentials import AtomicBatch
from equigeo.tasks.potential import AtomicSource, InteratomicPotential, load_frames
from equigeo.tasks.potential.data import check_species
from tests.tasks.potential.frames import CUTOFF, crystals, molecules


def systems(frames):
    return [(f.numbers, f.positions, f.cell, f.pbc) for f in frames]


@pytest.mark.parametrize("frames", [molecules(5), crystals(5)], ids=["molecules", "crystals"])
def test_batches_are_those_of_lists_built_anew(frames):
    source = AtomicSource.of_frames(frames, CUTOFF, torch.float64)
    chosen = [3, 0, 4]
    samples = source.batch(chosen).inputs
    expected = AtomicBatch.from_systems(systems(frames.select(chosen)), CUTOFF, dtype=torch.float64)
    for name in ("numbers", "positions", "pbc", "edge_index", "shifts", "batch", "ptr"):
        assert torch.equal(getattr(samples.atoms, name), getattr(expected, name)), name
    assert (samples.atoms.cell is None) == (expected.cell is None)
    if expected.cell is not None:
        assert torch.equal(samples.atoms.cell, expected.cell)
    for name in ("order", "ptr", "back_order", "back_ptr", "source", "target"):
        found, wanted = (getattr(batch.edges, name) for batch in (samples.atoms, expected))
        assert torch.equal(found, wanted), name
    assert samples.energy.tolist() == [frames[k].energy for k in chosen]
    assert torch.equal(samples.forces, frames.select(chosen).stacked_forces())
    assert samples.counts.tolist() == [len(frames[k]) for k in chosen]


def test_molecules_and_crystals_share_a_batch():
    both = AtomicFrames((*molecules(1), *crystals(2)), "both")
    samples = AtomicSource.of_frames(both, CUTOFF).batch([1, 0, 2]).inputs
    assert samples.atoms.pbc.all(1).tolist() == [True, False, True]
    assert samples.atoms.cell[1].abs().sum() == 0
    assert samples.stress.isnan().all(2).all(1).tolist() == [False, True, False]


def test_few_at_a_time_are_all_in_order(monkeypatch):
    monkeypatch.setattr("equigeo.tasks.potential.data._EDGES", 50)
    source = AtomicSource.of_frames(molecules(7), CUTOFF)
    parts = list(source.few_at_a_time())
    assert len(parts) > 2
    assert torch.cat([part.energy for part in parts]).tolist() == [f.energy for f in molecules(7)]


def test_neighbors_are_counted_on_average():
    source = AtomicSource.of_frames(crystals(4), CUTOFF)
    edges = sum(part.atoms.edge_index.shape[1] for part in source.parts)
    assert source.avg_neighbors == pytest.approx(edges / 6)


def test_labels_that_are_missing_are_not_numbers():
    bare = [replace(f, energy=None, forces=None) for f in molecules(2)]
    samples = AtomicSource.of_frames(AtomicFrames(tuple(bare)), CUTOFF).batch([0, 1]).inputs
    assert bool(samples.energy.isnan().all())
    assert samples.forces.shape == (10, 3)
    assert bool(samples.forces.isnan().all())


def test_validation_frames_are_training_frames_and_the_same_for_every_seed(config):
    data = load_frames(config)
    assert (len(data.train), len(data.validation)) == (8, 4)
    names = [{f.name for f in part} for part in (data.train, data.validation)]
    assert not names[0] & names[1]
    assert names[0] | names[1] == {f.name for f in data.split.train}
    again = load_frames(replace(config, seed=7))
    assert [f.name for f in again.validation] == [f.name for f in data.validation]
    with pytest.raises(ValueError, match="has 12 training frames, too few to put 12"):
        load_frames(replace(config, validation=12))


def test_labels_that_are_to_be_learned_are_needed(config, tmp_path):
    path = tmp_path / "train.xyz"
    pytest.importorskip("ase", reason="needs ase")
    good = '2\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-1 pbc="F F F"\n' \
        "H 0 0 0 1 0 0\nH 0.8 0 0 -1 0 0\n"  # fmt: skip
    bare = '2\nProperties=species:S:1:pos:R:3 energy=-1 pbc="F F F"\nH 0 0 0\nH 0.8 0 0\n'
    path.write_text(good * 5 + bare + good)
    config = replace(config, data=str(path), subset="", validation=2)
    with pytest.raises(ValueError, match=r"train\.xyz: frame 5 has no forces \(1 of 7"):
        load_frames(config)
    assert len(load_frames(replace(config, forces_weight=0.0)).train) == 5
    path.write_text(good + bare.replace("energy=-1", ""))
    with pytest.raises(ValueError, match=r"train\.xyz: frame 1 has no energy"):
        load_frames(replace(config, validation=1))


def test_unknown_elements_and_too_many_edges_name_the_frame():
    frames = molecules(2)
    with pytest.raises(ValueError, match="chains: frame 0 has C, and the potential knows H alone"):
        check_species(frames, (1,), "H")
    check_species(frames, (1, 6, 8), "H C O")
    with pytest.raises(ValueError, match="crystals: frame 0: "):
        AtomicSource.of_frames(crystals(1), 1e6)


def test_a_bad_frame_stops_a_run_before_anything_is_written(config, folder, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in folder.iterdir():
        arrays = dict(np.load(file))
        arrays["forces"][5, 0] = np.nan
        np.savez(broken / file.name, **arrays)
    with pytest.raises(ValueError, match=r"ethanol_\w+_01\.npz: frame 5: forces must be finite"):
        InteratomicPotential().train(replace(config, data=str(broken)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
