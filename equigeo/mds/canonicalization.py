"""Invariance of any network by the minimum of a learned energy on the orbits of any group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equigeo._core.checks import kind_of, takes_integers
from equigeo._core.tensors import (
    computed_in,
    computes_in_float32,
    disable_compiler,
    forward_mode_active,
    transforms_active,
    values_readable,
    wide_parameters,
)
from equigeo.reps import Representation

Energy = Callable[[Tensor], Tensor]
_LEAST_CURVATURE = 1e-6
"""Directions of less curvature, relative to the largest, are those of a symmetry: no step there."""

_POLISHING_STEPS = 3  # each doubles the digits, from about eight in float64


@takes_integers
class Canonicalized(nn.Module):
    r"""Apply a network to inputs moved to the minimum of an energy on their orbit.

    .. math:: f(g^* x), \qquad g^* = \operatorname{argmin}_g E(g x)

    Works for any network, also a frozen one, and any group. The energy is learned (see
    :func:`pose_loss`) or given; Newton's method in the Lie algebra minimizes it from several
    starts.

    Invariant, or equivariant with ``rep_out``, where a start leads to the global minimum and it is
    unique up to the stabilizer of the input; up to rounding if the descent converged. References:
    Shumaylov et al., "Lie algebra canonicalization: equivariant neural operators under arbitrary
    Lie groups", 2025; Kaba et al., "Equivariance with learned canonicalization functions", 2023.

    Parameters
    ----------
    network : nn.Module
        Called with moved inputs and the other arguments.
    energy : nn.Module
        Maps inputs (batch, ..., dim) to energies (batch,), each input separately, twice
        differentiable. For a noncompact group it must grow without bound along orbits.
    rep_in, rep_out : Representation
        Action of the group on inputs and outputs; outputs are invariants by default.
    starts, radius, seed : int, float, int
        Number of start elements, drawn once by ``group.sample(starts, radius=radius)``.
    steps : int
        Newton steps per start.

    Examples
    --------
    >>> from equigeo.groups import SO
    >>> from equigeo.reps import Points
    >>> class Lean(nn.Module):  # minimal where the cloud lies along its first axis, heavy side up
    ...     def forward(self, x):
    ...         return x[..., 1].square().sum(-1) - 0.1 * x[..., 0].pow(3).sum(-1)
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    >>> model = Canonicalized(network, Lean(), Points(SO(2)), starts=8)
    >>> x = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]], dtype=torch.float64)
    >>> torch.allclose(model(x), model(torch.stack([-x[..., 1], x[..., 0]], -1)))  # a quarter turn
    True
    """

    def __init__(
        self,
        network: nn.Module,
        energy: nn.Module,
        rep_in: Representation,
        rep_out: Representation | None = None,
        *,
        starts: int = 16,
        radius: float = 1.0,
        steps: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, rep in (("rep_in", rep_in), ("rep_out", rep_out)):
            if not isinstance(rep, Representation) and (name == "rep_in" or rep is not None):
                raise TypeError(f"{name} must be a Representation, got {kind_of(rep)}")
        if rep_out is not None and rep_out.group != rep_in.group:
            raise ValueError(
                f"rep_in and rep_out must be of one group, got {rep_in.group} and {rep_out.group}"
            )
        if starts < 1 or steps < 1:
            raise ValueError(f"starts and steps must be positive, got {starts} and {steps}")
        self.network, self.energy = network, energy
        self.rep_in, self.rep_out, self.steps = rep_in, rep_out, steps
        generator = torch.Generator().manual_seed(seed)
        # Not a buffer: float64 for every dtype of the network.
        self._elements = rep_in.group.sample(starts, radius=radius, generator=generator)

    def extra_repr(self) -> str:
        return f"rep_in={self.rep_in}, starts={len(self._elements)}, steps={self.steps}"

    @computes_in_float32
    @disable_compiler  # differentiates the energy in every step
    def elements(self, x: Tensor) -> Tensor:
        """Return the group elements (batch, size, size), float64, that minimize the energy.

        Inputs are (batch, ..., rep_in.dim), floating. Elements are differentiable by inputs and
        energy parameters. Raises ``NotImplementedError`` in recorded programs, under ``vmap`` and
        on the meta device, and ``ValueError`` for energies that are not finite.
        """
        if x.ndim < 2 or x.shape[-1] != self.rep_in.dim or not x.is_floating_point():
            raise ValueError(
                f"inputs must be (batch, ..., {self.rep_in.dim}) and floating, "
                f"got {tuple(x.shape)} {x.dtype}"
            )
        if not values_readable(x):
            raise NotImplementedError(
                "the descent depends on values, which vmap, recorded programs and the meta device "
                "do not have: call it outside of them"
            )
        learned = any(p.requires_grad for p in self.energy.parameters())
        recorded = torch.is_grad_enabled() and (x.requires_grad or learned)
        # The descent needs slopes even without gradients of its result.
        with torch.inference_mode(False), wide_parameters(self.energy):
            x = x.clone() if x.is_inference() else x
            x = x.to(computed_in(x.dtype))
            found = least_on_orbit(self.energy, self.rep_in, x, self._elements, self.steps)
            if recorded or forward_mode_active() or transforms_active():
                found = _follow_minimum(self.energy, self.rep_in, x, found)
        return found

    def forward(self, x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Move inputs (batch, ..., rep_in.dim) and apply the network.

        Errors: see :meth:`elements`. Other arguments are passed to the network. Its output (batch,
        *) is moved back with ``rep_out``.
        """
        element = self.elements(x)
        moved = self.rep_in.act(_beside(element, x.ndim), x)
        found: Tensor = self.network(moved, *arguments, **keywords)
        if self.rep_out is None:
            return found
        back = self.rep_in.group.inverse(element)
        return self.rep_out.act(_beside(back, found.ndim), found)


