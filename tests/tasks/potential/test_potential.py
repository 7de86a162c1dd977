import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from equigeo.datasets import AtomicFrame, AtomicFrames, AtomicSplit, format_extxyz
from equigeo.potentials import AtomicBatch, MessagePassingPotential, PotentialConfig
from equigeo.potentials.batch import PotentialOutput
from equigeo.tasks.potential import (
    AtomicSource,
    EnergyForcesStress,
    FrameErrors,
    InteratomicPotential,
    PotentialData,
    PotentialRunConfig,
    TrainedPotential,
    evaluate_potential,
    load_frames,
    measure_errors,
)
from equigeo.tasks.potential.data import frame_digests
from equigeo.tasks.potential.errors import describe_offset, format_predictions, potential_table
from equigeo.tasks.potential.start import check_known, reference_energies, reference_source
from equigeo.testing import tolerance
from equigeo.training.data import EpochBatches
from tests.tasks.potential.frames import CUTOFF, crystals, molecules, slabs
from tests.wrong_inputs import refused


@pytest.mark.parametrize("frames", [molecules(5), crystals(5)], ids=["molecules", "crystals"])
def test_batches_are_those_of_lists_built_anew(frames):
    source = AtomicSource.of_frames(frames, CUTOFF, torch.float64)
    chosen = [3, 0, 4]
    samples = source.batch(chosen).inputs
    expected = AtomicBatch.from_systems(
        [(f.numbers, f.positions, f.cell, f.pbc) for f in frames.select(chosen)],
        CUTOFF,
        dtype=torch.float64,
    )
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


def test_molecules_and_crystals_share_a_batch_and_missing_labels_are_nan():
    both = AtomicFrames((*molecules(1), *crystals(2)), "both")
    samples = AtomicSource.of_frames(both, CUTOFF).batch([1, 0, 2]).inputs
    assert samples.atoms.pbc.all(1).tolist() == [True, False, True]
    assert samples.atoms.cell[1].abs().sum() == 0
    assert samples.stress.isnan().all(2).all(1).tolist() == [False, True, False]
    bare = [replace(f, energy=None, forces=None) for f in molecules(2)]
    samples = AtomicSource.of_frames(AtomicFrames(tuple(bare)), CUTOFF).batch([0, 1]).inputs
    assert bool(samples.energy.isnan().all())
    assert samples.forces.shape == (10, 3)
    assert bool(samples.forces.isnan().all())


def test_few_frames_at_a_time_are_all_and_neighbors_are_counted(monkeypatch):
    monkeypatch.setattr("equigeo.tasks.potential.data._EDGES", 50)
    source = AtomicSource.of_frames(molecules(7), CUTOFF)
    parts = list(source.few_at_a_time())
    assert len(parts) > 2
    assert torch.cat([part.energy for part in parts]).tolist() == [f.energy for f in molecules(7)]
    source = AtomicSource.of_frames(crystals(4), CUTOFF)
    edges = sum(part.atoms.edge_index.shape[1] for part in source.parts)
    assert source.avg_neighbors == pytest.approx(edges / 6)


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


@pytest.fixture
def load(config, tmp_path):
    """Load frames from a file in extended XYZ."""
    pytest.importorskip("ase", reason="needs ase")

    def load(text, **changes):
        (tmp_path / "train.xyz").write_text(text)
        changes = {"data": str(tmp_path / "train.xyz"), "subset": ""} | changes
        return load_frames(replace(config, **changes))

    return load


def test_labels_that_are_to_be_learned_are_needed(load):
    good = '2\nProperties=species:S:1:pos:R:3:forces:R:3 energy=-1 pbc="F F F"\n' \
        "H 0 0 0 1 0 0\nH 0.8 0 0 -1 0 0\n"  # fmt: skip
    bare = '2\nProperties=species:S:1:pos:R:3 energy=-1 pbc="F F F"\nH 0 0 0\nH 0.8 0 0\n'
    text = good * 5 + bare + good
    refused(r"train\.xyz: frame 5 has no forces \(1 of 7", load, text, validation=2)
    assert len(load(text, validation=2, forces_weight=0.0).train) == 5
    with pytest.raises(ValueError, match=r"train\.xyz: frame 1 has no energy.*has forces, energy"):
        load(good + bare.replace("energy=-1", ""), validation=1)


