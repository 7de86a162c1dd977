import json
import re
from dataclasses import replace

import pytest
import torch

from equigeo.cli import main
from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit, format_extxyz
from equigeo.potentials import MessagePassingPotential
from equigeo.potentials.tuning import species_tables
from equigeo.tasks.potential import (
    AtomicSource,
    InteratomicPotential,
    PotentialData,
    PotentialRunConfig,
    TrainedPotential,
    evaluate_potential,
    load_frames,
)
from equigeo.tasks.potential.data import UNKNOWN_EARLIER, frame_digests
from equigeo.tasks.potential.errors import read_uncertainty
from equigeo.testing import tolerance
from equigeo.training import time_limit
from equigeo.training.data import EpochBatches
from equigeo.training.loop.module import sums_of_parts
from tests.tasks.potential.frames import CUTOFF, molecules, small_config
from tests.tasks.tiny_data import assert_same_state

SAME = tolerance(torch.float32)["rtol"]  # in batches of another size


@pytest.fixture(scope="module")
def start(folder, tmp_path_factory):
    """Checkpoint of a run on chains of carbon and hydrogen."""
    output = tmp_path_factory.mktemp("start") / "run"
    config = small_config(folder)
    InteratomicPotential().train(replace(config, recipe=replace(config.recipe, epochs=20)), output)
    return output / "model.ckpt"


@pytest.fixture
def tuned(config, start):
    """Configuration of fine-tuning, with a rate at which little changes in two epochs."""
    recipe = replace(config.recipe, learning_rate=1e-4)
    return replace(config, start_from=str(start), recipe=recipe)


def data_of(frames, **split):
    return PotentialData(AtomicSplit("new", frames, **split), frames[:-2], frames[-2:])


def shifted(frames, shifts):
    """Frames with energies of another level of theory."""
    moved = (
        replace(f, energy=f.energy + sum(shifts[z] for z in f.numbers.tolist())) for f in frames
    )
    return AtomicFrames(tuple(moved), "shifted")


def with_oxygen(frames):
    """One of the carbon atoms is oxygen, in every other frame."""
    found = []
    for k, f in enumerate(frames):
        numbers = f.numbers.clone()
        numbers[0] = 8 if k % 2 else 6
        found.append(replace(f, numbers=numbers, energy=f.energy - 500.0 * (k % 2)))
    return AtomicFrames(tuple(found), "oxygen")


def energy_errors(model, frames):
    return TrainedPotential(model.eval(), (), None, "").errors(frames).energy_errors.abs()


def test_shifted_labels_of_another_level_of_theory_keep_the_start(tuned, start):
    first, frames = TrainedPotential.load(start).model, molecules(10, seed=5)
    before = energy_errors(first, frames)
    other = shifted(frames, {1: 3.0, 6: -40.0})
    assert energy_errors(first, other).min() > 1e4  # meV
    model = InteratomicPotential().plan(tuned, data_of(other)).model
    assert energy_errors(model, other).mean() <= 2 * before.mean()
    references = {"e0"}
    for name, value in first.state_dict().items():
        assert torch.equal(model.state_dict()[name], value) == (name not in references), name
    isolated = {1: -12.5, 6: -990.0}  # others than those of the checkpoint, which were fitted
    data = data_of(other, isolated=isolated)
    again = InteratomicPotential().plan(tuned, data).model
    assert torch.equal(again.e0, model.e0)
    again = InteratomicPotential().plan(tuned, replace(data, replay=data_of(frames))).model
    assert torch.equal(again.e0, first.e0)
    for heads in (("a", "b"), ("b", "a")):
        again = InteratomicPotential().plan(replace(tuned, heads=heads, head="a"), data).model
        assert torch.equal(again["a"].e0, model.e0)
        assert torch.equal(again["b"].e0, first.e0)
    bare = AtomicFrames(tuple(replace(f, energy=None) for f in frames))
    model = InteratomicPotential().plan(replace(tuned, energy_weight=0.0), data_of(bare)).model
    assert torch.equal(model.e0, first.e0)


