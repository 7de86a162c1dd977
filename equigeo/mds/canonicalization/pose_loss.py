"""A loss for energies of usual poses."""

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
    moved = rep.act(beside(g, x.ndim), x)
    return F.softplus(energy(x) - energy(moved)).mean()