def test_frames_in_two_parts_are_counted(config, load):
    data = load(format_extxyz([*molecules(10)] * 3), validation=3)
    parts = [data.train, data.validation, data.split.tests["test"]]
    assert [len(part) for part in parts] == [24, 3, 3]
    seen = {f.positions.numpy().tobytes() for f in data.train}
    counts = [sum(f.positions.numpy().tobytes() in seen for f in part) for part in parts[1:]]
    said = f"repeated: {counts[0]} of 3 frames of validation, {counts[1]} of 3 frames of test"
    assert min(counts) > 0
    assert said in data.split.remark
    shown = InteratomicPotential().describe(config, data)
    assert "24 training, 3 validation and 3 test frames, 3 frames drawn at random are" in shown
    assert said in shown
    assert "repeated" not in load(format_extxyz(molecules(30)), validation=3).split.remark


@pytest.mark.parametrize("isolated", ["open", "periodic", "named"])
def test_isolated_atoms_are_references(load, isolated):
    frames = list(crystals(8))
    length = {"open": 0.0, "periodic": CUTOFF + 0.1, "named": CUTOFF - 0.1}[isolated]
    alone = replace(
        frames[0], energy=-7.0, stress=None, pbc=(isolated != "open",) * 3,
        cell=length * torch.eye(3).double(),
        info={"config_type": "IsolatedAtom"} if isolated == "named" else {},
    )  # fmt: skip
    excited = replace(alone, energy=-6.0)
    data = load(format_extxyz([alone, *frames, excited]), validation=2)
    # frames 0 and 9 are atoms alone; of the others, none is a tenth
    assert (data.split.isolated, len(data.split.train)) == ({6: -7.0}, 8)
    assert reference_energies(data) == [-7.0]
    close = replace(alone, cell=(CUTOFF - 0.1) * torch.eye(3).double(), pbc=(True,) * 3, info={})
    assert not load(format_extxyz([close, *frames]), validation=2).split.isolated


def test_labels_are_found_by_the_keys_of_a_run(config, load, tmp_path):
    text = format_extxyz(crystals(6)).replace("energy", "E").replace("forces", "F")
    text = text.replace("stress", "S")
    keys = {"energy_key": "E", "forces_key": "F", "stress_key": "S"}
    keys |= {"validation": 2, "stress_weight": 100.0}
    data = load(text, **keys)
    assert data.split.train[0].energy == crystals(1)[0].energy
    assert torch.equal(data.split.train[0].stress, crystals(1)[0].stress)
    weighed = replace(config, stress_weight=100.0)
    assert "(stresses in 4 training frames)" in InteratomicPotential().describe(weighed, data)
    with pytest.raises(ValueError, match=r"frame 0 has no forces .*; the file has F, E, S"):
        load(text, **(keys | {"forces_key": "G"}))
    with pytest.raises(ValueError, match=r"no frame .* has a stress, .* 100; the file has F, E, S"):
        load(text, **(keys | {"stress_key": ""}))
    other = (tmp_path / "train.xyz").rename(tmp_path / "train.npz")
    refused("keys and units are those of extended", load, text, **keys | {"data": str(other)})
    assert load(text, **keys, units="meV A").train[0].energy == pytest.approx(
        1e-3 * data.train[0].energy
    )
    refused("units must be an energy", replace, config, units="eV")


def test_an_isolated_atom_of_one_element_is_its_reference(config):
    frames = molecules(4)
    split = AtomicSplit("chains", frames, isolated={1: -12.0})
    data = PotentialData(split, frames, frames)
    mean = sum(f.energy for f in frames) / 4
    # C2H3, whose three hydrogen atoms are fixed
    assert reference_energies(data) == [-12.0, pytest.approx((mean + 36) / 2)]
    assert reference_source(data, config) == "isolated atoms (H) and least squares (C)"
    known = replace(data, split=replace(split, isolated={1: -13.0, 6: -1000.0}))
    assert reference_energies(known) == [-13.0, -1000.0]
    assert reference_source(known, config) == "isolated atoms"


def ions(number=12):
    """Molecules of which every third has a charge, and every fourth a spin, with energies."""
    frames = []
    for k, frame in enumerate(molecules(number, seed=4)):
        info = {"charge": -1} if k % 3 == 1 else {"spin": 3} if k % 4 == 2 else {}
        shift = 2.0 * len({"charge"} & info.keys()) + 1.0 * len({"spin"} & info.keys())
        frames.append(replace(frame, energy=frame.energy + shift, info=info))
    return AtomicFrames(tuple(frames), "ions")


