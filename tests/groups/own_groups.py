"""Groups that the library has not, defined as a user does."""

from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.groups import Group, O
from equigeo.reps import Representation

METRIC = torch.diag(torch.tensor([-1.0, 1.0, 1.0], dtype=torch.float64))


@dataclass(frozen=True)
class Lorentz(Group):
    """SO(1, 2): one time and two directions of space; keeps ``-t^2 + x^2 + y^2``."""

    n = 3

    def generators(self) -> Tensor:
        skew = torch.zeros(3, 3, 3, dtype=torch.float64)
        for k, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
            skew[k, i, j], skew[k, j, i] = 1.0, -1.0
        return METRIC @ skew

    def components(self) -> Tensor:
        return torch.stack([torch.eye(3), torch.diag(torch.tensor([-1.0, -1.0, 1.0]))]).double()

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        metric = METRIC.to(g)
        defect = (g.mT @ metric @ g - metric).abs().amax((-2, -1))
        return (defect <= (1e-6 if tol is None else tol)) & (torch.linalg.det(g) > 0)


@dataclass(frozen=True)
class Motions(Group):
    """SE(2) with a reflection: motions of the plane, as homogeneous matrices."""

    n, size, linear_group = 2, 3, O(2)

    def generators(self) -> Tensor:
        basis = torch.zeros(3, 3, 3, dtype=torch.float64)
        basis[0, 0, 2] = basis[1, 1, 2] = basis[2, 1, 0] = 1.0
        basis[2, 0, 1] = -1.0
        return basis

    def components(self) -> Tensor:
        return torch.stack([torch.eye(3), torch.diag(torch.tensor([-1.0, 1.0, 1.0]))]).double()

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        last_row = (g[..., 2, :] == g.new_tensor([0.0, 0.0, 1.0])).all(-1)
        return O(2).contains(g[..., :2, :2], tol=tol) & last_row


@dataclass(frozen=True)
class Masses(Representation):
    """Mass and first moments (m x, m y, m) of bodies in the plane: not a direct sum."""

    group: Group = Motions()
    dim: int = 3

    def matrix(self, g: Tensor) -> Tensor:
        return g

    def algebra(self, x: Tensor) -> Tensor:
        return x


@dataclass(frozen=True)
class Quarters(Group):
    """The four rotations of a square: a finite group has components alone."""

    n = 2

    def generators(self) -> Tensor:
        return torch.zeros(0, 2, 2, dtype=torch.float64)

    def components(self) -> Tensor:
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
        return torch.stack([torch.eye(2).double(), turn, turn @ turn, turn.mT])

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        distance = (g[..., None, :, :] - self.components().to(g)).abs().amax((-2, -1)).amin(-1)
        return distance <= (1e-6 if tol is None else tol)
