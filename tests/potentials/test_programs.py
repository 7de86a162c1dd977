"""Forces as programs: recorded, exported, and called with other numbers of atoms."""

from dataclasses import replace

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing import assert_close

from equigeo.testing import tolerance
from tests.potentials.systems import MOLECULE, POSITIONS, batch_of, potential

PRODUCTS = [
    "channelwise",
    *(pytest.param(name, marks=pytest.mark.full) for name in ("gaunt+curl", "so2")),
]


def force_function(model, batch):
    """Energy and forces of tensors; everything that depends on values is made outside."""

    def forces(positions, edge_index, shifts):
        given = replace(batch, edge_index=edge_index, shifts=shifts)
        energy = model.energies(given.with_positions(positions)).sum()
        return energy.detach(), -torch.autograd.grad(energy, positions)[0]

    return forces


def inputs_of(batch, positions):
    return positions.clone().requires_grad_(True), batch.edge_index, batch.shifts


@pytest.mark.parametrize("product", PRODUCTS)
def test_recorded_forces_are_right_for_other_positions(product):
    model, batch = potential(product=product), batch_of(MOLECULE)
    program = make_fx(force_function(model, batch))(*inputs_of(batch, batch.positions))
    moved = POSITIONS + 0.01
    moved[0, 0] += 0.05
    energy, forces = program(*inputs_of(batch, moved))
    want = model(batch.with_positions(moved))
    # five additions: 4.5 units in the last place
    assert_close(energy, want.energy[0], rtol=1e-15, atol=0.0)
    assert_close(forces, want.forces, **tolerance(torch.float64, 5))


def test_losses_of_forces_are_recorded_with_gradients_of_parameters():
    model, batch = potential().train(), batch_of(MOLECULE)
    parameters = dict(model.named_parameters())

    def step(values, positions):
        def energies(x):
            moved = (batch.with_positions(x),)
            return torch.func.functional_call(_Energy(model), values, moved).sum()

        x = positions.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(energies(x), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), list(values.values()), allow_unused=True)

    values = {f"model.{name}": p.detach().requires_grad_(True) for name, p in parameters.items()}
    want = step(values, batch.positions)
    found = make_fx(step)(values, batch.positions)(values, batch.positions)
    for a, b in zip(found, want, strict=True):
        assert_close(a, b, **tolerance(torch.float64, 16))


class _Energy(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return self.model.energies(batch)
