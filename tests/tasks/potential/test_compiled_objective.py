import copy
import pickle
from dataclasses import replace
from functools import partial
from typing import get_args

import pytest
import torch
from torch import nn

from equigeo._core import tensors as torch_internals
from equigeo.datasets import AtomicFrames
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.potentials.config import ProductName
from equigeo.tasks.potential import AtomicSource, EnergyForcesStress, InteratomicPotential
from equigeo.tasks.potential.objective import CompiledObjective
from equigeo.testing import tolerance
from tests.tasks.potential.frames import CUTOFF, crystals, molecules, small_config
from tests.tier import tier
from tests.wrong_inputs import refused

SMALL = {"cutoff": CUTOFF, "channels": 2, "lmax_edge": 1, "correlation": 1, "layers": 1}
# Three passes of a model, each a chain of tens of roundings, whose terms cancel in the gradients.
SAME = 1e3 * tolerance(torch.float32, 64)["rtol"]


@pytest.fixture
def programs(monkeypatch):
    """Recorded and read as always, but run op by op: machine code takes a minute to make."""
    made = []
    compile_program = torch.compile

    def compile_quickly(program):
        made.append(program)
        return compile_program(program, backend="eager")

    monkeypatch.setattr(torch_internals.torch, "compile", compile_quickly)
    torch._dynamo.reset()
    yield made
    torch._dynamo.reset()


def potential(frames, **settings):
    torch.manual_seed(0)
    model = MessagePassingPotential(PotentialConfig(frames.species, **{**SMALL, **settings}))
    return model.train()


def gradients(objective, model, batch):
    loss, measure = objective.sums(model, batch)
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    return [loss.detach(), measure, *found]


def assert_same(objective, model, batch):
    got = gradients(objective, model, batch)
    want = gradients(objective.objective, model, batch)
    for ours, theirs in zip(got, want, strict=True):
        assert (ours is None) == (theirs is None)
        if theirs is not None:
            torch.testing.assert_close(
                ours, theirs, rtol=SAME, atol=SAME * float(theirs.abs().max())
            )


IONS = {"charges": (0, 1)}


@pytest.mark.parametrize("settings", tier([IONS], [{}, {**IONS, "layers": 2, "correlation": 2}]))
def test_one_program_serves_all_batches_and_weights_of_a_model(settings, programs):
    frames = molecules(9)
    alone = AtomicFrames(tuple(frames)[:1], "one")
    model = potential(frames, **settings)
    objective = CompiledObjective(EnergyForcesStress(1.0, 100.0))
    ions = (replace(f, info={"charge": k % 2}) for k, f in enumerate(frames))
    source = AtomicSource.of_frames(AtomicFrames(tuple(ions)) if settings else frames, CUTOFF)
    for chosen in (range(3), range(4, 9), [1, 2], [0, 0, 0, 5], [7]):
        assert_same(objective, model, source.batch(chosen))
    assert_same(objective, model, AtomicSource.of_frames(alone, CUTOFF).batch([0]))
    batch = source.batch(range(4))
    before = gradients(objective, model, batch)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    model.set_references([-13.0, -1000.0], 0.3, 2.0)
    assert_same(objective, model, batch)
    assert not torch.equal(before[0], gradients(objective, model, batch)[0])
    assert len(programs) == 1
    check_refusals(objective, model, batch)
    copied = pickle.loads(pickle.dumps(objective))  # other processes receive no programs
    assert copied == objective
    assert not copied._programs


def check_refusals(objective, model, batch):
    unknown = copy.deepcopy(batch)
    unknown.inputs.atoms.numbers[0] = 8
    refused("atomic numbers must be among", objective.sums, model, unknown)
    together = copy.deepcopy(batch)
    together.inputs.atoms.positions[1] = together.inputs.atoms.positions[0]
    refused("must not coincide", objective.sums, model, together)
    with pytest.raises(TypeError, match="steps of a MessagePassingPotential can be compiled"):
        objective.sums(nn.Linear(3, 3), batch)


BOTH = AtomicFrames((*molecules(2), *crystals(4)), "both")
FEW = molecules(3)
# Frames, weights, settings and batches: molecules have no stress and no cell, which is a program.
RECORDED = [
    (BOTH, (1.0, 10.0, 100.0), {}, [range(6), [2, 3], [0, 1]], 2),
    (BOTH, (1.0, 10.0, 100.0, 0.0, 0.0, 0.05), {}, [range(6)], 1),
    (FEW, (1.0, 0.0), {}, [range(3)], 1),
    *((FEW, (1.0, 100.0), {"product": name}, [range(3)], 1) for name in get_args(ProductName)),
]


@pytest.mark.full
@pytest.mark.parametrize(("frames", "weights", "settings", "batches", "number"), RECORDED)
def test_frames_weights_and_products_can_be_recorded(
    frames, weights, settings, batches, number, programs
):
    objective = CompiledObjective(EnergyForcesStress(*weights))
    model, source = potential(frames, **settings), AtomicSource.of_frames(frames, CUTOFF)
    for chosen in batches:
        assert_same(objective, model, source.batch(chosen))
    assert len(programs) == number


@pytest.mark.full
def test_another_precision_is_another_program(programs):
    frames = molecules(3)
    model, objective = potential(frames).double(), CompiledObjective(EnergyForcesStress(1.0, 1.0))
    for dtype in (torch.float64, torch.float32):
        source = AtomicSource.of_frames(frames, CUTOFF, dtype)
        assert_same(objective, model.to(dtype), source.batch(range(3)))
    assert len(programs) == 2
    model.set_references([-13.0, -1000.0], 0.3)  # read by the program, whatever it was moved from
    assert_same(objective, model, source.batch(range(3)))
    assert len(programs) == 2


@pytest.mark.full
def test_parameters_that_are_unfrozen_or_exchanged_are_learned(programs):
    frames = molecules(4)
    model, objective = potential(frames), CompiledObjective(EnergyForcesStress(1.0, 100.0))
    batch = AtomicSource.of_frames(frames, CUTOFF).batch(range(4))
    model.embedding.requires_grad_(False)
    objective.sums(model, batch)
    model.embedding.requires_grad_(True)
    assert_same(objective, model, batch)
    assert len(programs) == 2
    model.embedding.weight = nn.Parameter(1.1 * model.embedding.weight.detach())
    assert_same(objective, model, batch)
    assert len(programs) == 3


@pytest.mark.full
def test_a_run_that_is_compiled_ends_where_it_would_otherwise(folder, tmp_path, programs):
    runs = {
        compiled: InteratomicPotential().train(
            small_config(folder, compile=compiled), tmp_path / str(compiled)
        )
        for compiled in (False, True)
    }
    assert len(programs) == 1
    # Adam divides by the size of gradients: a few steps multiply the rounding of small ones.
    close = partial(torch.testing.assert_close, rtol=1e2 * SAME, atol=1e2 * SAME)
    for a, b in zip(*(run.model.parameters() for run in runs.values()), strict=True):
        close(a, b)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_machine_code_gives_the_same():
    torch._dynamo.reset()
    frames = molecules(4)
    model = potential(frames)
    objective = CompiledObjective(EnergyForcesStress(1.0, 100.0))
    source = AtomicSource.of_frames(frames, CUTOFF)
    for chosen in (range(4), range(1, 3)):
        assert_same(objective, model, source.batch(chosen))
    torch._dynamo.reset()