def test_new_elements_are_added_and_learned(tuned, start, tmp_path):
    first, frames = TrainedPotential.load(start).model, with_oxygen(molecules(10, seed=5))
    trained = InteratomicPotential().train(tuned, tmp_path / "run", data=data_of(frames))
    assert trained.model.config.species == (1, 6, 8)
    # five atoms have one composition without and one with oxygen
    assert trained.model.e0[2] - trained.model.e0[1] == pytest.approx(-500.0, abs=5.0)
    plan = InteratomicPotential().plan(tuned, data_of(frames))
    moved = trained.model.state_dict()
    for name, value in plan.model.state_dict().items():
        if name in species_tables(first) - {"e0", "scale"}:
            assert not torch.equal(moved[name], value), name
    for changes in ({"lora": 2}, {"freeze": ("embedding",)}, {"freeze": ("layers.1",)}):
        with pytest.raises(ValueError, match="do not know O, whose own weights must be trained"):
            InteratomicPotential().plan(replace(tuned, **changes), data_of(frames))
    InteratomicPotential().plan(replace(tuned, freeze=("radial",)), data_of(frames))


@pytest.mark.parametrize("heads", [(), ("ccsd", "pbe")])
def test_new_elements_of_replayed_frames_alone_are_fitted_on_these(tuned, start, heads):
    first, frames = TrainedPotential.load(start).model, molecules(10, seed=5)
    old, config = data_of(with_oxygen(frames)), replace(tuned, heads=heads)
    named = AtomicFrames(tuple(replace(f, info={"head": "pbe"}) for f in old.train))
    data = replace(data_of(frames), replay=replace(old, train=named))
    model = InteratomicPotential().plan(config, data).model
    model = model["pbe"] if heads else model
    assert torch.equal(model.e0[:2], first.e0)
    # as above
    assert model.e0[2] - model.e0[1] == pytest.approx(-500.0, abs=5.0)
    isolated = replace(data.replay, split=replace(old.split, isolated={8: -1490.0, 6: 1.0}))
    model = InteratomicPotential().plan(config, replace(data, replay=isolated)).model
    model = model["pbe"] if heads else model
    assert model.e0.tolist() == [*first.e0.tolist(), -1490.0]


@pytest.mark.parametrize("decay", [0.0, 0.9])
def test_frozen_weights_are_unchanged_to_the_bit(tuned, start, tmp_path, decay):
    recipe = replace(tuned.recipe, ema_decay=decay, weight_decay=0.1, learning_rate=0.01)
    config = replace(tuned, freeze=("embedding", "layers.0"), recipe=recipe)
    trained = InteratomicPotential().train(config, tmp_path / "run")
    first = TrainedPotential.load(start).model
    names = {name for name, _ in first.named_parameters()}
    same = {n for n in names if torch.equal(trained.model.state_dict()[n], first.state_dict()[n])}
    readout = "layers.0.readout.layer0.weight"
    assert same == {n for n in names if n.startswith(("embedding", "layers.0."))} - {readout}


def test_interrupted_runs_with_updates_of_low_rank_end_alike_in_plain_weights(
    tuned, start, tmp_path
):
    task, config = InteratomicPotential(), replace(tuned, lora=2, freeze=("radial",))
    whole = task.train(config, tmp_path / "a")
    assert not task.train(config, tmp_path / "b", callbacks=time_limit(1e-9)).is_finished
    parts = task.train(config, tmp_path / "b", resume=True)
    assert_same_state(whole.model.state_dict(), parts.model.state_dict())
    first = TrainedPotential.load(start).model.state_dict()
    assert list(first) == list(whole.model.state_dict())
    update = whole.model.state_dict()["layers.1.mix_in.weight"] - first["layers.1.mix_in.weight"]
    ranks = torch.linalg.matrix_rank(update.view(-1, 4, 4), rtol=1e-3)  # of single precision
    assert ranks.tolist() == [2, 2]
    model = TrainedPotential.load(start).model
    task.train(replace(config, freeze=("embedding",)), tmp_path / "c", model=model)
    assert_same_state(model.state_dict(), first)  # a given model keeps its form
    assert all(weight.requires_grad for weight in model.parameters())
    task.train(replace(tuned, freeze=("body",)), tmp_path / "d", model=model)
    assert all(weight.requires_grad for weight in model.parameters())
    with pytest.raises(ValueError, match="low-rank updates and heads must have one device, got 2"):
        replace(config, devices=2)


