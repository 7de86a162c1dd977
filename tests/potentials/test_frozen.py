"""Potentials with splines in place of radial networks."""

import copy
import gc
import weakref

import pytest
import torch
from torch.nn.utils import parametrize
from torch.testing import assert_close

from equigeo.nn import radial_table
from equigeo.nn.radial_table import RadialTable
from equigeo.potentials.frozen import frozen
from tests.potentials.systems import CRYSTAL, MOLECULE, batch_of, potential
from tests.tier import tier

PRODUCTS = ("channelwise", "full", "gaunt", "curl", "gaunt+curl", "matrix", "vector_signal", "so2")


def same(found, expected, bound):
    for name in ("energies", "forces", "virial"):
        got, want = getattr(found, name), getattr(expected, name)
        assert_close(got.double(), want.double(), rtol=bound, atol=bound)


@pytest.mark.parametrize("product", tier(["channelwise", "gaunt+curl", "so2"], PRODUCTS))
def test_frozen_potentials_are_the_same_to_rounding(product):
    model, batch = potential(product=product), batch_of(MOLECULE, CRYSTAL)
    twin = frozen(model)
    assert all(isinstance(layer.messages.radial, RadialTable) for layer in twin.layers)
    assert frozen(model) is twin
    # Splines are exact to 1e-12, of values of up to 100, and energies of -2,000 are float64.
    same(twin(batch, stress=True), model(batch, stress=True), 1e-10)
    exact = model(batch, stress=True)
    single = frozen(model.float())
    assert single is not twin
    # 64 epsilon of float32, of forces of up to 10.
    same(single(batch.to(dtype=torch.float32), stress=True), exact, 1e-4)


def scaled(model):
    """A state with other weights of every kind."""
    return {name: 1.5 * value for name, value in model.state_dict().items()}


def one_step(model):
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    model.train()(batch_of(CRYSTAL), stress=True).forces.square().sum().backward()
    optimizer.step()


def other_data(model):
    for parameter in model.parameters():
        parameter.data = 1.5 * parameter.data


CHANGES = {
    "a step": one_step,
    "references": lambda model: model.set_references([1.0, 2.0, 3.0], 0.5, 7.0),
    "a state": lambda model: model.load_state_dict(scaled(model), strict=False),
    "a state with its tensors": lambda model: model.load_state_dict(
        copy.deepcopy(model.state_dict()) | scaled(model), assign=True, strict=False
    ),
    "other data": other_data,
    "a parametrization": lambda model: parametrize.register_parametrization(
        model.layers[0].mix_in, "weight", torch.nn.Softplus()
    ),
    "a hook": lambda model: model.layers[0].messages.radial.register_forward_hook(
        lambda module, given, out: 2 * out
    ),
    "a forward": lambda model: setattr(model.layers[0].mix_in, "forward", torch.zeros_like),
    "data in place": lambda model: model.layers[0].messages.radial.layer0.weight.data.mul_(2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_frozen_potentials_follow_changes_of_the_weights(change):
    model, batch = potential(), batch_of(CRYSTAL)
    before = frozen(model)(batch, stress=True)
    change(model)
    want = model.eval()(batch, stress=True)
    assert float((want.energies - before.energies).abs().max()) > 1e-6
    same(frozen(model)(batch, stress=True), want, 1e-10)


def test_potentials_that_splines_do_not_approximate_are_themselves(monkeypatch):
    monkeypatch.setattr(radial_table, "_PIECES", (4,))
    model = potential()
    assert frozen(model) is model
    assert frozen(potential().half()).embedding.weight.dtype == torch.float16
    assert frozen(model.to("meta")) is model


def test_copies_are_forgotten_with_the_potential_and_made_in_any_mode():
    model, batch = potential(), batch_of(CRYSTAL)
    with torch.inference_mode(), torch.device("meta"):
        twin = frozen(model)
    positions = batch.positions.clone().requires_grad_()
    energy = twin.energies(batch.with_positions(positions)).sum()
    torch.autograd.grad(energy, positions)
    assert all(p.requires_grad for p in model.parameters())
    assert not any(p.requires_grad for p in twin.parameters())
    known = weakref.ref(twin)
    del model, twin, energy
    gc.collect()
    assert known() is None
