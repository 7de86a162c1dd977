"""Groups of invertible matrices in polar form."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equigeo.groups.algebra import (
    CompactFactor,
    PolarForm,
    Stretches,
    atanc_root,
    check_orthogonal,
    check_precision,
    check_proper,
    check_square,
    determinant,
    exp_parts,
    full_precision,
    hat,
    matrix_exp,
    orthogonality_defect,
    random_ball,
    random_orthogonal,
    random_rotations,
    rotation_basis,
    scale_of,
    sinhc_root,
    stretch_basis,
    unit_rows,
    values_at_hand,
    vee,
)
from equigeo.groups.group import Group
from equigeo.groups.polar import polar, spd_exp, spd_log


@dataclass(frozen=True, repr=False)
class LinearGroup(Group):
    """A closed group of real invertible matrices, ``exp(V) K``.

    ``V`` is a space of symmetric matrices (``stretches``), and the compact group ``K``
    (``compact_factor``) is O(n), SO(n) or trivial. A kind states both and its defining equations.

    Parameters
    ----------
    n : int
        Dimension of space, at least 2. Groups with rotations have no coordinates above 3.
    """

    n: int
    stretches: ClassVar[Stretches]
    compact_factor: ClassVar[CompactFactor]

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ValueError(f"n must be at least 2, got {self.n}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"

    @property
    def polar_form(self) -> PolarForm:
        return PolarForm(self.n, self.stretches, self.compact_factor)

    @property
    def has_rotations(self) -> bool:
        """Whether the compact factor is not trivial."""
        return self.compact_factor is not CompactFactor.TRIVIAL

    @property
    def has_reflections(self) -> bool:
        """Whether the group has a second component, of negative determinants."""
        return self.compact_factor is CompactFactor.ORTHOGONAL

    @abstractmethod
    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        """Return which of (..., n, n) satisfy the defining equations up to ``tol``."""

    def is_subgroup_of(self, other: LinearGroup) -> bool:
        """Return whether every element of this group is an element of ``other``."""
        return self.polar_form.lies_in(other.polar_form)

    def generators(self) -> Tensor:
        """Return a basis of the Lie algebra: symmetric, then rotations (x, y, z in 3D)."""
        symmetric = self._basis()
        if not self.has_rotations:
            return symmetric.clone()
        return torch.cat([symmetric, rotation_basis(self.n)])

    def _basis(self) -> Tensor:
        """Return a basis (d, n, n) of ``V``, possibly empty; a shared table."""
        return stretch_basis(self.stretches, self.n)

    @property
    def symmetric_dimension(self) -> int:
        """Number of coordinates of the symmetric factor ``V``; they come first."""
        return len(self._basis())

    @property
    def dimension(self) -> int:
        rotations = self.n * (self.n - 1) // 2 if self.has_rotations else 0
        return self.symmetric_dimension + rotations

    def exp(self, x: Tensor) -> Tensor:
        self.check_shape(x)
        # in closed form if there is one
        if self.symmetric_dimension == 0 and self.n == 3:
            return rotation_exp(vee(x))
        if self.n != 2:
            return matrix_exp(x)
        mean = x.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
        identity = torch.eye(2, dtype=x.dtype, device=x.device)
        deviation = x - mean * identity  # its square is a multiple of the identity
        even, odd = exp_parts(mean, -determinant(deviation)[..., None, None])
        return even * identity + odd * deviation

    def coordinates(self, g: Tensor) -> Tensor:
        """Return the coordinates of ``exp(Y) R``: those of ``Y``, then those of the rotation ``R``.

        ``Y`` is expanded in the symmetric generators: orthonormal ones for SL and GL, the identity
        for scalings, whose coordinate is the logarithm of the factor. Rotations have the angle in
        the plane, and axis times angle in space. Twice differentiable except at half turns, where
        these jump. Matrices outside of the component of the identity raise ``ValueError``.

        Examples
        --------
        >>> Similarity(2).coordinates(torch.tensor([[0.0, -1.0], [1.0, 0.0]]))
        tensor([0.0000, 1.5708])
        """
        self._check_chart()
        self._check_proper_elements(g)
        basis = self._basis()
        if len(basis) == 0:
            return rotation_log(g)
        if len(basis) == 1:  # multiples of one another: the factor is the root of the mean square
            largest = scale_of(g)
            squares = (g / largest).square().sum((-2, -1)) / self.n
            scale = squares.sqrt() * largest[..., 0, 0]
            stretch = scale.log()[..., None]
            if not self.has_rotations:
                return stretch
            return torch.cat([stretch, rotation_log(g / scale[..., None, None])], dim=-1)
        p, r = polar(g)
        with full_precision(g):
            y = torch.einsum("...ij,dij->...d", spd_log(p), basis.to(g))
        return torch.cat([y, rotation_log(r)], dim=-1)

    def _check_chart(self) -> None:
        """Raise for groups of rotations without a chart."""
        if self.has_rotations and self.n > 3:
            raise ValueError(
                f"{self} has no coordinates: those of rotations are for n = 2 and n = 3, "
                f"got n = {self.n}"
            )

    def _check_proper_elements(self, g: Tensor) -> None:
        """Raise if matrices are not elements of the component of the identity."""
        self.check_shape(g)
        check_precision("elements", g)
        if not values_at_hand(g) or g.numel() == 0:
            return
        g = g.detach()
        # rounding of a product grows with its entries, so the bound does too
        size = float(g.abs().amax().clamp(min=1))
        inside = self.contains(g, tol=torch.finfo(g.dtype).eps ** 0.5 * size**self.n)
        if not bool(inside.all()):
            raise ValueError(
                f"{int((~inside).sum())} of {inside.numel()} matrices are no elements of {self}, "
                f"the first is {g[~inside][0].tolist()}"
            )
        improper = determinant(unit_rows(g)) < 0
        if bool(improper.any()):
            raise ValueError(
                f"coordinates describe the component of the identity of {self}, "
                f"got {int(improper.sum())} improper elements, which have no coordinates"
            )

    def from_coordinates(self, c: Tensor) -> Tensor:
        """Return elements (..., size, size) with given coordinates (..., dimension)."""
        self._check_chart()
        self.check_coordinates(c)
        return _product(*self._factors(c))

    def inverse_from_coordinates(self, c: Tensor) -> Tensor:
        """Return inverses ``R^T exp(-Y)`` of elements with given coordinates, without a solve."""
        self._check_chart()
        self.check_coordinates(c)
        stretch, rotation = c.tensor_split([self.symmetric_dimension], dim=-1)
        p, r = self._factors(torch.cat([-stretch, rotation], dim=-1))
        inverse = _product(None if r is None else r.mT, p)
        return inverse.clone(memory_format=torch.contiguous_format)

    def _factors(self, c: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return stretches ``exp(Y)`` and rotations; a factor that the group lacks is None."""
        basis = self._basis()
        stretch, rotation = c.tensor_split([len(basis)], dim=-1)
        r = rotation_exp(rotation) if self.has_rotations else None
        if len(basis) == 0:
            return None, r
        if len(basis) == 1:
            identity = torch.eye(self.n, dtype=c.dtype, device=c.device)
            return stretch.exp()[..., None] * identity, r
        return spd_exp(self._logarithm(stretch)), r

    def _logarithm(self, stretch: Tensor) -> Tensor:
        """Return ``Y`` (..., n, n) of its coordinates (..., d)."""
        with full_precision(stretch):
            return torch.einsum("...d,dij->...ij", stretch, self._basis().to(stretch))

    def log_determinant(self, c: Tensor) -> Tensor:
        """Return the logarithms of the determinants of elements, ``tr Y``."""
        basis = self._basis()
        traces = basis.diagonal(dim1=-2, dim2=-1).sum(-1).to(c)
        return (c[..., : len(basis)] * traces).sum(-1)

    def haar_density(self, c: Tensor) -> Tensor:
        r"""Return :math:`\prod_{i<j} \sinh(y_i - y_j) / (y_i - y_j)`, y the eigenvalues of ``Y``.

        The Haar measure is this density times Lebesgue measure in ``Y``, times the uniform
        distribution of rotations. The coordinates of ``Y``, (..., symmetric_dimension), are enough.
        """
        if c.shape[-1:] != (self.symmetric_dimension,):
            self.check_coordinates(c)
        check_precision("c", c)
        dimension = self.symmetric_dimension
        if dimension <= 1:  # rotations and scalings commute: nothing is distorted
            return c.new_ones(c.shape[:-1])
        y = self._logarithm(c[..., :dimension])
        if self.n == 2:
            # (y_1 - y_2)^2 is the discriminant of the characteristic polynomial
            gap = (y[..., 0, 0] - y[..., 1, 1]).square() + 4 * y[..., 0, 1].square()
            return sinhc_root(gap)
        values = torch.linalg.eigvalsh(y)
        i, j = torch.triu_indices(self.n, self.n, 1, device=c.device)
        return sinhc_root((values[..., i] - values[..., j]).square()).prod(-1)

    def log_stretch(self, g: Tensor) -> Tensor:
        """Return the largest ``|log s|`` over the singular values of the linear parts, (...).

        Subadditive in products, equal for inverses, and invariant to rotations on either side: the
        radius that windows of groups are measured by.
        """
        self.check_shape(g)
        if self.n == 2:
            plus = torch.hypot(g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1])
            minus = torch.hypot(g[..., 0, 0] - g[..., 1, 1], g[..., 1, 0] + g[..., 0, 1])
            high = (plus + minus) / 2
            low = determinant(g / high[..., None, None]).abs() * high
            return torch.maximum(high.log().abs(), low.log().abs())
        with full_precision(g):
            return torch.linalg.svdvals(g).log().abs().amax(-1)

    def components(self) -> Tensor:
        identity = self.identity()
        if not self.has_reflections:
            return identity[None]
        mirror = identity.clone()
        mirror[0, 0] = -1.0
        return torch.stack([identity, mirror])

    def sample(
        self, k: int, *, radius: float = 1.0, generator: torch.Generator | None = None
    ) -> Tensor:
        """Draw ``exp(Y) R``: ``Y`` uniform in a ball, ``R`` uniform in the compact factor.

        ``radius`` bounds the coordinates of ``Y``; compact groups ignore it.
        """
        basis = self._basis()
        coordinates = random_ball(k, len(basis), radius=radius, generator=generator)
        positive = matrix_exp(torch.einsum("kd,dij->kij", coordinates, basis))
        if not self.has_rotations:
            return positive
        proper = self.compact_factor is CompactFactor.ROTATIONS
        draw = random_rotations if proper else random_orthogonal
        return positive @ draw(k, self.n, generator=generator)

    def special_elements(self) -> Tensor:
        basis = self._basis()
        chosen = basis[[0, -1]] if len(basis) > 1 else basis
        stretches = matrix_exp(0.9 * chosen)  # factors up to e^0.9 = 2.5: strong, yet no window
        if not self.has_rotations:
            return torch.cat([stretches, matrix_exp(-0.9 * chosen)])
        return torch.cat([special_rotations(self.n), stretches])

    def contains(self, g: Tensor, *, tol: float | None = None) -> Tensor:
        self.check_shape(g)
        tol = torch.finfo(g.dtype).eps ** 0.5 if tol is None else tol
        return self._equations_hold(g, tol) & torch.isfinite(g).all(-1).all(-1)

    def inverse(self, g: Tensor) -> Tensor:
        if self.stretches is not Stretches.NONE:
            return super().inverse(g)
        self.check_shape(g)
        return g.mT