def test_charges_and_spins_of_frames_are_learned(config, tmp_path):
    frames = ions(24)
    data = PotentialData(AtomicSplit("ions", frames), frames[:-4], frames[-4:])
    recipe = replace(config.recipe, epochs=60, learning_rate=0.02)
    config = replace(config, inputs=("charge", "spin"), recipe=recipe, energy_weight=100.0)
    InteratomicPotential().train(config, tmp_path / "run", data=data)
    again = TrainedPotential.load(tmp_path / "run" / "model.ckpt")
    assert again.model.config.charges == (-1, 0)
    assert again.model.config.spins == (1, 3)
    bare = AtomicFrames(tuple(replace(f, info={}) for f in frames[-4:]))
    assert again.errors(frames[-4:]).energy_mae < 0.5 * again.errors(bare).energy_mae
    other, wrong = (
        AtomicFrames((frames[0], replace(frames[1], info={"charge": x})), "other") for x in (2, "x")
    )
    known = "other: frame 1 has the charge 2, and the potential knows -1, 0 alone"
    refused(known, again.errors, other)
    refused("frame 1: charge must be an integer, got 'x'", AtomicSource.of_frames, wrong, CUTOFF)
    usual = PotentialData(AtomicSplit("one", molecules(8)), molecules(6), molecules(2))
    make = InteratomicPotential().plan
    refused("all frames have the charge 0; leave charge out", make, config, usual)
    refused("inputs must be among charge, spin, got", replace, config, inputs=("magmom",))
    plan = make(replace(config, inputs=()), data)
    with pytest.warns(UserWarning, match="energies do not depend on the"):
        plan.evaluate(plan.model)


CHARGES = {1: -0.2, 6: 0.3}  # of C2H3, which is neutral


def polar(number, seed=0):
    """Molecules of point charges, whose polarizabilities are those of atoms and of pairs."""
    frames = []
    for frame in molecules(number, seed):
        x, charges = frame.positions, [CHARGES[z] for z in frame.numbers.tolist()]
        dipole = x.new_tensor(charges) @ x
        v = x[:, None] - x
        r = v.norm(dim=-1).clamp(min=0.1)
        near = (1 - (r / CUTOFF) ** 2).clamp(min=0) ** 3
        pairs = torch.einsum("ij,ija,ijb->ab", near / r**2, v, v)
        alpha = 4.2 * torch.eye(3).double() + 0.2 * pairs
        info = {"dipole": dipole.numpy(), "polarizability": alpha.numpy()}
        frames.append(replace(frame, info=info))
    return AtomicFrames(tuple(frames), "polar")