def test_frames_of_the_start_count_as_trained_on(tuned, start, tmp_path):
    new = data_of(molecules(8, seed=9))
    trained = InteratomicPotential().train(tuned, tmp_path / "run", data=new)
    first = TrainedPotential.load(start)
    assert len(trained.samples) == len(new.train) + len(first.samples)
    assert trained.trained_on(first.samples[:, 0]) == len(first.samples)


TRAIN = ("train", "potential", "--set", "ethanol", "--epochs", "1", "--validation", "4")


def test_sizes_come_from_the_checkpoint(folder, start, tmp_path, refused, capsys, monkeypatch):
    monkeypatch.chdir(start.parent)
    output = tmp_path / "run"
    options = ("--data", str(folder), "--start-from", "model.ckpt", "--output", str(output))
    assert main([*TRAIN, *options, "--freeze", "embedding,radial"]) == 0
    saved = json.loads((output / "config.json").read_text())
    assert (saved["channels"], saved["cutoff"], saved["lmax_edge"]) == (4, 3.0, 1)
    assert saved["recipe"]["learning_rate"] == pytest.approx(1e-3)
    assert saved["start_from"] == str(start)
    assert saved["freeze"] == ["embedding", "radial"]
    monkeypatch.chdir(tmp_path)
    assert main(["train", "potential", "--output", str(output), "--resume"]) == 0
    file = ("--config", str(output / "config.json"), "--lr", "0.002", "--freeze", "")
    assert main(["train", "potential", *file, "--output", str(tmp_path / "again")]) == 0
    other = ("--data", folder, "--start-from", start, "--output", tmp_path / "other")
    capsys.readouterr()
    lora = ("--lora", "1", "--freeze", "radial", "--dry-run")
    assert main([str(x) for x in (*TRAIN, *other, *lora)]) == 0
    out, _ = capsys.readouterr()
    assert f"from {start}: " in out
    assert "reference energies of least squares of the errors, product" in out
    assert re.search(r"model .* parameters, \d+ of them learned\n", out)
    for more, part in (
        (("--channels", "8", "--layers", "3", "--cutoff", "3"),
         "the potential has channels 4, asked 8; layers 2, asked 3; leave these out"),
        (("--freeze", "body,layer0"), "body, embedding, radial, layers.0, layers.1, got layer0"),
    ):  # fmt: skip
        assert part in refused(*TRAIN, *other, *more)
    other = ("--data", folder, "--output", tmp_path / "other")
    assert "add --start-from" in refused(*TRAIN, *other, "--lora", "2")
    assert "no such file" in refused(*TRAIN, *other, "--start-from", tmp_path / "none.ckpt")
    wide = tmp_path / "wide.json"
    wide.write_text(json.dumps(saved | {"start_from": "", "channels": 8}))
    text = refused("train", "potential", "--config", wide, "--start-from", start, *other[2:])
    assert "the potential has channels 4, asked 8" in text
    before = (output / "model.ckpt").read_bytes()
    again = ("--start-from", output / "model.ckpt", "--output", output, "--overwrite")
    assert "which --overwrite would remove" in refused(*TRAIN, "--data", folder, *again)
    assert (output / "model.ckpt").read_bytes() == before
    assert not (tmp_path / "other").exists()


def test_configurations_of_earlier_versions_start_at_random(config):
    values = config.to_dict()
    for name in UNKNOWN_EARLIER:
        del values[name]
    assert PotentialRunConfig.from_dict(values) == config
    with pytest.raises(ValueError, match="must be a JSON object"):
        PotentialRunConfig.from_dict([])


