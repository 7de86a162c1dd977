import io
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo.cli import main
from equigeo.datasets import AtomicFrames, AtomicSplit, format_extxyz
from equigeo.potentials import LastLayerUncertainty
from equigeo.tasks.potential import (
    AtomicSource,
    InteratomicPotential,
    PotentialData,
    TrainedPotential,
    load_frames,
    measure_errors,
)
from equigeo.tasks.potential.start import reference_energies, reference_source
from equigeo.testing import tolerance
from equigeo.training import Checkpoint, CheckpointError, time_limit
from equigeo.training.loop import fit as epoch_recorder
from tests.datasets.atoms.files import write_qm9
from tests.draws import double_precision
from tests.tasks.potential.frames import CUTOFF, crystals, molecules, slabs, small_config
from tests.tasks.tiny_data import assert_same_state


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


@pytest.mark.full
@pytest.mark.parametrize(("compiled", "numbers"), [(False, (2, 4)), (True, (2,))])
def test_more_processes_end_with_the_weights_of_one(folder, tmp_path, compiled, numbers):
    mixed = AtomicFrames((*molecules(6), *crystals(6)))
    data = PotentialData(AtomicSplit("mixed", mixed), mixed, molecules(2))
    found = {}
    with double_precision():  # Adam magnifies the rounding of small gradients
        for devices in (1, *numbers):
            config = small_config(folder, devices=devices, compile=compiled, stress_weight=10.0)
            config = replace(config, recipe=replace(config.recipe, batch_size=6))
            output = tmp_path / f"{devices}"
            found[devices] = InteratomicPotential().train(config, output, data=data)
    first = found[1]
    for trained in map(found.get, numbers):
        for name, value in first.model.state_dict().items():
            torch.testing.assert_close(trained.model.state_dict()[name], value, msg=name)
        errors = [[row["train_error"] for row in run.history] for run in (first, trained)]
        assert errors[0] == pytest.approx(errors[1])


def test_run_of_minutes_ends_by_the_clock_and_is_finished(config, tmp_path, monkeypatch):
    # a tenth of a second passes with each call
    monkeypatch.setattr(epoch_recorder, "clock", map((0.1).__mul__, itertools.count(1)).__next__)
    recipe = replace(config.recipe, epochs=10**5, minutes=0.03)
    config, task = replace(config, recipe=recipe), InteratomicPotential()
    trained = task.train(config, tmp_path / "run")
    assert trained.is_finished
    assert 1.8 <= trained.seconds < 2.5
    assert trained.epochs_done < 18
    assert trained.history[-1]["validation_error"] is not None
    again = task.train(config, tmp_path / "run", resume=True)
    assert_same_state(trained.model.state_dict(), again.model.state_dict())
    parts = task.train(config, tmp_path / "parts", callbacks=time_limit(1e-9))
    assert not parts.is_finished
    assert task.train(config, tmp_path / "parts", resume=True).is_finished


def test_what_is_saved_is_the_average_of_the_weights_if_there_is_one(config, tmp_path):
    task = InteratomicPotential()
    averaged = task.train(config, tmp_path / "a")
    plain = replace(config, recipe=replace(config.recipe, ema_decay=0.0), evaluate_every=1)
    raw = task.train(plain, tmp_path / "b")
    assert len(raw.history) == 2  # the evaluated model is trained further
    assert not torch.equal(averaged.model.embedding.weight, raw.model.embedding.weight)
    for name in ("e0", "scale", "avg_neighbors"):
        assert torch.equal(getattr(averaged.model, name), getattr(raw.model, name))


def test_references_are_of_isolated_atoms_where_all_are_known(config):
    data = load_frames(config)
    assert reference_source(data, small_config("none")) == "least squares"
    fitted = reference_energies(data)
    counts = {1: 3, 6: 2}
    mean = sum(f.energy for f in data.train) / len(data.train)
    assert sum(counts[z] * e for z, e in zip((1, 6), fitted, strict=True)) == pytest.approx(mean)
    known = replace(data.split, isolated={1: -13.0, 6: -1000.0})
    model = InteratomicPotential().plan(config, replace(data, split=known)).model
    assert model.e0.tolist() == [-13.0, -1000.0]
    force = data.train.stacked_forces().square().mean().sqrt()
    assert model.scale.tolist() == pytest.approx([force.item()] * 2)


def data_of(frames):
    return PotentialData(AtomicSplit(frames.name, frames), frames[:-2], frames[-2:])