def test_dipoles_and_polarizabilities_are_learned(config, tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    (tmp_path / "train.xyz").write_text(format_extxyz(polar(80)))
    (tmp_path / "test.xyz").write_text(format_extxyz(polar(6, seed=1)))
    recipe = replace(config.recipe, epochs=40, learning_rate=0.02, batch_size=10)
    weights = {"dipole_weight": 100.0, "polarizability_weight": 30.0, "forces_weight": 0.0}
    config = replace(config, data=str(tmp_path), subset="", recipe=recipe, lmax_edge=2, **weights)
    trained = InteratomicPotential().train(config, tmp_path / "run")
    assert trained.model.config.outputs == ("dipole", "polarizability")
    errors = trained.errors(load_frames(config).split.tests["test"])
    found = errors.summary()
    # all that is known of molecules of any orientation without their positions
    middle = errors.polarizability_label.diagonal(dim1=1, dim2=2).mean() * torch.eye(3)
    for name, unit, mean in (("dipole", "me A", 0.0), ("polarizability", "1e-3 A^3", middle)):
        spread = 1e3 * (getattr(errors, f"{name}_label") - mean).abs().mean().item()
        assert found[f"{name} MAE ({unit})"] < 0.5 * spread
        assert f"validation_{name}_mae" in trained.history[-1]
    predicted = trained.predict_frames(polar(2, seed=1))
    assert predicted[0].info["dipole"].tolist() == errors.dipole[0].tolist()
    written = json.loads(format_predictions(predicted, Path("a.xyz"))[".predicted.json"])
    assert np.shape(written["frames"][0]["polarizability"]) == (3, 3)
    plain = trained.predict_frames(crystals(1))
    assert {"dipole", "polarizability"} & {*plain[0].info} == {"polarizability"}
    again = replace(config, start_from=str(tmp_path / "run" / "model.ckpt"), dipole_weight=0.0)
    task = InteratomicPotential()
    assert task.plan(again, load_frames(again)).model.config.outputs == trained.model.config.outputs


def test_dipoles_that_cannot_be_learned_are_one_error(config):
    def plan(frames, name="dipole"):
        data = PotentialData(AtomicSplit("new", frames), frames, frames)
        weights = {f"{name}_weight": 1.0, "lmax_edge": 2}
        return InteratomicPotential().plan(replace(config, **weights), data)

    crystal = replace(crystals(1)[0], info={"dipole": [0.0, 0.0, 1.0]})
    periodic = AtomicFrames((*molecules(2), crystal), "cells")
    refused("cells: frame 2: a dipole needs pbc=False", plan, periodic)
    assert (
        InteratomicPotential()
        .plan(config, PotentialData(AtomicSplit("cells", periodic), periodic, periodic))
        .train.parts[2]
        .dipole.isnan()
        .all()
    )
    for name, value in (("dipole", [1.0, 2.0]), ("polarizability", [math.inf] * 9)):
        wrong = AtomicFrames((replace(molecules(1)[0], info={name: value}),), "wrong")
        refused(f"wrong: frame 0: {name} must be ", plan, wrong, name)


def test_frames_that_differ_in_their_charge_are_no_repetitions(tmp_path):
    pytest.importorskip("ase", reason="needs ase")
    ion = replace(molecules(1)[0], info={"charge": 1})
    assert len({*frame_digests(AtomicFrames((molecules(1)[0], ion))).tolist()}) == 2
    alone = [
        AtomicFrame(torch.tensor([6]), torch.zeros(1, 3).double(), energy=energy,
                    forces=torch.zeros(1, 3).double(), info={"charge": charge})
        for charge, energy in ((0, -1000.0), (-1, -1001.0))
    ]  # fmt: skip
    (tmp_path / "train.xyz").write_text(format_extxyz([*molecules(6), *alone]))
    split = load_frames(PotentialRunConfig(str(tmp_path), validation=2)).split
    assert split.isolated == {6: -1000.0}  # of the neutral atom
    assert len(split.train) == 7


def test_unknown_elements_and_too_many_edges_name_the_frame(trained):
    frames = molecules(2)
    with pytest.raises(ValueError, match="chains: frame 0 has C, and the potential knows H alone"):
        check_known(frames, PotentialConfig((1,)))
    check_known(frames, PotentialConfig((1, 6, 8)))
    refused("crystals: frame 0: ", AtomicSource.of_frames, crystals(1), 1e6)
    foreign = replace(frames[1], numbers=torch.tensor([6, 6, 1, 8, 7]))
    mixed = AtomicFrames((frames[0], foreign, frames[0]), "mixed")
    refused("mixed: frame 1 has N O, and the potential knows H C", trained.predict_frames, mixed)


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


# Forces of order one are float32, and so are their differences of two tenths.
ROUNDING = tolerance(torch.float32)["rtol"]


class Off(nn.Module):
    """Labels with known errors."""

    def __init__(self, energy, force, stress):
        super().__init__()
        self.errors, self.samples = (energy, force, stress), None

    def forward(self, atoms, forces=True, stress=False):
        energy, force, tension = self.errors
        return PotentialOutput(
            self.samples.energy.nan_to_num() + energy,
            torch.zeros(0),
            self.samples.forces.nan_to_num() + force if forces else None,
            self.samples.stress.nan_to_num() + tension if stress else None,
        )


BARE = replace(molecules(1)[0], energy=None, forces=None)
ENERGY, FORCE, STRESS = (0.5 / 5) ** 2, 0.2**2, 0.1**2  # mean squares of a frame
# Totals of 2000 have units of 2.3e-13 in float64, 2.3e-9 of the difference, which is squared.
DIGITS = 1e-8
LOSSES = {
    "both": (molecules(3), (2.0, 10.0), 2 * ENERGY + 10 * FORCE, 200, ROUNDING),
    "both by Huber": (
        molecules(3), (2.0, 10.0, 0.0, 0.0, 0.0, 0.05),
        2 * 0.05 * (2 * 0.1 - 0.05) + 10 * 0.05 * (2 * 0.2 - 0.05), 200, ROUNDING,
    ),
    "energies": (molecules(3), (2.0, 0.0), 2 * ENERGY, 100, DIGITS),
    "stresses": (crystals(4), (0.0, 0.0, 7.0), 7 * STRESS, None, DIGITS),
    "a frame without labels": (
        AtomicFrames((*molecules(1), BARE)), (1.0, 1.0), ENERGY + FORCE, None, ROUNDING
    ),
    "a frame without a cell": (
        AtomicFrames((*molecules(1), *crystals(1))), (0.0, 0.0, 1.0), STRESS, None, DIGITS
    ),
    "no labels": (AtomicFrames((BARE,)), (1.0, 1.0), 0.0, 0.0, 0.0),
}  # fmt: skip


def losses(model, frames, *weights, stress=None):
    """Loss and measure of a frame, on average."""
    batch = AtomicSource.of_frames(frames, CUTOFF).batch(range(len(frames)))
    model.samples = batch.inputs
    if stress is not None:
        batch.inputs.stress[0] = stress
    return [found.item() / len(frames) for found in EnergyForcesStress(*weights).sums(model, batch)]


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_is_the_weighted_sum_of_mean_squares_of_labels(name):
    frames, weights, loss, measure, rel = LOSSES[name]
    found = losses(Off(0.5, 0.2, 0.1), frames, *weights)
    assert found[0] == pytest.approx(loss, rel=rel)
    assert measure is None or found[1] == pytest.approx(measure, rel=rel)


def test_tiny_huber_deltas_are_refused():
    with pytest.raises(ValueError, match="huber_delta must be 0 or at least 1e-09, got 1e-12"):
        EnergyForcesStress(1.0, 1.0, huber_delta=1e-12)


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_add_up_to_the_loss_of_one(processes):
    frames = AtomicFrames((*molecules(3), BARE, *crystals(5)))
    source = AtomicSource.of_frames(frames, CUTOFF, torch.float64)
    objective = EnergyForcesStress(1.0, 100.0, 10.0)
    torch.manual_seed(0)
    config = PotentialConfig(frames.species, CUTOFF, channels=4, lmax_edge=1)
    model = MessagePassingPotential(config).double()

    def sums(process, number):
        batches = EpochBatches(
            source, len(frames), seed=3, epoch=0, process=process, num_processes=number
        )
        loss, measure = objective.sums(model, batches[0])
        return [loss, measure, *torch.autograd.grad(loss, list(model.parameters()))]

    whole = sums(0, 1)
    shares = [
        sum(terms) for terms in zip(*(sums(k, processes) for k in range(processes)), strict=True)
    ]
    for found, expected in zip(shares, whole, strict=True):
        size = expected.abs().max()
        torch.testing.assert_close(found / size, expected / size, **tolerance(torch.float64, 100))


def test_totals_do_not_lose_digits_to_single_precision():
    assert min(abs(frame.energy) for frame in molecules(3)) > 1900
    loss, _ = losses(Off(1e-4, 0.0, 0.0), molecules(3), 1.0, 0.0)
    assert loss == pytest.approx((1e-4 / 5) ** 2, rel=DIGITS)


def test_nan_is_a_missing_label_but_no_missing_prediction_unless_there_is_no_volume():
    for weights in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)):
        model = Off(*(torch.nan if weight else 0.1 for weight in weights))
        assert math.isnan(losses(model, crystals(2), *weights)[0])
    both = AtomicFrames((*molecules(1), *crystals(1)))
    stress = torch.tensor([torch.nan, 0.1]).double()[:, None, None]
    loss, _ = losses(Off(0.0, 0.0, stress), both, 0.0, 0.0, 1.0, stress=7.0)
    assert loss == pytest.approx(0.1**2)