@pytest.fixture
def old_and_new(tmp_path):
    """Files with frames of an earlier set, some of them held out, and of a new one."""
    pytest.importorskip("ase", reason="needs ase")
    for name, frames in (("old", molecules(30, seed=7)), ("new", molecules(20, seed=8))):
        (tmp_path / f"{name}.xyz").write_text(format_extxyz(frames))
    return {"data": str(tmp_path / "new.xyz"), "replay": str(tmp_path / "old.xyz"), "subset": ""}


@pytest.mark.parametrize(("share", "number"), [(0.01, 1), (0.5, 14), (0.75, 42)])
def test_epochs_have_their_share_of_earlier_frames_and_others_in_each(
    tuned, old_and_new, share, number
):
    config = replace(tuned, replay_share=share, **old_and_new)
    data = load_frames(config)
    assert [len(x) for x in (data.train, data.replay.train, data.replay.validation)] == [14, 23, 4]
    source = InteratomicPotential().plan(config, data).train
    new, old = (
        [f.positions.float()[1].tolist() for f in frames]
        for frames in (data.train, data.replay.train)
    )

    def epoch(k, **options):
        batches = EpochBatches(source, 4, seed=0, epoch=k, **options)
        return [x.tolist() for b in batches for x in b.inputs.atoms.positions[1::5]]

    drawn = []
    for k in range(2):
        frames = epoch(k)
        assert sorted(x for x in frames if x in new) == sorted(new)
        drawn.append([x for x in frames if x not in new])
        assert len(drawn[-1]) == number
        times = [drawn[-1].count(x) for x in old]
        assert sum(times) == number
        assert max(times) - min(times) <= 1
        halves = [epoch(k, process=n, num_processes=2) for n in range(2)]
        assert sorted(halves[0] + halves[1]) == sorted(frames)
    assert drawn[0] != drawn[1]


def test_errors_of_both_sets_are_reported(tuned, start, old_and_new, tmp_path, capsys):
    config = replace(tuned, **old_and_new)
    run = tmp_path / "run"
    task, data = InteratomicPotential(), load_frames(config)
    whole = task.train(config, run, data=data)
    assert not task.train(config, tmp_path / "b", callbacks=time_limit(1e-9)).is_finished
    parts = task.train(config, tmp_path / "b", resume=True)
    assert_same_state(whole.model.state_dict(), parts.model.state_dict())
    first = TrainedPotential.load(start).model
    assert torch.equal(whole.model.e0, first.e0)  # both sets are of its level of theory
    error = whole.errors(data.replay.validation).force_mae
    assert whole.history[-1]["replay_force_mae"] == pytest.approx(error, rel=SAME)
    digests = frame_digests(data.replay.train)
    assert whole.trained_on(digests) == len(digests)
    assert whole.trained_on(frame_digests(data.replay.validation)) == 0
    assert main(["evaluate", str(run / "model.ckpt"), "--json", str(tmp_path / "r.json")]) == 0
    sets = json.loads((tmp_path / "r.json").read_text())["sets"]
    assert [*sets] == ["validation", "test", "replay validation"]
    assert sets["replay validation"]["frames"] == 4
    lines = task.summarize(whole)
    assert any("meV/A on validation frames of the replayed set" in line for line in lines)
    options = ("--start-from", start, "--data", old_and_new["data"], "--validation", "4")
    capsys.readouterr()
    again = ("--replay", old_and_new["replay"], "--output", tmp_path / "c", "--dry-run")
    assert main([str(x) for x in ("train", "potential", *options, *again)]) == 0
    assert "with replay of 23 frames of old: new, 14 training" in capsys.readouterr().out


HARTREE, BOHR = 27.211386245, 0.529177210  # eV and angstrom, CODATA


