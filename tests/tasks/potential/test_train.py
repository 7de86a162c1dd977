from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from equigeo.datasets import AtomicFrames, AtomicSplit
from equigeo.tasks.potential import (
    InteratomicPotential,
    PotentialData,
    TrainedPotential,
    load_frames,
)
from equigeo.tasks.potential.train import has_isolated, plan_fit, reference_energies
from equigeo.testing import tolerance
from equigeo.training import time_limit
from tests.tasks.potential.frames import crystals, molecules, small_config


def weights(trained):
    return {name: value.clone() for name, value in trained.model.state_dict().items()}


def test_a_run_learns_and_its_history_names_its_errors(config, tmp_path):
    config = replace(config, recipe=replace(config.recipe, epochs=30), evaluate_every=15)
    trained = InteratomicPotential().train(config, tmp_path / "run")
    first, middle, last = (trained.history[k] for k in (0, 14, -1))
    assert last["train_error"] < first["train_error"] / 2
    assert first["validation_error"] is None
    assert last["validation_force_mae"] == last["validation_error"] < middle["validation_error"]
    assert last["validation_energy_mae"] > 0
    forces = trained.errors(load_frames(config).validation)
    same = tolerance(torch.float32)["rtol"]  # in batches of another size
    assert forces.force_mae == pytest.approx(last["validation_force_mae"], rel=same)


def test_a_run_that_is_interrupted_ends_as_if_it_were_not(config, tmp_path):
    task = InteratomicPotential()
    whole = task.train(config, tmp_path / "whole")
    parts = tmp_path / "parts"
    stopped = task.train(config, parts, callbacks=time_limit(1e-9))
    assert not stopped.is_finished
    again = task.train(config, parts, resume=True)
    assert again.is_finished
    for name, value in weights(whole).items():
        assert torch.equal(value, weights(again)[name]), name


def test_a_run_of_minutes_ends_by_the_clock_and_is_finished(config, tmp_path):
    recipe = replace(config.recipe, epochs=10**5, minutes=0.03)
    config, task = replace(config, recipe=recipe), InteratomicPotential()
    trained = task.train(config, tmp_path / "run")
    assert trained.is_finished
    assert 1.8 <= trained.seconds < 10
    assert trained.epochs_done < 10**4
    assert trained.history[-1]["validation_error"] is not None
    before = weights(trained)
    again = task.train(config, tmp_path / "run", resume=True)
    assert all(torch.equal(value, weights(again)[name]) for name, value in before.items())
    parts = task.train(config, tmp_path / "parts", callbacks=time_limit(0.01))
    assert not parts.is_finished
    assert task.train(config, tmp_path / "parts", resume=True).is_finished


def test_what_is_saved_is_the_average_of_the_weights(config, tmp_path):
    task = InteratomicPotential()
    averaged = task.train(config, tmp_path / "a")
    plain = replace(config, recipe=replace(config.recipe, ema_decay=0.0))
    raw = task.train(plain, tmp_path / "b")
    assert not torch.equal(averaged.model.embedding.weight, raw.model.embedding.weight)
    for name in ("e0", "scale", "avg_neighbors"):
        assert torch.equal(getattr(averaged.model, name), getattr(raw.model, name))


def test_references_are_of_isolated_atoms_where_all_are_known(config):
    data = load_frames(config)
    assert not has_isolated(data)
    fitted = reference_energies(data)
    counts = {1: 3, 6: 2}
    mean = sum(f.energy for f in data.train) / len(data.train)
    assert sum(counts[z] * e for z, e in zip((1, 6), fitted, strict=True)) == pytest.approx(mean)
    known = replace(data.split, isolated={1: -13.0, 6: -1000.0})
    alone = replace(data, split=known)
    assert reference_energies(alone) == [-13.0, -1000.0]
    model = plan_fit(config, alone).model
    assert model.e0.tolist() == [-13.0, -1000.0]
    force = data.train.stacked_forces().square().mean().sqrt()
    assert model.scale.tolist() == pytest.approx([force.item()] * 2)
    assert not has_isolated(replace(data, split=replace(data.split, isolated={1: -13.0})))


def data_of(frames):
    return PotentialData(AtomicSplit(frames.name, frames), frames[:-2], frames[-2:])


def test_crystals_are_learned_with_their_stresses(folder, tmp_path):
    config = small_config(folder, stress_weight=10.0, energy_weight=1.0)
    data = data_of(crystals(8))
    trained = InteratomicPotential().train(config, tmp_path / "run", data=data)
    errors = trained.errors(data.validation)
    assert errors.energy_unit == "meV/atom"
    assert "stress MAE (meV/A^3)" in errors.summary()


def test_energies_alone_are_learned(folder, tmp_path):
    frames = AtomicFrames(tuple(replace(f, forces=None) for f in molecules(8)), "bare")
    config = small_config(folder, forces_weight=0.0)
    trained = InteratomicPotential().train(config, tmp_path / "run", data=data_of(frames))
    last = trained.history[-1]
    assert "validation_force_mae" not in last
    assert last["validation_error"] == last["validation_energy_mae"]


def test_references_do_not_depend_on_energies_that_were_put_aside():
    train, aside = molecules(4), molecules(4, seed=1)
    fitted = []
    for shift in (0.0, 1000.0):
        moved = AtomicFrames(tuple(replace(f, energy=f.energy + shift) for f in aside))
        split = AtomicSplit("chains", AtomicFrames((*train, *moved)))
        fitted.append(reference_energies(PotentialData(split, train, moved)))
    assert fitted[0] == fitted[1]


def test_elements_that_were_put_aside_are_known(config):
    train = molecules(4)
    oxygen = AtomicFrames(tuple(replace(f, numbers=f.numbers.clamp(max=8) + 2) for f in train))
    data = PotentialData(AtomicSplit("both", AtomicFrames((*train, *oxygen))), train, oxygen)
    assert data.split.train.species == (1, 3, 6, 8)
    e0 = dict(zip(data.split.train.species, reference_energies(data), strict=True))
    assert e0[3] == e0[8] == 0.0
    known = replace(data, split=replace(data.split, isolated={8: -2000.0}))
    assert reference_energies(known) == [e0[1], 0.0, e0[6], -2000.0]
    plan = plan_fit(config, data)
    assert plan.model.config.species == (1, 3, 6, 8)
    assert math.isfinite(plan.evaluate(plan.model)["validation_error"])


def test_a_run_that_diverges_keeps_its_last_checkpoint(folder, tmp_path):
    from equigeo.training.loop.lightning import L

    class Break(L.Callback):
        """Weights that are lost in the last step of an epoch, which no loss of it shows."""

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.is_last_batch and module.epoch == 2:
                with torch.no_grad():
                    module.model.embedding.weight.fill_(torch.nan)

    task, config = InteratomicPotential(), small_config(folder)
    plain = replace(config.recipe, epochs=6, ema_decay=0.0)
    config, run = replace(config, recipe=plain), tmp_path / "run"
    with pytest.raises(ValueError, match=r"epoch 3 .*not finite: training diverged; the last ch"):
        task.train(config, run, callbacks=[Break()])
    kept = TrainedPotential.load(run / "model.ckpt")
    assert kept.epochs_done == 2
    assert json.loads((run / "history.json").read_text()) == kept.history
    wild = replace(config, recipe=replace(plain, learning_rate=999.0, clip_norm=0.0))
    with pytest.raises(ValueError, match=r"of epoch \d is nan: training diverged"):
        task.train(wild, run, overwrite=True)
