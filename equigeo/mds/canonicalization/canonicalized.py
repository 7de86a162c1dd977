"""Any network, made invariant by a learned energy on the orbits of any group."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from equigeo._integers import takes_integers
from equigeo.graphs.inputs import kind_of
from equigeo.mds.canonicalization.least_on_orbit import beside, follow_minimum, least_on_orbit
from equigeo.ops.runtime.autocast import computes_in_float32, wide_parameters
from equigeo.ops.runtime.storage import computed_in
from equigeo.ops.runtime.torch_internals import (
    disable_compiler,
    forward_mode_active,
    transforms_active,
    values_readable,
)
from equigeo.reps import Representation


@takes_integers
class Canonicalized(nn.Module):
    r"""Apply a network to inputs moved to the minimum of an energy on their orbit.

    .. math:: f(g^* x), \qquad g^* = \operatorname{argmin}_g E(g x)

    Works for any network, also a frozen one, and any group. The energy is learned (see
    :func:`pose_loss`) or given; Newton's method in the Lie algebra minimizes it from several
    starts.

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

    Equivariance
    ------------
    Invariant, or equivariant with ``rep_out``, where a start leads to the global minimum and it is
    unique up to the stabilizer of the input; up to rounding if the descent converged.

    References
    ----------
    Shumaylov et al., "Lie algebra canonicalization: equivariant neural operators under arbitrary
    Lie groups", 2025; Kaba et al., "Equivariance with learned canonicalization functions", 2023.

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
        elements = rep_in.group.sample(starts, radius=radius, generator=generator)
        # Not a buffer: float64 for every dtype of the network.
        self._elements = elements

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
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
                found = follow_minimum(self.energy, self.rep_in, x, found)
        return found

    def forward(self, x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Move inputs (batch, ..., rep_in.dim) and apply the network.

        Errors: see :meth:`elements`. Other arguments are passed to the network. Its output (batch,
        *) is moved back with ``rep_out``.
        """
        element = self.elements(x)
        moved = self.rep_in.act(beside(element, x.ndim), x)
        found: Tensor = self.network(moved, *arguments, **keywords)
        if self.rep_out is None:
            return found
        back = self.rep_in.group.inverse(element)
        return self.rep_out.act(beside(back, found.ndim), found)
