"""What acceleration must not change."""

import torch
from torch import nn

from tests.interop.interatomic import Atoms, Evaluate

SAME = 1e-12
"""Relative, by norm, in float64: 32 epsilon times the root of 2e4 terms, the neighbours of an atom
times channels, components and basis."""

CURVATURE = 1e-10
"""Of second derivatives: twice a factor of 8 pi / 4.75, the highest frequency of the eight Bessel
functions, and the rest for terms that are larger than what is left of them."""


def difference(ours: nn.Module, theirs: nn.Module, crystal: Atoms, evaluate: Evaluate) -> float:
    """Largest relative difference of the energy and, by norm, of the forces."""
    got, want = evaluate(ours, crystal), evaluate(theirs, crystal)
    return max(float((a - b).norm() / b.norm()) for a, b in zip(got, want, strict=True))


def assert_same_training(
    ours: nn.Module, theirs: nn.Module, crystal: Atoms, evaluate: Evaluate
) -> None:
    """Gradients of a loss on forces, through second derivatives, are the same."""
    gradients = []
    for model in (ours, theirs):
        energy, forces = evaluate(model, crystal)
        loss = energy / len(forces) + 1e3 * forces.square().sum()
        model.zero_grad()
        loss.backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    assert gradients[0].keys() == gradients[1].keys()
    assert any(grad is not None and grad.any() for grad in gradients[1].values())
    for name, want in gradients[1].items():
        got = gradients[0][name]
        if want is None:
            assert got is None or not got.any()
            continue
        scale = float(want.abs().max()) or 1.0
        # Two derivatives more than energies: see CURVATURE.
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11 * scale, msg=name)
