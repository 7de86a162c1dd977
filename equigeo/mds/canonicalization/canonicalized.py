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

    The network may be frozen, and the group may be any: where frames of principal axes need
    points and isometries, this needs an energy, learned (see :func:`pose_loss`) or written. The
    least is sought by Newton's method in the Lie algebra from several starts.

    Parameters
    ----------
    network : nn.Module
        Called with moved inputs in place of inputs, and whatever else it is given.
    energy : nn.Module
        From inputs (batch, ..., dim) to energies (batch,), each of one input alone, twice
        differentiable. Of a group that is not compact it must grow without bound along orbits.
    rep_in : Representation
        How the group moves inputs: :class:`equigeo.reps.Points`, tensors, irreps.
    rep_out : Representation, optional
        Of what comes out: moved back by the inverse element. Invariants by default.
    starts : int
        Elements to start from, drawn once from ``seed``.
    radius : float
        Of the starts, as of the group's ``sample``.
    steps : int
        From each start.
    seed : int
        Of the starts.

    Raises
    ------
    TypeError
        If there is no representation.
    ValueError
        If representations belong to two groups, or a count is not positive.

    Equivariance
    ------------
    Invariant, or equivariant with ``rep_out``, under the group, where the least of the energy is
    found from one of the starts and unique up to elements that leave the input alone. Near that,
    as far as the descent converged: to rounding for smooth energies and enough steps.

    References
    ----------
    Shumaylov et al., "Lie algebra canonicalization: equivariant neural operators under arbitrary
    Lie groups", 2025; Kaba et al., "Equivariance with learned canonicalization functions", 2023.

    Examples
    --------
    >>> from equigeo.groups import SO
    >>> from equigeo.reps import Points
    >>> class Lean(nn.Module):  # least where the cloud leans on its first axis, heavy side up
    ...     def forward(self, x):
    ...         return x[..., 1].square().sum(-1) - 0.1 * x[..., 0].pow(3).sum(-1)
    >>> network = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    >>> model = Canonicalized(network, Lean(), Points(SO(2)), starts=8)
    >>> x = torch.tensor([[[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0]]], dtype=torch.float64)
    >>> quarter_turn = torch.stack([-x[..., 1], x[..., 0]], -1)
    >>> torch.allclose(model(x), model(quarter_turn))
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
        # From the seed; and in float64, whatever dtype the network is moved to.
        self._elements = elements

    def extra_repr(self) -> str:
        """Return the options for ``print(module)``."""
        return f"rep_in={self.rep_in}, starts={len(self._elements)}, steps={self.steps}"

    @computes_in_float32
    @disable_compiler  # it differentiates the energy as it goes: a program of its own
    def elements(self, x: Tensor) -> Tensor:
        """Return the elements that move inputs to the minimum of the energy.

        Parameters
        ----------
        x : Tensor, (batch, ..., rep_in.dim), floating
            Inputs. Energies of half precision are computed in float32.

        Returns
        -------
        Tensor, (batch, size, size), float64
            Elements of the group; they follow the inputs where gradients are recorded.

        Raises
        ------
        ValueError
            If ``x`` has no batch axis or another dimension, or energies are not (batch,) or not
            finite.
        NotImplementedError
            While a program is recorded, under ``vmap`` and on the meta device.
        """
        if x.ndim < 2 or x.shape[-1] != self.rep_in.dim or not x.is_floating_point():
            raise ValueError(
                f"inputs must be (batch, ..., {self.rep_in.dim}) and floating, "
                f"got {tuple(x.shape)} {x.dtype}"
            )
        if not values_readable(x):
            raise NotImplementedError(
                "how a descent goes depends on values, which vmap, programs that are recorded and "
                "the meta device do not have: call it outside of them"
            )
        learned = any(p.requires_grad for p in self.energy.parameters())
        recorded = torch.is_grad_enabled() and (x.requires_grad or learned)
        # A descent needs slopes, also where nobody wants a gradient of it.
        with torch.inference_mode(False), wide_parameters(self.energy):
            x = x.clone() if x.is_inference() else x
            x = x.to(computed_in(x.dtype))
            found = least_on_orbit(self.energy, self.rep_in, x, self._elements, self.steps)
            if recorded or forward_mode_active() or transforms_active():
                found = follow_minimum(self.energy, self.rep_in, x, found)
        return found

    def forward(self, x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        """Move inputs and apply the network.

        Parameters
        ----------
        x : Tensor, (batch, ..., rep_in.dim), floating
            Inputs. Energies of half precision are computed in float32.
        *arguments, **keywords
            Given to the network after the moved inputs.

        Returns
        -------
        Tensor, (batch, *)
            What the network returns, moved back with ``rep_out``.

        Raises
        ------
        ValueError
            As of :meth:`elements`.
        """
        element = self.elements(x)
        moved = self.rep_in.act(beside(element, x.ndim), x)
        found: Tensor = self.network(moved, *arguments, **keywords)
        if self.rep_out is None:
            return found
        back = self.rep_in.group.inverse(element)
        return self.rep_out.act(beside(back, found.ndim), found)