def in_atomic_units(path, frames):
    moved = (
        replace(f, positions=f.positions / BOHR, energy=f.energy / HARTREE,
                forces=f.forces / HARTREE * BOHR)
        for f in frames
    )  # fmt: skip
    path.write_text(format_extxyz(AtomicFrames(tuple(moved))))
    return str(path)


def test_replayed_frames_have_the_units_of_the_checkpoint(config, tuned, old_and_new, tmp_path):
    config = replace(config, data=old_and_new["replay"], subset="")
    InteratomicPotential().train(config, tmp_path / "a")
    data = in_atomic_units(tmp_path / "au.xyz", molecules(20, seed=8))
    values = {**old_and_new, "data": data, "units": "hartree bohr"}
    found = load_frames(replace(tuned, **values, start_from=str(tmp_path / "a" / "model.ckpt")))
    for frames in (found.train, found.replay.train):
        assert all(-2100 < f.energy < -2000 for f in frames)  # eV
    config = replace(config, data=data, units="hartree bohr")
    InteratomicPotential().train(config, tmp_path / "b")
    values = {**old_and_new, "replay": data, "start_from": str(tmp_path / "b" / "model.ckpt")}
    found = load_frames(replace(tuned, **values))
    for frames in (found.train, found.replay.train):
        assert all(-2100 < f.energy < -2000 for f in frames)  # eV
    with pytest.raises(ValueError, match="units and keys of replayed frames are those of the che"):
        load_frames(replace(config, replay=data))