@pytest.mark.parametrize("frames", [molecules(3), crystals(3)], ids=["molecules", "crystals"])
def test_gradients_reach_every_parameter_and_none_is_nan(frames):
    torch.manual_seed(0)
    species = frames.species
    model = MessagePassingPotential(PotentialConfig(species, CUTOFF, channels=4, lmax_edge=1))
    batch = AtomicSource.of_frames(frames, CUTOFF).batch(range(3))
    stress = 1.0 if frames[0].stress is not None else 0.0
    loss, _ = EnergyForcesStress(1.0, 100.0, stress).sums(model.train(), batch)
    loss.backward()
    for name, parameter in model.named_parameters():
        assert bool(parameter.grad.isfinite().all()), name
        assert parameter.grad.abs().max() > 0, name


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


def errors_of(energy, force, counts=(2, 4)):
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
        periodic=False,
    )


def test_errors_are_per_molecule_or_per_atom_and_say_their_unit():
    found = errors_of([0.001, -0.003], 0.02)
    shown = found.summary()
    assert shown["energy MAE (meV)"] == pytest.approx(2.0)
    assert shown["energy RMSE (meV)"] == pytest.approx(5**0.5)
    assert shown["force MAE (meV/A)"] == pytest.approx(20)
    assert "stress MAE (meV/A^3)" not in shown
    periodic = replace(found, periodic=True).summary()
    assert periodic["energy MAE (meV/atom)"] == pytest.approx((0.5 + 0.75) / 2)
    assert [row["atoms"] for row in found.by_species().values()] == [2, 4]
    missing = replace(found, forces_label=torch.full((6, 3), torch.nan))
    assert missing.force_mae is None
    assert missing.by_species() == {}
    assert "force MAE (meV/A)" not in missing.summary()


