"""Minimum of a function on the orbit of an input, by descent in the Lie algebra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.reps import Representation

Energy = Callable[[Tensor], Tensor]

_LEAST_CURVATURE = 1e-6
"""Directions of less curvature, relative to the largest, are those of a symmetry: no step there."""

_POLISHING_STEPS = 3  # each doubles the digits, from about eight in float64


def least_on_orbit(
    energy: Energy,  # maps inputs (problems, ..., dim) to (problems,), independently
    rep: Representation,  # action of the group on inputs
    x: Tensor,  # (batch, ..., dim)
    starts: Tensor,  # (starts, size, size), float64
    steps: int,  # Newton steps per start
) -> Tensor:  # (batch, size, size), float64
    """Return the elements that move inputs to the minimum of an energy, without gradients."""
    # Newton's method in v of exp(v) g with absolute curvatures, which descends at saddles too. The
    # damping grows when a step does not descend. The best start is returned.
    batch, x = len(x), x.detach()
    orbit = _Orbit(energy, rep, x.repeat(len(starts), *[1] * (x.ndim - 1)))
    element = starts.to(x.device).repeat_interleave(batch, 0)
    with torch.no_grad():
        value = orbit.energy_at(element)
    damping = value.new_full((len(element), 1), 1e-3)  # a thousandth of the largest curvature
    for _ in range(steps):
        step = orbit.step(element, damping)
        with torch.no_grad():
            moved = orbit.move(step, element)
            changed = orbit.energy_at(moved)
        better = changed < value  # False where it is not finite
        element = torch.where(better[:, None, None], moved, element)
        value = torch.where(better, changed, value)
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp(1e-9, 1e9)
    value = torch.where(value.isfinite(), value, torch.inf).view(len(starts), batch)
    if not bool(value.isfinite().any(0).all()):
        raise ValueError("the energy of an input is finite at none of the starts")
    chosen = value.argmin(0) * batch + torch.arange(batch, device=value.device)
    return _polish(_Orbit(energy, rep, x), element[chosen])


def _polish(orbit: _Orbit, element: Tensor) -> Tensor:
    """Reduce slopes to rounding error: values locate a minimum only to the root of rounding."""
    slope, curvature = orbit.derivatives(element)
    for _ in range(_POLISHING_STEPS):
        moved = orbit.move(newton_step(slope, curvature), element)
        next_slope, next_curvature = orbit.derivatives(moved)
        better = next_slope.norm(dim=1) < slope.norm(dim=1)
        element = torch.where(better[:, None, None], moved, element).detach()
        slope = torch.where(better[:, None], next_slope, slope)
        curvature = torch.where(better[:, None, None], next_curvature, curvature)
    return element


def newton_step(
    slope: Tensor,  # (problems, dimension)
    curvature: Tensor,  # (problems, dimension, dimension), treated as constant
) -> Tensor:  # (problems, dimension)
    """Return Newton steps, differentiable by the slopes; zero along flat directions."""
    values, axes = torch.linalg.eigh(curvature)
    known = values > _LEAST_CURVATURE * values.amax(-1, keepdim=True)
    inverse = torch.where(known, 1 / torch.where(known, values, 1), 0)
    return -(axes @ (inverse[..., None] * (axes.mT @ slope[..., None])))[..., 0]


def follow_minimum(
    energy: Energy,
    rep: Representation,
    x: Tensor,
    element: Tensor,  # (batch, size, size), from least_on_orbit
) -> Tensor:  # the same values, differentiable
    """Make a minimum differentiable by two Newton steps of zero length."""
    # For a perturbed input, the first step misses the minimum by the second order and the second by
    # the third: first and second derivatives are exact.
    orbit = _Orbit(energy, rep, x)
    slope, curvature = orbit.derivatives(element)
    first = newton_step(slope, curvature)
    element = orbit.move(first - first.detach(), element)
    second = newton_step(orbit.slope(element)[0], curvature)
    return orbit.move(second - second.detach(), element)


def beside(
    element: Tensor,  # (batch, size, size)
    ndim: int,  # number of axes of the features
) -> Tensor:  # (batch, ..., size, size)
    """Insert axes so that elements broadcast against features (batch, ..., dim)."""
    return element.view(len(element), *[1] * (ndim - 2), *element.shape[1:])


@dataclass(frozen=True, eq=False)
class _Orbit:
    """Inputs (problems, ..., dim), their group action, and an energy of moved inputs."""

    energy: Energy
    rep: Representation
    x: Tensor

    def move(self, v: Tensor, element: Tensor) -> Tensor:
        """Apply steps (problems, dimension) in the algebra to elements."""
        group = self.rep.group
        basis = group.generators().to(element)
        return group.exp(torch.einsum("bd,dij->bij", v.to(basis), basis)) @ element

    def energy_at(self, element: Tensor) -> Tensor:
        """Return energies (problems,) of moved inputs."""
        found = self.energy(self.rep.act(beside(element, self.x.ndim), self.x))
        if found.shape != (len(self.x),):
            raise ValueError(
                f"energies must be ({len(self.x)},), one for each input, got {tuple(found.shape)}"
            )
        return found.double()

    def slope(self, element: Tensor) -> tuple[Tensor, Tensor]:
        """Return differentiable slopes (problems, dimension) at elements, and their variable."""
        with torch.enable_grad():
            v = element.new_zeros(len(element), self.rep.group.dimension, requires_grad=True)
            total = self.energy_at(self.move(v, element)).sum()
            return torch.autograd.grad(total, v, create_graph=True)[0], v

    def derivatives(self, element: Tensor) -> tuple[Tensor, Tensor]:
        """Return slopes with a graph, and constant curvatures (problems, dimension, dimension)."""
        slope, v = self.slope(element)
        rows = [_derivative(slope[:, k], v) for k in range(slope.shape[1])]
        curvature = torch.stack(rows, 1).detach()
        return slope, (curvature + curvature.mT) / 2

    def step(self, element: Tensor, damping: Tensor) -> Tensor:
        """Return damped descent steps (problems, dimension) of length at most 1."""
        slope, curvature = self.derivatives(element)
        slope = slope.detach()
        finite = slope.isfinite().all(1) & curvature.isfinite().flatten(1).all(1)
        slope = torch.where(finite[:, None], slope, 0)
        curvature = torch.where(finite[:, None, None], curvature, 0)
        values, axes = torch.linalg.eigh(curvature)
        values = values.abs()
        # Where an energy is flat to second order, as of piecewise linear networks, slopes scale.
        largest = torch.maximum(values.amax(1), slope.norm(dim=1))[:, None]
        damped = values + damping * largest
        along = (axes.mT @ slope[..., None])[..., 0] / torch.where(damped == 0, 1, damped)
        step = -(axes @ along[..., None])[..., 0]
        return step / step.norm(dim=1, keepdim=True).clamp_min(1)


def _derivative(of: Tensor, by: Tensor) -> Tensor:
    """Return the gradient of a sum, zero without dependence."""
    if not of.requires_grad:
        return torch.zeros_like(by)
    with torch.enable_grad():
        (found,) = torch.autograd.grad(of.sum(), by, retain_graph=True, allow_unused=True)
    return torch.zeros_like(by) if found is None else found