def _product(left: Tensor | None, right: Tensor | None) -> Tensor:
    """Return the product of two factors, one of which may be None."""
    if left is None or right is None:
        return torch.as_tensor(right if left is None else left)
    with full_precision(left):
        return left @ right


class _CompactGroup(LinearGroup):
    stretches = Stretches.NONE

    def haar(self, k: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Draw elements from the uniform (Haar) distribution, (k, n, n), float64."""
        return self.sample(k, generator=generator)


class O(_CompactGroup):  # noqa: E742 - the name of the group
    """Rotations and reflections of ``n``-dimensional space: ``g^T g = 1``.

    Examples
    --------
    >>> g = O(3).haar(5, generator=torch.Generator().manual_seed(0))
    >>> bool(O(3).contains(g).all()), O(3) == O(3)
    (True, True)
    """

    compact_factor = CompactFactor.ORTHOGONAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return orthogonality_defect(g) <= tol


class SO(_CompactGroup):
    """Rotations of ``n``-dimensional space: ``g^T g = 1`` and ``det g = 1``.

    Examples
    --------
    >>> SO(3).generators()[2].tolist()  # turns x towards y
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (orthogonality_defect(g) <= tol) & (torch.linalg.det(g) > 0)


class SL(LinearGroup):
    """Matrices that preserve volume and orientation: ``det g = 1``.

    Examples
    --------
    >>> SL(2).contains(torch.tensor([[1.0, 3.0], [0.0, 1.0]]))
    tensor(True)
    """

    stretches = Stretches.TRACELESS
    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return (torch.linalg.det(g) - 1).abs() <= tol


class GL(LinearGroup):
    """All invertible matrices, including reflections.

    Examples
    --------
    >>> GL(2).contains(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor(True)
    """

    stretches = Stretches.SYMMETRIC
    compact_factor = CompactFactor.ORTHOGONAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(unit_rows(g)) != 0


class GLPlus(LinearGroup):
    """Matrices of positive determinant, the component of the identity of GL(n).

    Examples
    --------
    >>> GLPlus(3).generators().shape
    torch.Size([9, 3, 3])
    """

    stretches = Stretches.SYMMETRIC
    compact_factor = CompactFactor.ROTATIONS

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        return torch.linalg.det(unit_rows(g)) > 0


class Scaling(LinearGroup):
    """Positive multiples of the identity; the coordinate is the logarithm of the factor.

    Examples
    --------
    >>> Scaling(2).exp(torch.eye(2) * 0.0).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    stretches = Stretches.UNIFORM
    compact_factor = CompactFactor.TRIVIAL

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        scale = g.diagonal(dim1=-2, dim2=-1).mean(-1)
        identity = torch.eye(self.n, dtype=g.dtype, device=g.device)
        defect = (g - scale[..., None, None] * identity).abs().amax((-2, -1))
        return (scale > 0) & (defect <= tol * scale)


class Similarity(LinearGroup):
    """Positive multiples of orthogonal matrices; ``Affine(Similarity(n))`` adds translations.

    Examples
    --------
    >>> Similarity(2).contains(torch.tensor([[0.0, 3.0], [3.0, 0.0]]))
    tensor(True)
    """

    stretches = Stretches.UNIFORM
    compact_factor = CompactFactor.ORTHOGONAL

    def inverse(self, g: Tensor) -> Tensor:
        """Return the transpose over the squared factor."""
        self.check_shape(g)
        # g^T g = s^2 1, so that the squares of all n^2 entries sum to n s^2
        scale = scale_of(g)
        unit = g / scale
        return unit.mT / unit.square().mean((-2, -1), keepdim=True) / self.n / scale

    def _equations_hold(self, g: Tensor, tol: float) -> Tensor:
        unit = g / scale_of(g)
        scale = torch.linalg.matrix_norm(unit) / self.n**0.5  # the norm of s R is s sqrt n
        return (scale > 0) & (orthogonality_defect(unit / scale[..., None, None]) <= tol)


def rotation_exp(w: Tensor) -> Tensor:
    """Return rotations by angles (..., 1) or by axes times angles (..., 3), in radians.

    Counter-clockwise; the formula of Rodrigues in space. Differentiable to any order, also at zero.
    Returns (..., 2, 2) or (..., 3, 3). Other shapes and dtypes than float32 and float64 raise
    ``ValueError``.

    Examples
    --------
    >>> rotation_exp(torch.tensor([torch.pi])).round().tolist()
    [[-1.0, 0.0], [-0.0, -1.0]]
    """
    check_precision("w", w)
    if w.ndim == 0 or w.shape[-1] not in (1, 3):
        raise ValueError(f"w must be (..., 1) angles or (..., 3) axes, got {tuple(w.shape)}")
    with full_precision(w):
        if w.shape[-1] == 1:
            cosine, sine = w.cos(), w.sin()
            return torch.cat([cosine, -sine, sine, cosine], -1).unflatten(-1, (2, 2))
        skew = hat(w)
        square = w.square().sum(-1)[..., None, None]
        first, half = sinhc_root(-square), sinhc_root(-square / 4)
        identity = torch.eye(3, dtype=w.dtype, device=w.device)
        # 1 - cos t = 2 sin^2(t / 2), which keeps all digits of small angles
        return identity + first * skew + half.square() / 2 * (skew @ skew)


def rotation_log(r: Tensor) -> Tensor:
    """Return coordinates of rotations of least length, the inverse of :func:`rotation_exp`.

    Angles are in (-pi, pi], axes times angles at most pi long. Exact up to half turns, whose axis
    has an arbitrary sign, and twice differentiable away from them. Matrices that are no rotations
    raise ``ValueError``.

    Examples
    --------
    >>> rotation_log(torch.diag(torch.tensor([1.0, -1.0, -1.0])))
    tensor([3.1416, 0.0000, 0.0000])
    """
    check_square("r", r)
    if r.shape[-1] not in (2, 3):
        raise ValueError(f"rotations must be (..., 2, 2) or (..., 3, 3), got {tuple(r.shape)}")
    check_proper("r", r)
    check_orthogonal("r", r)
    if r.shape[-1] == 2:
        # Adding zero turns -0 into 0: a half turn is pi, never -pi. -atan2(-y, x), because
        # PyTorch's exporter to ONNX writes an atan2 that is -pi at (0, -1) and at (-0, -1).
        return -torch.atan2(-(r[..., 1, 0] + 0.0), r[..., 0, 0])[..., None]
    # the angle t from (cos t/2, sin t/2 * axis): by arc tangents of whichever ratio is below 1
    w, v = quaternion(r).tensor_split([1], -1)
    square = v.square().sum(-1, keepdim=True)
    near = square < w.square()
    ratio = torch.where(near, square / torch.where(near, w, 1.0).square(), 0.0)
    small = 2 * atanc_root(ratio) / torch.where(near, w, 1.0)
    sine = torch.where(near, 1.0, square).sqrt()
    return v * torch.where(near, small, 2 * torch.atan2(sine, w) / sine)


def quaternion(
    r: Tensor,  # (..., 3, 3)
) -> Tensor:  # (..., 4)
    """Return unit quaternions ``(w, x, y, z)`` with nonnegative w."""
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = (row.unbind(-1) for row in r.unbind(-2))
    trace = xx + yy + zz
    # four times the outer product of the quaternion with itself
    outer = [
        [1 + trace, zy - yz, xz - zx, yx - xy],
        [zy - yz, 1 + 2 * xx - trace, xy + yx, xz + zx],
        [xz - zx, xy + yx, 1 + 2 * yy - trace, yz + zy],
        [yx - xy, xz + zx, yz + zy, 1 + 2 * zz - trace],
    ]
    rows = torch.stack([torch.stack(row, -1) for row in outer], -2)
    best = rows.diagonal(dim1=-2, dim2=-1).argmax(-1)
    row = torch.take_along_dim(rows, best[..., None, None], dim=-2)[..., 0, :]
    q = row / torch.linalg.vector_norm(row, dim=-1, keepdim=True)
    return torch.where(q[..., :1] < 0, -q, q)


def special_rotations(n: int) -> Tensor:  # (elements, n, n), float64
    """Return half turn, quarter turn and axis permutation, with exact entries."""
    # The half turn is the cut of the logarithm; the quarter turn about y is a pole of Y-X-Y Euler
    # angles.
    identity = torch.eye(n, dtype=torch.float64)
    half = identity.clone()
    half[-2, -2] = half[-1, -1] = -1.0
    quarter = identity.clone()
    quarter[0, 0] = quarter[-1, -1] = 0.0
    quarter[0, -1], quarter[-1, 0] = 1.0, -1.0
    cyclic = identity.roll(1, dims=0)
    cyclic[0] *= (-1.0) ** (n - 1)  # a cycle of even length is odd
    return torch.stack([half, quarter] if n == 2 else [half, quarter, cyclic])