def test_stresses_of_crystals_and_slabs_are_learned(folder, tmp_path):
    task, config = InteratomicPotential(), small_config(folder, stress_weight=10.0)
    trained = task.train(config, tmp_path / "run", data=data_of(crystals(8)))
    errors = trained.errors(crystals(8)[-2:])
    assert errors.energy_unit == "meV/atom"
    assert "stress MAE (meV/A^3)" in errors.summary()
    errors = []
    for weight in (0.0, 1e4):
        config = small_config(folder, stress_weight=weight, forces_weight=0.0)
        config = replace(config, recipe=replace(config.recipe, epochs=20))
        trained = task.train(config, tmp_path / f"{weight}", data=data_of(slabs()))
        errors.append(trained.errors(slabs()).stress_errors.square().mean().sqrt().item())
    assert errors[1] < 0.5 * errors[0]


def test_energies_alone_are_learned(folder, tmp_path):
    frames = AtomicFrames(tuple(replace(f, forces=None) for f in molecules(8)), "bare")
    config = small_config(folder, forces_weight=0.0)
    trained = InteratomicPotential().train(config, tmp_path / "run", data=data_of(frames))
    last = trained.history[-1]
    assert "validation_force_mae" not in last
    assert last["validation_error"] == last["validation_energy_mae"]
    (predicted,) = trained.predict_frames(frames[-1:])
    assert predicted.info["energy_uncertainty"] > 0
    assert "forces_uncertainty" not in predicted.columns


def test_uncertainties_are_those_of_training_and_validation_frames(trained, config, tmp_path):
    data, model = load_frames(config), trained.model
    train, validation = (
        AtomicSource.of_frames(frames, CUTOFF) for frames in (data.train, data.validation)
    )
    labelled = [(part.atoms, part.energy, part.forces) for part in validation.parts]
    fitted = LastLayerUncertainty.fit(model, [part.atoms for part in train.parts], labelled)
    # Other batches are sums in another order of float32, which whitening multiplies.
    bound = 1e3 * tolerance(torch.float32)["rtol"]
    batch = validation.batch(range(4)).inputs.atoms
    out = model(batch, features=True)
    for found, want in zip(trained.uncertainty(out, batch), fitted(out, batch), strict=True):
        assert_close(found, want, rtol=bound, atol=0.0)


def test_checkpoints_without_uncertainties_predict_none(run, tmp_path):
    checkpoint = Checkpoint.load(run / "model.ckpt")
    assert TrainedPotential.load(run / "model.ckpt").uncertainty is not None
    replace(checkpoint, novelty={}).save(tmp_path / "old.ckpt")
    old = TrainedPotential.load(tmp_path / "old.ckpt")
    assert old.uncertainty is None
    assert not any("sd" in name for name in old.errors(molecules(2)).summary())
    (frame,) = molecules(1)
    stale = replace(
        frame,
        info={"energy_uncertainty": 1.0, "kept": 2},
        columns={"forces_uncertainty": np.ones(5)},
    )
    (predicted,) = old.predict_frames(AtomicFrames((stale,)))
    assert predicted.info == {"kept": 2}
    assert predicted.columns == {}


@pytest.mark.parametrize("forces_weight", [0.0, 100.0])
def test_errors_of_training_and_validation_have_one_unit(folder, forces_weight):
    frames = molecules(6)
    data = PotentialData(AtomicSplit("chains", frames), frames, frames)
    plan = InteratomicPotential().plan(small_config(folder, forces_weight=forces_weight), data)
    source = AtomicSource.of_frames(frames, CUTOFF)
    batch = source.batch(range(6))
    _, measure = plan.objective.sums(plan.model, batch)
    found = plan.evaluate(plan.model)
    # one figure, from one batch and from frames a few at a time
    same = tolerance(torch.float32, 50)["rtol"]
    assert found["validation_error"] == pytest.approx(measure.item() / 6, rel=same)
    errors = measure_errors(plan.model, source)
    assert found["validation_energy_mae"] == pytest.approx(errors.energy_mae / 5)


def test_a_run_says_where_energies_lag_behind(trained):
    def lines(energy, **changes):
        measured = {"validation_force_mae": 30.0, "validation_energy_mae": energy}
        config = replace(trained.config, **changes)
        history = [{**trained.history[-1], **measured}]
        run = TrainedPotential(trained.model, (), config, trained.version, history)
        return InteratomicPotential().summarize(run)

    assert "--energy-weight than 1 improves them, such as 100" in lines(340.0)[-1]
    assert lines(340.0)[1] == "validation energy MAE 340.00 meV/atom"
    assert len(lines(29.0)) == len(lines(340.0, energy_weight=100.0)) == 2


