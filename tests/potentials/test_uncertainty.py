"""Uncertainties from the last layers, and of committees."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from equigeo.groups import O
from equigeo.potentials import Calculator, LastLayerUncertainty
from equigeo.potentials import calculator as module
from equigeo.testing import tolerance
from tests.potentials.systems import (
    CRYSTAL,
    MOLECULE,
    NUMBERS,
    POSITIONS,
    SPECIES,
    batch_of,
    potential,
)
from tests.wrong_inputs import refused

needs_ase = pytest.mark.skipif(module._ase is None, reason="ASE is not installed")
RIDGE = 1e-6


def frames(number, seed=0, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    systems = []
    for _ in range(number):
        noise = torch.randn(POSITIONS.shape, generator=draw, dtype=torch.float64)
        systems.append((NUMBERS, POSITIONS + 0.05 * noise, None, False))
    return batch_of(*systems).to(dtype=dtype)


def labelled(model, batch, noise=0.1):
    """Predictions with errors of a known size."""
    out, draw = model(batch), torch.Generator().manual_seed(1)
    energy = torch.randn(out.energy.shape, generator=draw, dtype=torch.float64)
    forces = torch.randn(out.forces.shape, generator=draw, dtype=torch.float64)
    return batch, out.energy + noise * energy, out.forces + noise * forces


def fitted(model, dtype=torch.float64):
    train = [frames(4, 0, dtype), frames(8, 1, dtype)]
    return LastLayerUncertainty.fit(model, train, [labelled(model, frames(6, 2, dtype))])


def deviations(model, uncertainty, batch):
    return uncertainty(model(batch, features=True), batch)


@pytest.mark.parametrize("changes", [{}, {"layers": 1}, {"product": "gaunt", "node": "gate"}])
def test_energies_are_linear_in_features(changes):
    model = potential(**changes)
    alone = (torch.tensor([6]), torch.zeros(1, 3), None, False)
    batch = batch_of(MOLECULE, CRYSTAL, alone)
    out = model(batch, features=True)
    lasts = [list(layer.readout.children())[-1] for layer in model.layers]
    weights = [last(torch.eye(last.weight.shape[0]).double()) for last in lasts]
    species = model.species_of(batch.numbers)
    energies = model.e0[species] + (out.features @ torch.cat(weights)).squeeze(1)
    # sums of 20 terms, besides energies of isolated atoms of 2,000 eV
    assert_close(out.energies, energies, rtol=tolerance(torch.float64, 20)["rtol"], atol=1e-10)
    assert not out.features[-1].any()
    assert out.features.shape[1] == model.num_features
    for options in ({}, {"stress": True}, {"forces": False}):
        assert_close(model(batch, features=True, **options).features, out.features)
    assert model(batch).features is None


def test_rigidities_are_covariances_of_ridge_regressions():
    model, test = potential(), frames(3, seed=5)
    uncertainty = fitted(model)
    rows = torch.cat([model(frames(*arguments), features=True).features
                      for arguments in ((4, 0), (8, 1))])  # fmt: skip
    numbers, features = NUMBERS.repeat(12), model(test, features=True).features.numpy()
    energy, forces = np.zeros(3), np.zeros(18)
    for z, scale in zip(SPECIES, uncertainty.forces_scale.tolist(), strict=True):
        own = rows[numbers == z].numpy()
        ridge = RIDGE * np.square(own).sum() / own.shape[1]
        # least squares with one more row for each weight, of value zero
        estimate = np.linalg.pinv(np.vstack([own, np.sqrt(ridge) * np.eye(own.shape[1])]))
        covariance = estimate @ estimate.T
        members = (test.numbers == z).numpy()
        f = np.where(members[:, None], features, 0.0)
        forces += scale * np.sqrt(np.einsum("in,nm,im->i", f, covariance, f))
        sums = f.reshape(3, 6, -1).sum(axis=1)
        energy += np.einsum("in,nm,im->i", sums, covariance, sums)
    found = deviations(model, uncertainty, test)
    # Covariances are inverted with conditions of up to 1 / RIDGE.
    bound = 10 / RIDGE * torch.finfo(torch.float64).eps
    assert found[0].numpy() == pytest.approx(
        float(uncertainty.energy_scale) * np.sqrt(energy), rel=bound
    )
    assert found[1].numpy() == pytest.approx(forces, rel=bound)


def test_scales_explain_the_errors_of_validation_frames():
    model = potential()
    uncertainty = fitted(model)
    batch, energy, forces = labelled(model, frames(6, 2))
    out = model(batch, features=True)
    sigma, sigmas = uncertainty(out, batch)
    assert ((out.energy - energy) / sigma).square().mean().item() == pytest.approx(1)
    scales = uncertainty.forces_scale
    squares = ((out.forces - forces) / sigmas[:, None]).square().sum(dim=1)
    unscaled = squares * scales[model.species_of(batch.numbers)].square()
    mean = unscaled.sum() / (3 * len(unscaled))
    for z, scale in zip(SPECIES, scales, strict=True):
        own = unscaled[batch.numbers == z]
        # 30 components of all elements besides those of the element
        want = (own.sum() + 30 * mean) / (3 * len(own) + 30)
        assert_close(scale.square(), want)
    doubled = LastLayerUncertainty.fit(
        model, [frames(4, 0), frames(8, 1)], [labelled(model, batch, noise=0.2)]
    )
    assert_close(doubled.forces_scale, 2 * uncertainty.forces_scale)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uncertainties_are_invariant_and_of_any_precision(dtype):
    model = potential().to(dtype)
    uncertainty = fitted(model, dtype)
    energy, forces = deviations(model, uncertainty, frames(1, 7, dtype))
    order, turn = torch.randperm(6), O(3).sample(1)[0].double()
    moved = batch_of((NUMBERS[order], (frames(1, 7).positions @ turn.T)[order], None, False))
    other = deviations(model, uncertainty, moved.to(dtype=dtype))
    # Whitening multiplies rounding by up to the root of 1 / RIDGE.
    bound = 100 * RIDGE**-0.5 * torch.finfo(dtype).eps
    assert_close(other[0], energy, rtol=bound, atol=0.0)
    assert_close(other[1], forces[order], rtol=bound, atol=0.0)
    exact = deviations(potential(), fitted(potential()), frames(1, 7))
    bound = 100 * RIDGE**-0.5 * torch.finfo(torch.float32).eps
    assert_close((energy, forces), exact, rtol=bound, atol=0.0)
    none = batch_of((NUMBERS[:0], POSITIONS[:0], None, False)).to(dtype=dtype)
    found = deviations(model, uncertainty, none)
    assert [x.tolist() for x in found] == [[0.0], []]
    assert energy.dtype == forces.dtype == torch.float64


def test_frames_unlike_the_training_are_less_certain():
    model = potential()
    uncertainty = fitted(model)
    usual = deviations(model, uncertainty, frames(20, 9))
    close = batch_of((NUMBERS, 0.7 * POSITIONS, None, False))
    energy, forces = deviations(model, uncertainty, close)
    assert energy[0] > 2 * usual[0].max()
    assert forces.mean() > 2 * usual[1].max()
    # and the training frames are not
    known = deviations(model, uncertainty, frames(8, 1))
    assert known[1].mean() < usual[1].mean()


def test_elements_without_training_frames_are_the_least_certain():
    model = potential()
    hydrogen = batch_of((torch.tensor([1, 1]), torch.eye(2, 3).double(), None, False))
    uncertainty = LastLayerUncertainty.fit(model, [hydrogen], [labelled(model, hydrogen)])
    assert bool((uncertainty.forces_scale > 0).all())
    carbon = batch_of((torch.tensor([6, 6]), torch.eye(2, 3).double(), None, False))
    known, unknown = (deviations(model, uncertainty, batch) for batch in (hydrogen, carbon))
    assert unknown[0] > 10 * known[0]
    assert unknown[1].min() > 10 * known[1].max()


def test_uncertainties_without_labels_are_unknown():
    model, batch = potential(), frames(4)
    _, energy, forces = labelled(model, batch)
    nan = torch.full_like(forces, torch.nan)
    uncertainty = LastLayerUncertainty.fit(model, [batch], [(batch, energy, nan)])
    sigma, sigmas = deviations(model, uncertainty, batch)
    assert bool(sigma.isfinite().all() and sigmas.isnan().all())
    none = [(batch, energy * torch.nan, nan)]
    refused("energies or forces", LastLayerUncertainty.fit, model, [batch], none)
    refused("train must have frames", LastLayerUncertainty.fit, model, [], none)


def test_outputs_of_another_potential_are_refused():
    model, batch = potential(), frames(1)
    uncertainty = fitted(model)
    refused(r"features=True", uncertainty, model(batch), batch)
    wide = potential(channels=8)
    refused(r"features must be \(6, 20\)", uncertainty, wide(batch, features=True), batch)
    gold = potential(species=(1, 6, 79))
    other = batch_of((torch.tensor([79, 1]), torch.eye(2, 3).double(), None, False))
    refused(r"\[1, 6, 8\], got \[79\]", uncertainty, gold(other, features=True), other)


@needs_ase
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_calculators_return_the_uncertainties_of_a_potential(dtype):
    from ase import Atoms

    model = potential().to(dtype)
    uncertainty = fitted(model, dtype)
    calculator = Calculator(model, uncertainty=uncertainty)
    atoms = Atoms(NUMBERS.numpy(), POSITIONS.numpy(), calculator=calculator)
    atoms.get_forces()
    energy, forces = deviations(model, uncertainty, batch_of(MOLECULE).to(dtype=dtype))
    # Splines are exact to rounding, which whitening multiplies.
    bound = 100 * RIDGE**-0.5 * torch.finfo(dtype).eps
    assert calculator.results["energy_uncertainty"] == pytest.approx(energy.item(), rel=bound)
    assert calculator.results["forces_uncertainty"] == pytest.approx(forces.numpy(), rel=bound)
    assert calculator.get_property("energy_uncertainty", atoms) > 0
    plain = Calculator(model)
    assert "energy_uncertainty" not in plain.implemented_properties
    refused("of one potential", Calculator, potential(species=(1, 6, 7)), uncertainty=uncertainty)
    refused("of one potential", Calculator, [model, model], uncertainty=uncertainty)


@needs_ase
def test_committees_return_means_and_deviations():
    from ase import Atoms

    models = [potential(seed) for seed in range(3)]
    calculator = Calculator(models)
    cell, pbc = CRYSTAL[2].numpy(), CRYSTAL[3]
    atoms = Atoms(CRYSTAL[0].numpy(), CRYSTAL[1].numpy(), cell=cell, pbc=pbc)
    atoms.calc = calculator
    every = []
    atoms.get_stress()
    for model in models:
        one = atoms.copy()
        one.calc = Calculator(model)
        one.get_stress()
        every.append({**one.calc.results, "hessian": one.calc.get_hessian()})
    found = {**calculator.results, "hessian": calculator.get_hessian()}
    for name in ("energy", "free_energy", "energies", "forces", "stress", "hessian"):
        assert found[name] == pytest.approx(np.mean([one[name] for one in every], axis=0))
    energies, forces = ([one[name] for one in every] for name in ("energy", "forces"))
    assert found["energy_uncertainty"] == pytest.approx(np.std(energies, ddof=1))
    variance = np.var(forces, axis=0, ddof=1).mean(axis=1)
    assert found["forces_uncertainty"] == pytest.approx(np.sqrt(variance))
    assert calculator.calls == 1
    refused("one or several potentials", Calculator, [], error=TypeError)
    for other in (potential(cutoff=3.0), potential(species=(1, 6, 7)), potential().float()):
        refused("committee must have equal", Calculator, [models[0], other])
