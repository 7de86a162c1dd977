"""Irreducible representations of the rotations and reflections of the plane."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups import SO, Group, O
from equigeo.reps.representation import Representation


@dataclass(frozen=True)
class PlanarIrrep(Representation):
    r"""Components that rotate ``frequency`` times as fast as the plane.

    Features of frequency :math:`k \geq 1` transform as :math:`(\cos k\varphi, \sin k\varphi)` with
    :math:`\varphi` the angle of a point (Weiler, Cesa, "General E(2)-Equivariant Steerable CNNs",
    2019, appendix F); vectors have ``k = 1``, traceless symmetric matrices ``k = 2``. Frequency
    zero has one component, a scalar or a pseudoscalar.

    Parameters
    ----------
    group : SO(2) or O(2)
    frequency : int
        Not negative; frequencies ``k`` and ``-k`` are isomorphic.
    parity : {1, -1}
        Sign of reflections for frequency zero of O(2), otherwise 1: other signs are isomorphic.

    Examples
    --------
    >>> turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    >>> PlanarIrrep(O(2), 2).matrix(turn).round() + 0.0  # a half turn
    tensor([[-1.,  0.],
            [ 0., -1.]])
    """

    group: Group
    frequency: int
    parity: int = 1
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.group not in (SO(2), O(2)):
            raise ValueError(f"group must be SO(2) or O(2), got {self.group}")
        if self.frequency < 0:
            raise ValueError(f"frequency must not be negative, got {self.frequency}")
        signs = (1, -1) if self.frequency == 0 and self.group == O(2) else (1,)
        if self.parity not in signs:
            raise ValueError(
                f"parity of frequency {self.frequency} of {self.group} must be one of {signs}, "
                f"got {self.parity}"
            )
        object.__setattr__(self, "dim", 2 if self.frequency else 1)

    def matrix(self, g: Tensor) -> Tensor:
        """Return rotations by multiples of the angle, times a reflection if improper."""
        self.group.check_shape(g)
        improper = (g[..., 0, 0] * g[..., 1, 1] < g[..., 0, 1] * g[..., 1, 0])[..., None, None]
        if self.frequency == 0:
            return torch.where(improper, float(self.parity), 1.0).to(g.dtype)
        # g = R diag(-1, 1) for an improper g: the first column of R is the opposite of that of g
        column = torch.where(improper[..., 0], -g[..., 0], g[..., 0])
        angle = self.frequency * torch.atan2(column[..., 1], column[..., 0])
        c, s = angle.cos(), angle.sin()
        rotation = torch.stack([c, -s, s, c], -1).unflatten(-1, (2, 2))
        # diag(-1, 1) sends the angle phi to pi - phi: cos k phi to (-1)^k cos k phi, and sin k phi
        # to minus that sign times itself
        sign = (-1.0) ** self.frequency
        mirrored = rotation * g.new_tensor([sign, -sign])
        return torch.where(improper, mirrored, rotation)

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix`: the frequency times the rate of rotation."""
        self.group.check_shape(x)
        if self.frequency == 0:
            return x.new_zeros(*x.shape[:-2], 1, 1)
        return self.frequency * x

    def is_orthogonal(self) -> bool:
        """Return True: all matrices are orthogonal."""
        return True

    def dual(self) -> PlanarIrrep:
        """Return the representation itself, since it is orthogonal."""
        return self