def test_references_depend_on_elements_but_not_on_energies_that_were_put_aside(config):
    train, aside = molecules(4), molecules(4, seed=1)
    fitted = []
    for shift in (0.0, 1000.0):
        moved = AtomicFrames(tuple(replace(f, energy=f.energy + shift) for f in aside))
        split = AtomicSplit("chains", AtomicFrames((*train, *moved)))
        fitted.append(reference_energies(PotentialData(split, train, moved)))
    assert fitted[0] == fitted[1]
    oxygen = AtomicFrames(tuple(replace(f, numbers=f.numbers.clamp(max=8) + 2) for f in train))
    data = PotentialData(AtomicSplit("both", AtomicFrames((*train, *oxygen))), train, oxygen)
    assert data.split.train.species == (1, 3, 6, 8)
    e0 = dict(zip(data.split.train.species, reference_energies(data), strict=True))
    assert e0[3] == e0[8] == 0.0
    known = replace(data, split=replace(data.split, isolated={8: -2000.0}))
    assert reference_energies(known) == [e0[1], 0.0, e0[6], -2000.0]
    plan = InteratomicPotential().plan(config, data)
    assert plan.model.config.species == (1, 3, 6, 8)
    assert math.isfinite(plan.evaluate(plan.model)["validation_error"])


def test_a_run_that_diverges_keeps_its_last_checkpoint(folder, tmp_path):
    from equigeo.training.loop.module import L

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