def pose_loss(
    energy: Energy,
    rep: Representation,
    x: Tensor,
    *,
    radius: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Return the mean contrast between the energies of inputs and of randomly moved inputs.

    .. math:: \log\bigl(1 + e^{E(x) - E(g x)}\bigr), \qquad g \text{ random}

    Minimizing it makes the energy lower in the poses of the data than elsewhere on their orbits
    (Shumaylov et al., "Lie algebra canonicalization", 2025).

    Parameters
    ----------
    energy, rep
        See :class:`Canonicalized`.
    x : Tensor, (batch, ..., dim), floating
        Inputs in usual poses.
    radius : float
        Radius of the random elements, as in ``group.sample``.

    Examples
    --------
    >>> from equigeo.groups import SO
    >>> from equigeo.reps import Points
    >>> upright = torch.randn(8, 5, 2, dtype=torch.float64) * torch.tensor([0.1, 1.0])
    >>> width = lambda x: x[..., 0].square().sum(-1)
    >>> bool(pose_loss(width, Points(SO(2)), upright) < torch.tensor(2.0).log())
    True
    """
    g = rep.group.sample(len(x), radius=radius, generator=generator).to(x.device)
    moved = rep.act(_beside(g, x.ndim), x)
    return F.softplus(energy(x) - energy(moved)).mean()


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
        moved = orbit.move(_newton_step(slope, curvature), element)
        next_slope, next_curvature = orbit.derivatives(moved)
        better = next_slope.norm(dim=1) < slope.norm(dim=1)
        element = torch.where(better[:, None, None], moved, element).detach()
        slope = torch.where(better[:, None], next_slope, slope)
        curvature = torch.where(better[:, None, None], next_curvature, curvature)
    return element


def _newton_step(
    slope: Tensor,  # (problems, dimension)
    curvature: Tensor,  # (problems, dimension, dimension), treated as constant
) -> Tensor:  # (problems, dimension)
    """Return Newton steps, differentiable by the slopes; zero along flat directions."""
    values, axes = torch.linalg.eigh(curvature)
    known = values > _LEAST_CURVATURE * values.amax(-1, keepdim=True)
    inverse = torch.where(known, 1 / torch.where(known, values, 1), 0)
    return -(axes @ (inverse[..., None] * (axes.mT @ slope[..., None])))[..., 0]


def _follow_minimum(
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
    first = _newton_step(slope, curvature)
    element = orbit.move(first - first.detach(), element)
    second = _newton_step(orbit.slope(element)[0], curvature)
    return orbit.move(second - second.detach(), element)


def _beside(
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
        found = self.energy(self.rep.act(_beside(element, self.x.ndim), self.x))
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
        rows = []
        for k in range(slope.shape[1]):
            row = None
            if slope.requires_grad:
                with torch.enable_grad():
                    total = slope[:, k].sum()
                    (row,) = torch.autograd.grad(total, v, retain_graph=True, allow_unused=True)
            rows.append(torch.zeros_like(v) if row is None else row)
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
