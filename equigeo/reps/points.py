"""The action on coordinates of points."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from equigeo.groups import GL, Affine, Group
from equigeo.reps.representation import Representation


@dataclass(frozen=True)
class Points(Representation):
    """Coordinates of points, transformed by ``p -> h p + t``.

    Differences of points are vectors, ``TensorRep(group, up=1)``, which translations do not change.
    The action is affine: it has no sum, product or dual.

    Parameters
    ----------
    group : Group
        An affine group, or a linear one that acts about the origin.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> import torch
    >>> group = Affine(O(3))
    >>> shift = group.element(torch.eye(3), torch.tensor([1.0, 2.0, 3.0]))
    >>> Points(group).act(shift, torch.ones(3))
    tensor([2., 3., 4.])
    """

    group: Group
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", self.group.n)

    @property
    def is_linear(self) -> bool:
        """Return False, also for linear groups."""
        return False

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Transform points."""
        self.check_features(x)
        matrix = self.matrix(g.double()).to(x.dtype)
        return (matrix[..., :-1, :-1] @ x[..., None])[..., 0] + matrix[..., :-1, -1]

    def matrix(self, g: Tensor) -> Tensor:
        """Return homogeneous matrices; matrices of linear groups are padded."""
        return self.group.convert(g, Affine(GL(self.group.n)))

    def algebra(self, x: Tensor) -> Tensor:
        """Return the derivative of :meth:`matrix`: the same, padded by zeros."""
        return self.group.convert_algebra(x, Affine(GL(self.group.n)))

    def restrict(self, subgroup: Group) -> Points:
        """Return the points of a subgroup; an affine group is not a subgroup of a linear one."""
        moves_origin = subgroup.size > self.group.size
        if moves_origin or not subgroup.maps_to(self.group):
            raise ValueError(f"{self} cannot be restricted: {subgroup} is not a subgroup")
        return Points(subgroup)