TRAIN = ("train", "potential")
SMALL = (
    "--set", "ethanol", "--epochs", "2", "--batch-size", "3", "--channels", "4", "--lmax-edge", "1",
    "--cutoff", "3", "--validation", "4", "--correlation", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(folder, tmp_path_factory):
    output = tmp_path_factory.mktemp("cli") / "run"
    assert main([*TRAIN, "--data", str(folder), "--output", str(output), *SMALL]) == 0
    return output


def test_a_run_is_evaluated_and_its_report_opens_offline(run, capsys, tmp_path):
    checkpoint, results = str(run / "model.ckpt"), tmp_path / "r.json"
    assert main(["evaluate", checkpoint, "--json", str(results)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    saved = json.loads(results.read_text())
    test = saved["sets"]["test"]
    assert f"{test['force MAE (meV/A)']:.2f}" in out
    assert test["frames"] == 6
    for name in ("energy in 1 sd (%)", "force in 1 sd (%)", "force in 2 sd (%)"):
        assert 0 <= test[name] <= 100
    assert -1 <= test["force rank corr."] <= 1
    page = (run / "report.html").read_text()
    for part in ("Interatomic potential", "Learning curve", "parity-forces", "by element"):
        assert part in page
    assert "src=" not in page.split("<script>")[0]


def test_all_frames_of_other_data_are_evaluated(run, capsys, tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    frames = AtomicFrames((*molecules(7, seed=3), *crystals(2)), "mine")
    mine, few = tmp_path / "mine.xyz", tmp_path / "test_few.xyz"
    mine.write_text(format_extxyz(frames))
    few.write_text(format_extxyz(replace(f, forces=None) for f in molecules(2, seed=4)))
    page = run / "report.html"
    page.write_text("of the training")
    results, checkpoint = tmp_path / "r.json", str(run / "model.ckpt")

    def sets(data, *options):
        arguments = ["evaluate", checkpoint, "--data", str(data), "--json", str(results)]
        assert main([*arguments, *options]) == 0
        assert f"report: {run / f'report-{data.stem}.html'}" in capsys.readouterr().out
        return json.loads(results.read_text())["sets"]

    expected = TrainedPotential.load(run / "model.ckpt").errors(frames).summary()
    assert sets(mine) == {"mine": expected}
    assert expected["frames"] == 9
    found = sets(few)["test_few"]
    assert found["frames"] == 2
    assert "force MAE (meV/A)" not in found
    assert sorted(sets(tmp_path)) == ["mine", "test_few"]  # a folder without training frames
    assert page.read_text() == "of the training"
    page.unlink()
    mine.write_text(mine.read_text().replace("energy", "E").replace("forces", "F"))
    assert sets(mine, "--energy-key", "E", "--forces-key", "F") == {"mine": expected}
    for options, part in (
        ((), "no frame has an energy, forces or a stress to compare with; the file has F, E"),
        (("--energy-key", "G"), "no frame has 'G' of --energy-key; the file has F, E"),
    ):
        arguments = ["evaluate", checkpoint, "--data", str(mine), *options]
        mine.write_text(mine.read_text().replace("stress", "S"))
        assert main(arguments) == 2
        assert part in capsys.readouterr().err


def test_the_data_of_the_training_are_split_as_for_it(run, capsys, folder):
    for options in ((), ("--data", str(folder), "--set", "ethanol")):
        assert main(["evaluate", str(run / "model.ckpt"), *options, "--json", "-"]) == 0
        assert [*json.loads(capsys.readouterr().out)["sets"]] == ["validation", "test"]
    assert main(["evaluate", str(run / "model.ckpt"), "--json", "-", "--data",
                 str(folder / "rmd17_ethanol_test_01.npz")]) == 0  # fmt: skip
    found = json.loads(capsys.readouterr().out)["sets"]
    assert {name: row["frames"] for name, row in found.items()} == {"rmd17_ethanol_test_01": 6}


def test_frames_that_were_trained_on_are_counted_and_refused(run, capsys, folder, tmp_path):
    checkpoint, results = str(run / "model.ckpt"), tmp_path / "r.json"
    assert main(["evaluate", checkpoint]) == 0
    assert "trained on: 0 of 10 frames" in capsys.readouterr().out
    own = folder / "rmd17_ethanol_train_01.npz"
    evaluate = ["evaluate", checkpoint, "--data", str(own), "--json", str(results)]
    assert main(evaluate) == 2
    out, err = capsys.readouterr()
    assert out == ""
    number = len(TrainedPotential.load(checkpoint).samples)
    assert f"{number} of the {number + 4} frames to evaluate were trained on" in err
    assert main([*evaluate, "--allow-trained"]) == 0
    assert f"trained on: {number} of {number + 4} frames" in capsys.readouterr().out
    assert json.loads(results.read_text())["trained_on"] == number
    assert f"{number} of {number + 4} frames" in (run / f"report-{own.stem}.html").read_text()


def test_other_training_frames_are_not_resumed_with(config, tmp_path):
    task, data = InteratomicPotential(), load_frames(config)
    task.train(config, tmp_path / "run", data=data, callbacks=time_limit(1e-9))
    first, *rest = data.train
    for changed, message in (
        ([replace(first, positions=first.positions + 0.1), *rest], "1 of its"),
        ([replace(first, energy=first.energy + 1), *rest], "1 of its"),
        ([replace(first, forces=-first.forces), *rest], "1 of its"),
        ([*rest, first], f"{len(rest) + 1} of its"),
        (rest, f"{len(rest) + 1} training samples, the data have {len(rest)}"),
    ):
        other = replace(data, train=AtomicFrames(tuple(changed)))
        with pytest.raises(CheckpointError, match=f"{message}.*bring back the data"):
            task.train(config, tmp_path / "run", data=other, resume=True)
    # an open axis has no cell, and names are no data
    same = tuple(replace(f, name="", cell=torch.eye(3).double()) for f in data.train)
    again = replace(data, train=AtomicFrames(same))
    assert task.train(config, tmp_path / "run", data=again, resume=True).is_finished


def test_minutes_are_said(folder, tmp_path, capsys):
    options = [*SMALL, "--minutes", "0.01", "--product", "gaunt", "--node", "gate"]
    output = str(tmp_path / "run")
    assert main([*TRAIN, "--data", str(folder), "--output", output, *options]) == 0
    out, err = capsys.readouterr()
    assert "product gaunt, default preset, 0.01 minutes" in err
    assert "validation force MAE" in out
    assert "meV/A" in out
    assert main([*TRAIN, "--output", output, "--resume"]) == 0


def test_files_are_predicted_as_extended_xyz_or_json(run, capsys, tmp_path, folder):
    pytest.importorskip("ase", reason="needs ase")
    checkpoint = str(run / "model.ckpt")
    chain, crystal = tmp_path / "chain.XYZ", tmp_path / "crystal.extxyz"
    chain.write_text(format_extxyz(molecules(3)))
    crystal.write_text(format_extxyz(crystals(2)))
    files = [str(chain), str(crystal), str(folder / "rmd17_ethanol_test_01.npz")]
    assert main(["predict", checkpoint, *files, "--output", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "3 frames, energies " in out
    assert "chain.predicted.extxyz" in out
    text = (tmp_path / "crystal.predicted.extxyz").read_text()
    assert 'stress="' in text
    assert "forces_uncertainty:R:1 " in text
    assert "energy_uncertainty=" in text
    assert not (tmp_path / "chain.predicted.json").exists()
    assert (
        main(["predict", checkpoint, files[0], "--format", "json", "--output", str(tmp_path)]) == 0
    )
    content = json.loads((tmp_path / "chain.predicted.json").read_text())
    frame = content["frames"][2]
    assert np.shape(frame["forces"]) == (5, 3)
    assert frame["energy_uncertainty"] > 0
    assert np.shape(frame["forces_uncertainty"]) == (5,)


def test_all_molecules_of_qm9_are_predicted_in_their_order(run, capsys, tmp_path):
    known = np.tile([6, 1, 1], 20).astype(np.uint8)  # elements of the training
    places = np.tile([[0.0, 0, 0], [0.96, 0, 0], [-0.24, 0.93, 0]], (20, 1)).astype(np.float32)
    places[::3, 2] = np.arange(20) / 100
    file = write_qm9(tmp_path / "qm9", atomic_number=known, position=places) / "qm9_20k.npz"
    assert main(["predict", str(run / "model.ckpt"), str(file), "--output", str(tmp_path)]) == 0
    assert "20 frames, energies " in capsys.readouterr().out
    lines = (tmp_path / "qm9_20k.predicted.extxyz").read_text().splitlines()
    assert [float(line.split()[3]) for line in lines[2::5]] == places[::3, 2].tolist()
    form = ("--format", "json", "--output", str(tmp_path))
    assert main(["predict", str(run / "model.ckpt"), str(file), *form]) == 0
    content = json.loads((tmp_path / "qm9_20k.predicted.json").read_text())
    assert [frame["name"] for frame in content["frames"]] == [f"QM9 {k}" for k in range(20)]


@pytest.mark.parametrize("name", ["a.xyz", "a.traj", "a.cif", "POSCAR", "a.vasp"])
def test_every_format_of_ase_is_predicted_and_its_information_kept(run, tmp_path, name):
    ase_io = pytest.importorskip("ase.io", reason="needs ase")
    crystal = crystals(1)[0]
    atoms = ase_io.read(io.StringIO(format_extxyz([crystal])), format="extxyz")
    atoms.info |= {"config_type": "bulk 300", "id": 7, "REF_energy": -1.5}
    atoms.arrays["tag"] = np.array([3])
    ase_io.write(tmp_path / name, atoms)
    assert main(["predict", str(run / "model.ckpt"), str(tmp_path / name),
                 "--output", str(tmp_path)]) == 0  # fmt: skip
    stem = name.partition(".")[0]
    (found,) = ase_io.iread(tmp_path / f"{stem}.predicted.extxyz", index=":", format="extxyz")
    energy = TrainedPotential.load(run / "model.ckpt").predict_frames(crystals(1))[0].energy
    # files of structures have five to sixteen digits
    assert found.get_potential_energy() == pytest.approx(energy, abs=1e-3)
    if name in ("a.xyz", "a.traj"):  # other formats have no place for it
        assert found.info.pop("energy_uncertainty") >= 0
        assert found.info == {"config_type": "bulk 300", "id": 7, "REF_energy": -1.5}
    if name == "a.xyz":
        assert found.arrays["tag"].tolist() == [3]


def test_what_cannot_be_used_is_one_error(run, refused, tmp_path, folder):
    checkpoint = str(run / "model.ckpt")
    empty, nothing = tmp_path / "empty", tmp_path / "a.cif"
    empty.mkdir()
    nothing.write_text("nothing")
    for arguments, part in (
        (("predict", checkpoint, nothing), "a.cif"),
        ((*TRAIN, "--data", folder, "--output", tmp_path / "o"), "name one of its sets, ethanol"),
        ((*TRAIN, "--data", empty, "--output", tmp_path / "o"), "expected one train*.xyz"),
        ((*TRAIN, "--data", folder, *SMALL, "--validation", "12"), "too few to put 12"),
        ((*TRAIN, "--data", folder, *SMALL, "--jitter", "1"), "--jitter"),
        (
            (*TRAIN, "--data", folder, *SMALL, "--devices", "2", "--minutes", "1"),
            "one device, got 2; let it end after epochs instead: --epochs N",
        ),
        (("predict", checkpoint, tmp_path / "none.npz"), "no such file"),
        (("predict", checkpoint, empty), "has no file .xyz, .extxyz, .npz, .traj, .cif"),
        (("predict", checkpoint, next(folder.iterdir()), "--view"), "a potential has none"),
        (("predict", checkpoint, next(folder.iterdir()), "--top", "2"), "a potential has none"),
    ):
        message = refused(*arguments)
        assert part in message
        assert len(message.strip().splitlines()) == 1
    assert not (tmp_path / "o").exists()
