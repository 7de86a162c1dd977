"""A loss that teaches an energy which poses are usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo.mds.canonicalization.least_on_orbit import beside

if TYPE_CHECKING:
    from equigeo.mds.canonicalization.least_on_orbit import Energy
    from equigeo.reps import Representation


def pose_loss(
    energy: Energy,
    rep: Representation,
    x: Tensor,
    *,
    radius: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    r"""Contrast the energies of inputs with those of moved inputs.

    .. math:: \log\bigl(1 + e^{E(x) - E(g x)}\bigr), \qquad g \text{ random}

    An energy of low loss is less for inputs as they come than elsewhere on their orbits: near to
    where it is least, inputs look as a network that was trained on them knows them.

    Parameters
    ----------
    energy : callable
        From inputs (batch, ..., dim) to (batch,).
    rep : Representation
        How the group moves inputs.
    x : Tensor, (batch, ..., dim), floating
        Inputs in usual poses.
    radius : float
        Of the elements g, as of the group's ``sample``.
    generator : torch.Generator, optional
        Source of randomness; torch's global one by default.

    Returns
    -------
    Tensor, ()
        The mean.

    References
    ----------
    Shumaylov et al., "Lie algebra canonicalization: equivariant neural operators under arbitrary
    Lie groups", 2025.

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
    moved = rep.act(beside(g, x.ndim), x)
    return F.softplus(energy(x) - energy(moved)).mean()
