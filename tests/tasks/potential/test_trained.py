from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from equigeo.datasets import AtomicFrames
from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig
from equigeo.tasks.potential import (
    AtomicSource,
    FrameErrors,
    evaluate_potential,
    load_frames,
    measure_errors,
    potential_table,
)
from equigeo.tasks.potential.trained import format_predictions
from equigeo.testing import tolerance
from tests.tasks.potential.frames import CUTOFF, crystals, molecules


def test_predictions_are_those_of_the_model_frame_by_frame(trained):
    both = AtomicFrames((*molecules(2, seed=5), *crystals(2)), "both")
    found = trained.predict_frames(both)
    bound = tolerance(torch.float32, 4)
    for frame, predicted in zip(both, found, strict=True):
        system = (frame.numbers, frame.positions, frame.cell, frame.pbc)
        alone = trained.model(AtomicBatch.from_systems([system], CUTOFF), stress=True)
        # Float32 but for the references of 2000: 1e-9 of them are 34 units of 6e-8.
        assert predicted.energy == pytest.approx(alone.energy.item(), rel=1e-9)
        torch.testing.assert_close(predicted.forces.float(), alone.forces, **bound)
        assert (predicted.stress is None) == (frame.stress is None)
        if predicted.stress is not None:
            unit, edges = alone.stress.abs().max(), tolerance(torch.float32, 42)
            torch.testing.assert_close(predicted.stress / unit, alone.stress[0] / unit, **edges)
    files = format_predictions(found, Path("a.xyz"))
    content = json.loads(files[".predicted.json"])
    assert content["units"] == {"energy": "eV", "forces": "eV/A", "stress": "eV/A^3"}
    assert content["frames"][0]["energy"] == found[0].energy
    assert content["frames"][3]["stress"] == found[3].stress.tolist()
    assert files[".predicted.extxyz"].startswith(b"5\nProperties=species:S:1:pos:R:3:forces:R:3")


def test_unknown_elements_name_the_frame(trained):
    frames = molecules(3)
    foreign = replace(frames[1], numbers=torch.tensor([6, 6, 1, 8, 7]))
    mixed = AtomicFrames((frames[0], foreign, frames[2]), "mixed")
    with pytest.raises(ValueError, match="mixed: frame 1 has N O, and the potential knows H C"):
        trained.predict_frames(mixed)


def errors_of(energy, force, counts=(2, 4), periodic=False):
    atoms = sum(counts)
    return FrameErrors(
        energy=torch.tensor(energy, dtype=torch.float64),
        energy_label=torch.zeros(2, dtype=torch.float64),
        forces=torch.full((atoms, 3), force),
        forces_label=torch.zeros(atoms, 3),
        stress=torch.full((2, 3, 3), torch.nan, dtype=torch.float64),
        stress_label=torch.zeros(2, 3, 3, dtype=torch.float64),
        counts=torch.tensor(counts),
        numbers=torch.tensor([1, 1, 6, 6, 6, 6]),
        periodic=periodic,
    )


def test_errors_are_per_molecule_or_per_atom_and_say_their_unit():
    found = errors_of([0.001, -0.003], 0.02).summary()
    assert found["energy MAE (meV)"] == pytest.approx(2.0)
    assert found["energy RMSE (meV)"] == pytest.approx(5**0.5)
    assert found["force MAE (meV/A)"] == pytest.approx(20)
    assert "stress MAE (meV/A^3)" not in found
    found = errors_of([0.001, -0.003], 0.02, periodic=True).summary()
    assert found["energy MAE (meV/atom)"] == pytest.approx((0.5 + 0.75) / 2)
    by_species = errors_of([0.0, 0.0], 0.02).by_species()
    assert [row["atoms"] for row in by_species.values()] == [2, 4]
    missing = replace(errors_of([0.0, 0.0], 0.02), forces_label=torch.full((6, 3), torch.nan))
    assert missing.force_mae is None
    assert missing.by_species() == {}
    assert "force MAE (meV/A)" not in missing.summary()


def test_predictions_of_nan_are_errors_and_not_missing_labels():
    found = errors_of([0.001, torch.nan], torch.nan)
    assert math.isnan(found.energy_mae)
    assert math.isnan(found.force_mae)
    assert [row["atoms"] for row in found.by_species().values()] == [2, 4]
    periodic = replace(found, has_stress=torch.tensor([False, True]))
    assert len(periodic.stress_errors) == 9
    assert math.isnan(periodic.summary()["stress MAE (meV/A^3)"])


def small_model():
    torch.manual_seed(0)
    return MessagePassingPotential(PotentialConfig((1, 6), CUTOFF, channels=4, lmax_edge=1)).eval()


def test_stresses_count_where_they_were_asked_for_and_all_axes_are_periodic():
    both = AtomicFrames((*molecules(1), *crystals(2)))
    source, model = AtomicSource.of_frames(both, CUTOFF), small_model()
    assert len(measure_errors(model, source, stress=True).stress_errors) == 2 * 9
    assert len(measure_errors(model, source).stress_errors) == 0
    with torch.no_grad():
        model.embedding.weight.fill_(torch.nan)
    broken = measure_errors(model, source, stress=True)
    assert bool(broken.stress_errors.isnan().all())
    assert len(broken.stress_errors) == 2 * 9


def test_every_set_of_frames_is_evaluated(trained):
    data = load_frames(trained.config)
    bare = AtomicFrames(tuple(replace(f, forces=None) for f in molecules(2)), "scan")
    split = replace(data.split, tests={**data.split.tests, "scan": bare}, remark="with care")
    evaluation = evaluate_potential(trained, replace(data, split=split))
    assert list(evaluation.sets) == ["validation", "test", "scan"]
    assert "force MAE (meV/A)" not in evaluation.sets["scan"]
    assert set(evaluation.species["test"]) == {"H", "C"}
    assert evaluation.parity["scan"]["forces"] == []
    assert len(evaluation.parity["test"]["forces"]) == 6 * 5 * 3
    table = potential_table(evaluation).splitlines()
    assert table[0].startswith("set")
    assert "energy MAE (meV)" in table[0]
    assert table[3].split()[-1] == "-"
    assert table[-1] == "note: with care"
    json.dumps(evaluation.to_dict(), allow_nan=False)