def test_constant_errors_of_energies_are_told_from_their_spread():
    generator = torch.Generator().manual_seed(0)
    counts = torch.randint(1, 9, (50,), generator=generator)
    numbers = torch.where(torch.rand(int(counts.sum()), generator=generator) < 0.5, 1, 8)
    frame = torch.arange(50).repeat_interleave(counts)
    constant = torch.tensor([0.0, 0.05, *[0.0] * 6, -0.2]).double()[numbers]
    noise = 1e-3 * torch.randn(50, generator=generator).double()
    found = FrameErrors(
        energy=torch.zeros(50).double().index_add(0, frame, constant) + noise,
        energy_label=torch.zeros(50).double(),
        forces=torch.zeros(len(numbers), 3), forces_label=torch.zeros(len(numbers), 3),
        stress=torch.zeros(50, 3, 3), stress_label=torch.full((50, 3, 3), torch.nan),
        counts=counts, numbers=numbers,
    )  # fmt: skip
    bound = {"abs": 0.5}  # noise of 1 meV on 50 frames leaves less than 0.2 meV of an element
    assert found.energy_offsets == {1: pytest.approx(50, **bound), 8: pytest.approx(-200, **bound)}
    assert 0.7 < found.energy_spread < 1.3
    assert found.summary()["energy spread (meV)"] == found.energy_spread
    per_atom = replace(found, periodic=True)
    assert per_atom.energy_spread < 0.6 * found.energy_spread
    # One composition does not tell elements apart: the mean error per atom is the constant.
    assert "off by a constant" in describe_offset("test", found)
    assert "H +50." in describe_offset("test", found)
    assert not describe_offset("test", replace(found, energy=noise))
    alike = errors_of([0.001, 0.002], 0.0)
    assert describe_offset("test", alike) == ""  # of two frames
    assert alike.energy_offsets == {1: pytest.approx(0.5), 6: pytest.approx(0.5)}
    assert alike.energy_spread < 1e-9  # rounding of 1 meV
    nothing = replace(found, energy_label=torch.full((50,), torch.nan).double())
    assert nothing.energy_offsets == {}
    assert "energy spread (meV)" not in nothing.summary()


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


def test_stresses_of_slabs_are_over_the_cell_and_count_in_the_plane():
    source, model = AtomicSource.of_frames(slabs(2), CUTOFF, torch.float64), small_model().double()
    labels = torch.cat([part.stress for part in source.parts])
    plane = torch.ones(3, 3, dtype=torch.bool)
    plane[2] = plane[:, 2] = False
    assert labels.isnan().logical_not().equal(plane.expand(2, 3, 3))
    assert labels[:, plane].equal(torch.stack([frame.stress[plane] for frame in slabs(2)]))
    found = measure_errors(model, source, stress=True)
    assert len(found.stress_errors) == 2 * 4
    step, frame = 1e-6, slabs(2)[1]

    def energy(strain):
        moved = torch.eye(3, dtype=torch.float64) + strain
        system = (frame.numbers, frame.positions @ moved, frame.cell @ moved, frame.pbc)
        return model(AtomicBatch.from_systems([system], CUTOFF, dtype=torch.float64)).energy.item()

    for i, j in ((0, 0), (0, 1), (1, 1)):
        strain = torch.zeros(3, 3, dtype=torch.float64)
        strain[i, j] += step / 2
        strain[j, i] += step / 2
        slope = (energy(strain) - energy(-strain)) / (2 * step)
        # Central differences: distances near the cutoff limit their order, cancellation the step.
        want = pytest.approx(slope / frame.cell.det().item(), rel=1e-6, abs=1e-9)
        assert found.stress[1, i, j].item() == want


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
