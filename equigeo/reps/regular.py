"""The regular representation on a finite set of samples."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from equigeo.groups import Group, GroupSamples
from equigeo.reps.representation import Representation


@dataclass(frozen=True, eq=False)
class Regular(Representation):
    """One feature per sample of a group, permuted with the samples: ``h_i -> g h_i``.

    .. math:: (L_g F)(h) = F(g^{-1} h)

    Other elements than those that permute the samples raise ``ValueError``; pass such a finite set
    as ``elements=`` to tests of equivariance. Equal by the samples and their order, not by weights.

    Parameters
    ----------
    samples : GroupSamples

    Examples
    --------
    >>> from equigeo.groups import equidistant_rotations
    >>> import torch
    >>> samples = equidistant_rotations(4)
    >>> Regular(samples).act(samples.h[1], torch.tensor([0.0, 1.0, 2.0, 3.0]))
    tensor([3., 0., 1., 2.])
    """

    samples: GroupSamples
    group: Group = field(init=False, repr=False)
    dim: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.samples, GroupSamples):
            raise TypeError(f"samples must be GroupSamples, got {type(self.samples).__name__}")
        object.__setattr__(self, "group", self.samples.group)
        object.__setattr__(self, "dim", len(self.samples))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Regular):
            return NotImplemented
        return self._value() == other._value()

    def __hash__(self) -> int:
        return hash(self._value())

    def permutation(self, g: Tensor) -> Tensor:
        """Return the position of ``g h_i`` among the samples, (..., N), for elements (..., n, n).

        Samples must be permuted up to the square root of their precision.
        """
        self.group.check_shape(g)
        h = self.samples.h.double()
        moved = (g.to(h)[..., None, :, :] @ h).flatten(-2)
        # distances by inner products would lose half of the digits
        distance, position = torch.cdist(
            moved, h.flatten(-2), compute_mode="donot_use_mm_for_euclid_dist"
        ).min(-1)
        eps = max(torch.finfo(self.samples.h.dtype).eps, torch.finfo(g.dtype).eps)
        reached = torch.zeros_like(position).scatter(-1, position, 1).bool()
        gap = float(distance.amax()) / max(1.0, float(h.abs().amax()))
        if gap > eps**0.5 or not bool(reached.all()):
            raise ValueError(
                f"g must permute the {self.dim} samples of {self.group}: one of them lands "
                f"{gap:.2g} away from the nearest, or two on the same"
            )
        return position

    def matrix(self, g: Tensor) -> Tensor:
        """Return permutation matrices: one in row j and column i if ``g h_i`` is ``h_j``."""
        position = self.permutation(g).to(g.device)
        return torch.nn.functional.one_hot(position, self.dim).mT.to(g.dtype)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        """Permute features."""
        self.check_features(x)
        # (L_g F)(h_j) = F(g^-1 h_j): gathered by the inverse permutation
        source = self.permutation(g).argsort(-1).to(x.device)
        shape = torch.broadcast_shapes(source.shape, x.shape)
        return torch.gather(x.expand(shape), -1, source.expand(shape))

    def algebra(self, x: Tensor) -> Tensor:
        """Raise ``ValueError``: no motion near the identity permutes a finite set."""
        raise ValueError(f"{self!r} is a permutation of a finite set and has no derivative")

    def is_trivial(self) -> bool:
        """Return whether every element acts as the identity."""
        return self.dim == 1

    def is_orthogonal(self) -> bool:
        """Return True: permutations are orthogonal."""
        return True

    def dual(self) -> Regular:
        """Return the representation itself: permutations are orthogonal."""
        return self

    def _value(self) -> tuple[Group, torch.dtype, bytes]:
        h = self.samples.h.detach().cpu().contiguous()
        return self.group, h.dtype, h.numpy().tobytes()
