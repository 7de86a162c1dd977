from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from equigeo.datasets import AtomicFrames
from equigeo.potentials import MessagePassingPotential, PotentialConfig
from equigeo.potentials.potential_output import PotentialOutput
from equigeo.tasks.potential import AtomicSource, EnergyForcesStress
from equigeo.testing import tolerance
from tests.tasks.potential.frames import CUTOFF, crystals, molecules

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


def batch_of(frames, model):
    batch = AtomicSource.of_frames(frames, CUTOFF).batch(range(len(frames)))
    model.samples = batch.inputs
    return batch


def test_the_loss_is_the_weighted_sum_of_mean_squares():
    model = Off(0.5, 0.2, 0.1)
    batch = batch_of(molecules(3), model)
    loss, measure = EnergyForcesStress(2.0, 10.0).sums(model, batch)
    assert loss.item() / 3 == pytest.approx(2 * (0.5 / 5) ** 2 + 10 * 0.2**2, rel=ROUNDING)
    assert measure.item() / 3 == pytest.approx(200, rel=ROUNDING)
    loss, measure = EnergyForcesStress(2.0, 0.0).sums(model, batch)
    assert loss.item() / 3 == pytest.approx(2 * 0.1**2)
    assert measure.item() / 3 == pytest.approx(100)
    batch = batch_of(crystals(4), model)
    loss, _ = EnergyForcesStress(0.0, 0.0, 7.0).sums(model, batch)
    assert loss.item() / 4 == pytest.approx(7 * 0.1**2)


def test_labels_that_are_missing_count_for_nothing():
    model = Off(0.5, 0.2, 0.1)
    bare = replace(molecules(1)[0], energy=None, forces=None)
    batch = batch_of(AtomicFrames((*molecules(1), bare)), model)
    loss, _ = EnergyForcesStress(1.0, 1.0).sums(model, batch)
    assert loss.item() / 2 == pytest.approx((0.5 / 5) ** 2 + 0.2**2, rel=ROUNDING)
    both = AtomicFrames((*molecules(1), *crystals(1)))
    loss, _ = EnergyForcesStress(0.0, 0.0, 1.0).sums(model, batch_of(both, model))
    assert loss.item() / 2 == pytest.approx(0.1**2)
    none = AtomicFrames((bare,))
    loss, measure = EnergyForcesStress(1.0, 1.0).sums(model, batch_of(none, model))
    assert (loss.item(), measure.item()) == (0.0, 0.0)


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


def test_totals_do_not_lose_digits_to_single_precision():
    model = Off(1e-4, 0.0, 0.0)
    batch = batch_of(molecules(3), model)
    assert batch.inputs.energy.abs().min() > 1900
    loss, _ = EnergyForcesStress(1.0, 0.0).sums(model, batch)
    # totals of 2000 have units of 2.3e-13 in float64, 2.3e-9 of the difference, which is squared
    assert loss.item() / 3 == pytest.approx((1e-4 / 5) ** 2, rel=1e-8)


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)])
def test_a_prediction_of_nan_is_no_missing_label(weights):
    model = Off(*(torch.nan if weight else 0.1 for weight in weights))
    batch = batch_of(crystals(2), model)
    loss, _ = EnergyForcesStress(*weights).sums(model, batch)
    assert bool(loss.isnan())


def test_a_system_without_volume_has_no_stress_even_with_a_label():
    model = Off(0.0, 0.0, 0.1)
    batch = batch_of(AtomicFrames((*molecules(1), *crystals(1))), model)
    batch.inputs.stress[0] = 7.0
    model.errors = (0.0, 0.0, torch.tensor([torch.nan, 0.1]).double()[:, None, None])
    loss, _ = EnergyForcesStress(0.0, 0.0, 1.0).sums(model, batch)
    assert loss.item() / 2 == pytest.approx(0.1**2)