def test_other_data_are_not_in_the_units_of_the_training(config, tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    own = in_atomic_units(tmp_path / "au.xyz", molecules(20, seed=8))
    (tmp_path / "ev.xyz").write_text(format_extxyz(molecules(20, seed=8)))
    config = replace(config, data=own, subset="", units="hartree bohr")
    InteratomicPotential().train(config, tmp_path / "run")
    copied = tmp_path / "copied.xyz"
    copied.write_text((tmp_path / "au.xyz").read_text())
    errors = []
    for options in ((own,), (tmp_path / "ev.xyz",), (copied, "--units", "hartree bohr"), (copied,)):
        form = ("--json", tmp_path / "r.json", "--allow-trained", "--data", *options)
        assert main([str(x) for x in ("evaluate", tmp_path / "run" / "model.ckpt", *form)]) == 0
        sets = json.loads((tmp_path / "r.json").read_text())["sets"]
        errors.append([row["energy MAE (meV)"] for row in sets.values()])
    assert errors[1] == pytest.approx(errors[2], rel=1e-2)  # of rounded positions
    assert max(errors[0]) < 1e4 < errors[3][0]  # meV: 75 hartree are not 2039 eV


def test_earlier_frames_in_new_test_sets_are_reported(tuned, old_and_new, tmp_path):
    both = [*molecules(20, seed=8), *molecules(5, seed=7)]
    (tmp_path / "new.xyz").write_text(format_extxyz(both))
    data = load_frames(replace(tuned, **old_and_new))
    assert re.search(r"training frames are repeated: \d of ", data.split.remark)
    plain = load_frames(replace(tuned, **old_and_new | {"replay": ""}))
    assert "repeated" not in plain.split.remark


OFFSETS = {"pbe": {1: 0.0, 6: 0.0}, "ccsd": {1: 3.0, 6: -40.0}}  # of two levels of theory


def of_level(frames, name, named=True):
    info = {"head": name} if named else {}
    moved = (replace(f, info=info) for f in shifted(frames, OFFSETS[name]))
    return tuple(moved)


@pytest.fixture
def two_levels():
    """Frames of two levels of theory; those of the first do not name theirs."""
    frames = (
        *of_level(molecules(8, seed=3), "pbe", False),
        *of_level(molecules(6, seed=4), "ccsd"),
    )
    return PotentialData(
        AtomicSplit("two levels", AtomicFrames(frames)),
        AtomicFrames((*frames[:6], *frames[8:12])),
        AtomicFrames((*frames[6:8], *frames[12:])),
    )


def test_levels_of_theory_have_heads_of_their_own(config, two_levels, tmp_path):
    task = InteratomicPotential()
    config = replace(config, heads=("pbe", "ccsd"), recipe=replace(config.recipe, epochs=20))
    trained = task.train(config, tmp_path / "a", data=two_levels)
    assert trained.heads.names == ("pbe", "ccsd")
    assert trained.heads["pbe"] is trained.model
    assert isinstance(trained.model, MessagePassingPotential)
    for name, seed in (("pbe", 5), ("ccsd", 6)):
        frames = AtomicFrames(of_level(molecules(4, seed=seed), name))
        assert trained.errors(frames).energy_mae < 500  # levels differ by 70 eV
    assert trained.errors(two_levels.validation).energy_mae < 500  # of both
    weights = [trained.heads[name].layers[-1].readout.layer1.weight for name in ("pbe", "ccsd")]
    assert not torch.equal(*weights)
    # Each head has uncertainties of its own.
    found = [f.info["energy_uncertainty"] for f in trained.predict_frames(two_levels.validation)]
    for name, frames in (("pbe", slice(0, 2)), ("ccsd", slice(2, 4))):
        batch = two_levels.validation[frames]
        source = AtomicSource.of_frames(batch, CUTOFF).batch([0, 1]).inputs.atoms
        out = trained.heads[name](source, features=True)
        assert trained.uncertainty_of(name)(out, source)[0].tolist() == pytest.approx(found[frames])
    assert trained.uncertainty is trained.uncertainty_of("pbe")
    state = {n: x for n, x in trained.novelty.state_dict().items() if n[0] != "1"}
    old = read_uncertainty(state, trained.heads)  # of an earlier version
    assert [each is None for each in old.heads] == [False, True]
    found = evaluate_potential(trained, two_levels).sets
    assert {name: row["frames"] for name, row in found.items()} == {
        "validation, pbe": 2, "validation, ccsd": 2
    }  # fmt: skip
    assert not task.train(config, tmp_path / "b", data=two_levels, callbacks=time_limit(1e-9)
                          ).is_finished  # fmt: skip
    parts = task.train(config, tmp_path / "b", data=two_levels, resume=True)
    assert_same_state(trained.heads.state_dict(), parts.heads.state_dict())
    parts.to(torch.device("meta"))
    assert all(value.is_meta for value in parts.heads.state_dict().values())
    third = AtomicFrames(of_level(molecules(6, seed=7), "ccsd", False))  # levels begin anew
    again = replace(config, heads=("mp2", "ccsd"), start_from=str(tmp_path / "a" / "model.ckpt"))
    heads = task.plan(again, PotentialData(AtomicSplit("new", third), third, third)).model
    assert torch.equal(heads["ccsd"].e0, trained.heads["ccsd"].e0)
    assert not torch.equal(heads["mp2"].e0, trained.model.e0)
    for name, own in (("ccsd", trained.heads["ccsd"]), ("mp2", trained.model)):
        found, kept = (x.layers[-1].readout.layer1.weight for x in (heads[name], own))
        assert torch.equal(found, kept)
    other = replace(two_levels, validation=AtomicFrames(of_level(molecules(2), "ccsd")))
    other = replace(other, train=AtomicFrames(tuple(
        replace(f, info={"head": "mp2"}) for f in other.train)))  # fmt: skip
    with pytest.raises(ValueError, match="frame 0 has the head 'mp2', expected pbe, ccsd"):
        task.plan(config, other)
    with pytest.raises(ValueError, match="no training frame has the head 'mp2'"):
        task.plan(replace(config, heads=("pbe", "ccsd", "mp2")), two_levels)
    for heads, head in ((("a",), ""), (("a", "a"), ""), (("a", ""), ""), (("a", "b"), "c")):
        with pytest.raises(ValueError, match="heads must be two or more different names"):
            replace(config, heads=heads, head=head)


@pytest.mark.parametrize("lora", [0, 2])
def test_heads_of_any_order_keep_their_read_outs_and_references(config, two_levels, tmp_path, lora):
    task, config = InteratomicPotential(), replace(config, heads=("pbe", "ccsd"))
    first = task.train(config, tmp_path / "a", data=two_levels).heads
    start_from = str(tmp_path / "a" / "model.ckpt")
    none = AtomicFrames(tuple(replace(f, energy=None) for f in two_levels.train))  # no shifts
    for heads in (("ccsd", "pbe"), ("pbe", "ccsd"), ("ccsd", "pbe", "mp2")):
        again = replace(config, heads=heads, head="pbe", start_from=start_from, lora=lora)
        again = replace(again, energy_weight=0.0)
        plan = task.plan(again, replace(two_levels, train=none))
        found, batch = plan.model.eval(), plan.train.parts[0].atoms
        for name in heads:
            own = first[name if name in first.names else "pbe"]
            assert torch.equal(found[name].e0, own.e0), (heads, name)
            assert torch.equal(found[name](batch).energy, own(batch).energy), (heads, name)
    assert not torch.equal(*(first[name](batch).energy for name in first.names))


@pytest.mark.parametrize("place", ["train.xyz", "isolated.xyz"])
def test_isolated_atoms_belong_to_their_heads(config, two_levels, tmp_path, place):
    pytest.importorskip("ase", reason="needs ase")
    known = {"": {1: -1.0}, "pbe": {6: -2.0}, "ccsd": {1: -3.0, 6: -4.0}}
    alone = [
        AtomicFrame(torch.tensor([z]), torch.zeros(1, 3).double(), energy=energy,
                    forces=torch.zeros(1, 3).double(), info={"head": name} if name else {})
        for name, energies in known.items() for z, energy in energies.items()
    ]  # fmt: skip
    files = {"train.xyz": [*two_levels.split.train]}
    files[place] = [*files.get(place, []), *alone]
    for name, frames in files.items():
        (tmp_path / name).write_text(format_extxyz(frames))
    config = replace(config, heads=("pbe", "ccsd"), data=str(tmp_path), subset="")
    data = load_frames(config)
    assert data.split.isolated == {1: -3.0, 6: -4.0}  # the lowest, for runs without heads
    model = InteratomicPotential().plan(config, data).model
    assert {name: model[name].e0.tolist() for name in config.heads} == {
        "pbe": [-1.0, -2.0], "ccsd": [-3.0, -4.0]
    }  # fmt: skip
    levels = {"mp2": known["ccsd"]}
    other = replace(data, split=replace(data.split, isolated_by_head=levels))
    with pytest.raises(ValueError, match="atoms have the head 'mp2', expected pbe, ccsd"):
        InteratomicPotential().plan(config, other)


def test_frames_of_two_levels_need_heads(config, two_levels):
    task = InteratomicPotential()
    task.plan(config, two_levels)  # one level is named, and the other frames may be of it
    named = AtomicFrames(of_level(molecules(4), "pbe"))
    for changes in ({"validation": named}, {"replay": data_of(named)}):
        with pytest.raises(ValueError, match="have the heads ccsd, pbe; name them with --heads"):
            task.plan(config, replace(two_levels, **changes))
    for levels, message in (
        ({"pbe": {1: -1.0}}, "have the heads ccsd, pbe; name them with --heads"),
        ({"": {1: -1.0}, "ccsd": {1: -1.5}}, "two levels: isolated atoms of H have other energies"),
    ):
        isolated = {z: e for level in levels.values() for z, e in level.items()}
        split = replace(two_levels.split, isolated=isolated, isolated_by_head=levels)
        with pytest.raises(ValueError, match=message):
            task.plan(config, replace(two_levels, split=split))


def test_batches_of_two_levels_have_the_gradients_of_their_parts(config, two_levels):
    plan = InteratomicPotential().plan(replace(config, heads=("pbe", "ccsd")), two_levels)
    batch = plan.train.divided_batch([9, 0, 7, 1])
    assert [part.inputs.head for part in batch.parts] == [0, 1]
    loss, _ = sums_of_parts(plan.objective, plan.model, batch)
    loss.backward()
    found = {name: x.grad.clone() for name, x in plan.model.named_parameters()}
    plan.model.zero_grad()
    for head, chosen in (("pbe", [0, 1]), ("ccsd", [9, 7])):
        plan.objective.sums(plan.model[head], plan.train.batch(chosen))[0].backward()
    for name, x in plan.model.named_parameters():
        torch.testing.assert_close(found[name], x.grad, **tolerance(torch.float32, 100))


def test_losses_of_two_levels_are_means_over_the_labels_of_the_step(config, two_levels):
    few = [AtomicFrames(tuple(replace(
        f, numbers=f.numbers[:2], positions=f.positions[:2], forces=f.forces[:2]
    ) if f.info else f for f in x)) for x in (two_levels.train, two_levels.validation)]  # fmt: skip
    data = PotentialData(two_levels.split, *few)
    plan = InteratomicPotential().plan(replace(config, heads=("pbe", "ccsd")), data)
    batch = EpochBatches(plan.train, len(plan.train), seed=0, epoch=0)[0]
    loss, measure = sums_of_parts(plan.objective, plan.model, batch)
    errors, forces = [], []
    for part in batch.parts:
        x = part.inputs
        found = plan.model.potentials[x.head](x.atoms, forces=True)
        errors.append((found.energy - x.energy) / x.counts)
        forces.append((found.forces - x.forces).flatten())
    energy, force = (torch.cat(x) for x in (errors, forces))
    assert {len(part.labels) for part in batch.parts} == {4, 6}
    expected = config.energy_weight * energy.square().mean()
    expected = expected + config.forces_weight * force.square().mean()
    close = tolerance(torch.float32, 100)["rtol"]
    assert loss.item() / batch.total == pytest.approx(expected.item(), rel=close)
    assert measure.item() / batch.total == pytest.approx(1e3 * force.abs().mean().item(), rel=close)


@pytest.mark.parametrize("lora", [0, 2])
def test_replayed_frames_of_another_level_keep_their_head(
    tuned, start, old_and_new, tmp_path, capsys, lora
):
    frames = AtomicFrames(of_level(molecules(20, seed=8), "ccsd", False))
    (tmp_path / "new.xyz").write_text(format_extxyz(frames))
    config = replace(tuned, heads=("ccsd", "pbe"), lora=lora, **old_and_new)
    trained = InteratomicPotential().train(config, tmp_path / "run")
    first = TrainedPotential.load(start).model
    assert torch.equal(trained.heads["pbe"].e0, first.e0)
    shift = (trained.model.e0 - first.e0) @ torch.tensor([3.0, 2.0], dtype=torch.float64)
    assert shift == pytest.approx(-71.0, abs=1.0)  # eV; errors of the start are smaller
    data = load_frames(config)
    found = evaluate_potential(trained, data).sets
    assert [*found] == ["validation, ccsd", "test, ccsd", "replay validation, pbe"]
    assert found["test, ccsd"]["energy MAE (meV)"] < 1000
    checkpoint, file = str(tmp_path / "run" / "model.ckpt"), str(tmp_path / "new.xyz")
    energies = []
    for options in ((), ("--head", "ccsd"), ("--head", "pbe")):
        form = ("--format", "json", "--output", str(tmp_path))
        assert main(["predict", checkpoint, file, *options, *form]) == 0
        written = json.loads((tmp_path / "new.predicted.json").read_text())
        energies.append(written["frames"][0]["energy"])
    assert energies[0] == energies[1]
    # eV, as above
    assert energies[0] - energies[2] == pytest.approx(-71.0, abs=1.0)
    capsys.readouterr()
    assert main(["predict", checkpoint, file, "--head", "mp2"]) == 2
    assert "head one of them, got ['ccsd', 'pbe'] and 'mp2'" in capsys.readouterr().err
