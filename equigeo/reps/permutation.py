"""Representations of elements as such: permutations, identity, points, fields and frequencies."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from equigeo._core.cache import kept
from equigeo._core.tensors import computed_in
from equigeo.groups import GL, SO, Affine, Group, GroupSamples, O
from equigeo.groups.sampling import signed_permutations
from equigeo.reps.representation import Representation, Summand


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
        position = self.permutation(g).to(g.device)
        return torch.nn.functional.one_hot(position, self.dim).mT.to(g.dtype)

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        # (L_g F)(h_j) = F(g^-1 h_j): gathered by the inverse permutation
        source = self.permutation(g).argsort(-1).to(x.device)
        shape = torch.broadcast_shapes(source.shape, x.shape)
        return torch.gather(x.expand(shape), -1, source.expand(shape))

    def algebra(self, x: Tensor) -> Tensor:
        raise ValueError(f"{self!r} is a permutation of a finite set and has no derivative")

    def is_trivial(self) -> bool:
        return self.dim == 1

    def is_orthogonal(self) -> bool:
        return True

    def dual(self) -> Regular:
        return self

    def _value(self) -> tuple[Group, torch.dtype, bytes]:
        h = self.samples.h.detach().cpu().contiguous()
        return self.group, h.dtype, h.numpy().tobytes()


@dataclass(frozen=True)
class Trivial(Representation):
    """Features that no element changes, such as an invariant output.

    Examples
    --------
    >>> from equigeo.groups import O
    >>> Trivial(O(3), 5).is_trivial()
    True
    """

    group: Group
    dim: int  # at least 0

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise ValueError(f"dim must not be negative, got {self.dim}")

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.group.check_shape(g)
        self.check_features(x)
        return x.expand(*torch.broadcast_shapes(g.shape[:-2], x.shape[:-1]), self.dim)

    def matrix(self, g: Tensor) -> Tensor:
        self.group.check_shape(g)
        identity = torch.eye(self.dim, dtype=g.dtype, device=g.device)
        return identity.expand(*g.shape[:-2], self.dim, self.dim)

    def algebra(self, x: Tensor) -> Tensor:
        self.group.check_shape(x)
        return x.new_zeros(*x.shape[:-2], self.dim, self.dim)

    def summands(self) -> tuple[Summand, ...]:
        positions = torch.arange(self.dim)[:, None]
        return (Summand(Trivial(self.group, 1), positions),) if self.dim else ()

    def is_trivial(self) -> bool:
        return True

    def dual(self) -> Trivial:
        return self

    def restrict(self, subgroup: Group) -> Trivial:
        if not subgroup.maps_to(self.group):
            raise ValueError(f"{subgroup} has no canonical map to {self.group}")
        return Trivial(subgroup, self.dim)


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
        return False

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        matrix = self.matrix(g.double()).to(x.dtype)
        return (matrix[..., :-1, :-1] @ x[..., None])[..., 0] + matrix[..., :-1, -1]

    def matrix(self, g: Tensor) -> Tensor:
        return self.group.convert(g, Affine(GL(self.group.n)))

    def algebra(self, x: Tensor) -> Tensor:
        return self.group.convert_algebra(x, Affine(GL(self.group.n)))

    def restrict(self, subgroup: Group) -> Points:
        moves_origin = subgroup.size > self.group.size
        if moves_origin or not subgroup.maps_to(self.group):
            raise ValueError(f"{self} cannot be restricted: {subgroup} is not a subgroup")
        return Points(subgroup)


@dataclass(frozen=True)
class Field(Representation):
    r"""Fields on a square or cubic grid, such as images, whose positions move with their values.

    .. math:: (g f)(p) = \rho(g)\, f(g^{-1} p)

    Positions ``p`` are array coordinates from the middle of the grid, (row, column) or (depth, row,
    column), as in :mod:`equigeo.affine`. Elements that permute the grid points, such as quarter
    turns and reflections, are exact. Others interpolate, cubically in the plane and linearly in
    space, with zeros outside of the grid: products of elements act only approximately as one after
    the other, and there are no matrices, sums or duals.

    Parameters
    ----------
    rep : Representation
        Representation of the values, in 2 or 3 dimensions. Fields have any number of copies, with
        adjacent components: ``Trivial(group, 1)`` for brightness or colors. Tensors are
        (..., copies * rep.dim, *S), with as many entries along each axis of space.

    Examples
    --------
    >>> quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    >>> Field(Trivial(O(2), 1)).act(quarter, torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]))
    tensor([[[2., 4.],
             [1., 3.]]])
    """

    rep: Representation
    group: Group = field(init=False, repr=False, compare=False)
    dim: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.rep, Representation) or not self.rep.is_linear:
            raise TypeError(f"the values of a field need a linear representation, got {self.rep!r}")
        group = self.rep.group
        if group.n not in (2, 3) or group.size != group.n:
            raise ValueError(f"group must be linear in 2 or 3 dimensions, got {group}")
        object.__setattr__(self, "group", group)
        object.__setattr__(self, "dim", self.rep.dim)

    @property
    def is_linear(self) -> bool:
        return False

    def is_trivial(self) -> bool:
        return False

    def check_features(self, x: Tensor) -> None:
        n = self.group.n
        wanted = f"(..., copies * {self.dim}, {', '.join(['size'] * n)})"
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise TypeError(f"fields must be floating tensors {wanted}")
        if x.ndim <= n or x.shape[-n - 1] % max(self.dim, 1) or len(set(x.shape[-n:])) > 1:
            raise ValueError(f"fields must be {wanted}, got {tuple(x.shape)}")

    def act(self, g: Tensor, x: Tensor) -> Tensor:
        self.check_features(x)
        self.group.check_shape(g)
        n = self.group.n
        shape = x.shape[-n - 1 :]
        batch = torch.broadcast_shapes(g.shape[:-2], x.shape[: -n - 1])
        element = g.to(x.device, torch.float64).expand(*batch, n, n).reshape(-1, n, n)
        moved = x.to(computed_in(x.dtype)).expand(*batch, *shape).reshape(-1, *shape)
        symmetry, rest = _nearest_symmetry(element)
        moved = _interpolated(_permuted(moved, symmetry), rest)
        if not isinstance(self.rep, Trivial):
            matrix = self.rep.matrix(element).to(moved.dtype)
            split = moved.unflatten(1, (-1, self.dim))
            moved = torch.einsum("bde,bce...->bcd...", matrix, split).flatten(1, 2)
        return moved.reshape(*batch, *shape).to(x.dtype)

    def matrix(self, g: Tensor) -> Tensor:
        raise TypeError(f"{self} interpolates and has no matrices: use act")

    def algebra(self, x: Tensor) -> Tensor:
        return self.matrix(x)

    def restrict(self, subgroup: Group) -> Field:
        return Field(self.rep.restrict(subgroup))


@kept
def _grid_symmetries(n: int) -> Tensor:
    return signed_permutations(n)


def _nearest_symmetry(
    g: Tensor,  # (N, n, n), float64
) -> tuple[Tensor, Tensor]:  # (N,), position in the table; (N, n, n)
    """Factor elements ``g = r s`` into a symmetry ``s`` of the grid, applied first, and a rest."""
    n = g.shape[-1]
    rest = g[:, None] @ _grid_symmetries(n).to(g.device).mT
    # Far below a pixel: elements that differ by a symmetry and rounding have equal rests.
    rest = (rest * 2**32).round() / 2**32
    # The smallest rest; between two of the same size, such as an eighth of a turn either way, the
    # second term decides, by the rest alone.
    size = torch.arange(1, n * n + 1, dtype=g.dtype, device=g.device)
    key = rest.diagonal(dim1=-2, dim2=-1).sum(-1) + 1e-6 * (rest.flatten(2) @ size.cos())
    symmetry = key.argmax(1)
    return symmetry, rest[torch.arange(len(g), device=g.device), symmetry]


def _permuted(
    x: Tensor,  # (N, C, *S)
    symmetry: Tensor,  # (N,)
) -> Tensor:
    """Permute grid points by symmetries of the grid."""
    table, parts, order = _grid_symmetries(x.ndim - 2), [], []
    for k in symmetry.unique().tolist():
        rows = (symmetry == k).nonzero()[:, 0]
        # The axis of the output for row i of the matrix is the axis of the input of its entry.
        source = table[k].abs().argmax(1)
        turned = x[rows].permute(0, 1, *(2 + source).tolist())
        flipped = [2 + i for i, sign in enumerate(table[k].sum(1).tolist()) if sign < 0]
        parts.append(turned.flip(flipped))
        order.append(rows)
    return torch.cat(parts)[torch.cat(order).argsort()] if len(x) else x


def _interpolated(
    x: Tensor,  # (N, C, *S)
    g: Tensor,  # (N, n, n), float64
) -> Tensor:
    """Move fields by interpolation, without change where the element is the identity."""
    moves = (g != torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)).flatten(1).any(1)
    if not bool(moves.any()):
        return x
    some = x[moves]
    # Positions of grid_sample begin with the last axis, edges at -1 and 1.
    back = F.pad(torch.linalg.inv(g[moves]).flip(-1, -2), (0, 1)).to(x.dtype)
    places = F.affine_grid(back, list(some.shape), align_corners=False)
    mode = "bicubic" if x.ndim == 4 else "bilinear"
    seen = F.grid_sample(some, places, mode=mode, padding_mode="zeros", align_corners=False)
    return x.index_put((moves,), seen)


@dataclass(frozen=True)
class PlanarIrrep(Representation):
    r"""Components that rotate by ``frequency`` times the angle of the plane.

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
        self.group.check_shape(x)
        if self.frequency == 0:
            return x.new_zeros(*x.shape[:-2], 1, 1)
        return self.frequency * x

    def is_orthogonal(self) -> bool:
        return True

    def dual(self) -> PlanarIrrep:
        return self
