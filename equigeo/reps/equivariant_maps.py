"""Null spaces of the condition that a linear map is equivariant, in a basis that is unique.

A map ``A`` commutes with a group if it does with the generators of its Lie algebra and with one
element of every component: each is one linear condition ``L A = A R``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._kept import kept
from equigeo.reps.representation import Representation

# Singular values of normalised conditions. Those of maps that are equivariant are rounding, 1e-15
# times the number of components; those of other maps are of the order of weights, near one.
ZERO = 1e-9
# Squares of singular values, of which rounding leaves half of the digits: a first selection.
SMALL_SQUARE = 1e-6
# Rows whose lengths differ by rounding count as equally long, so that the first is chosen.
TIE = 1e-6


@kept
def equivariant_maps(rep_in: Representation, rep_out: Representation) -> Tensor:
    """Orthonormal basis of the equivariant maps, from conditions on all of their entries.

    Parameters
    ----------
    rep_in, rep_out : Representation
        Linear, of one group.

    Returns
    -------
    Tensor, (dimension, rep_out.dim, rep_in.dim), float64
        A cached table: callers must not write to it.
    """
    return solve_conditions(_conditions(rep_out), _conditions(rep_in))


def _conditions(rep: Representation) -> Tensor:
    """Matrices (conditions, dim, dim) that every equivariant map commutes with."""
    return torch.cat([rep.generators(), rep.matrix(rep.group.components()[1:])])


def maps_of_irrep(irrep: Representation, rep: Representation) -> Tensor:
    """Orthonormal basis of the equivariant maps of an irrep of rotations of space.

    The image of an irrep is in an eigenspace of the Casimir operator, which is a fraction of all
    features: conditions on entries within it take the cube of far fewer unknowns.

    Parameters
    ----------
    irrep, rep : Representation
        Linear, of O(3) or SO(3).

    Returns
    -------
    Tensor, (dimension, rep.dim, irrep.dim), float64
        As :func:`equivariant_maps`.
    """
    left, right = _conditions(rep), _conditions(irrep)
    value = (right[:3] @ right[:3]).sum(0)[0, 0]
    shifted = (left[:3] @ left[:3]).sum(0) - value * torch.eye(rep.dim, dtype=left.dtype)
    _, values, rows = torch.linalg.svd(shifted)
    # Eigenvalues l (l + 1) are at least 2 apart.
    space = rows[values < TIE * max(1.0, float(values.max()))].mT
    within = space.mT @ left @ space
    # Rounding of what is zero would be a condition once it is normalised.
    within = torch.where(within.abs() < ZERO * left.abs().amax(), 0.0, within)
    maps = solve_conditions(within, right)
    return unique_basis(space @ maps)


def solve_conditions(left: Tensor, right: Tensor) -> Tensor:
    """Orthonormal basis of the matrices with ``left[k] A = A right[k]`` for all k.

    Parameters
    ----------
    left : Tensor, (conditions, m, m), float64
        What acts on the rows of ``A``.
    right : Tensor, (conditions, n, n), float64
        What acts on its columns.

    Returns
    -------
    Tensor, (dimension, m, n), float64
        As :func:`unique_basis` chooses them.
    """
    m, n = left.shape[-1], right.shape[-1]
    if m * n == 0:
        return left.new_zeros(0, m, n)
    left, right = _normalized(left, right)
    squares, vectors = torch.linalg.eigh(_gram(left, right))
    maps = vectors[:, squares < SMALL_SQUARE].mT.unflatten(-1, (m, n))
    # what is left is small enough for singular values themselves, with all their digits
    residual = (left[:, None] @ maps - maps @ right[:, None]).movedim(1, -1).flatten(0, -2)
    if len(residual):
        values, rows = _singular_rows(residual)
        maps = torch.einsum("kd,dij->kij", rows[values < ZERO], maps)
    return unique_basis(maps)


def _normalized(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Conditions of norm one; those that say nothing, of norm zero, are left out."""
    norms = torch.stack([torch.linalg.matrix_norm(x, 2) for x in (left, right)]).amax(0)
    said = norms > 0
    scale = norms[said, None, None]
    return left[said] / scale, right[said] / scale


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """Sum of the squares of all conditions, (m n, m n), on entries in row-major order."""
    m, n = left.shape[-1], right.shape[-1]
    eye_out, eye_in = torch.eye(m).to(left), torch.eye(n).to(left)
    squares = torch.einsum("kab,kac,ij->bicj", left, left, eye_in)
    squares = squares + torch.einsum("ab,kij,klj->aibl", eye_out, right, right)
    mixed = torch.einsum("kab,kij->aibj", left, right)
    return (squares - mixed - mixed.permute(2, 3, 0, 1)).flatten(2).flatten(0, 1)


def _singular_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values and right singular vectors of (rows, d), as many as there are columns."""
    _, values, rows = torch.linalg.svd(x, full_matrices=len(x) < x.shape[1])
    return torch.nn.functional.pad(values, (0, len(rows) - len(values))), rows


def unique_basis(maps: Tensor) -> Tensor:
    r"""Orthonormal basis of the span of orthonormal matrices that depends on the span alone.

    One step after the other, the entry is chosen in which the span reaches farthest, the first of
    those that reach equally far; the unit vector that does so joins the basis, and the rest of the
    span is orthogonal to it. Every matrix is positive at its entry. Eigenvectors of a multiple
    eigenvalue are whatever a library returns; this is the same on every machine, up to rounding.

    Parameters
    ----------
    maps : Tensor, (d, m, n), float64
        Orthonormal for ``tr(A^T B)``.

    Returns
    -------
    Tensor, (d, m, n), float64
        Entries that are zero are so exactly.

    References
    ----------
    Higham, "Analysis of the Cholesky decomposition of a semi-definite matrix", 1990: the factor of
    the projector on the span, with complete pivoting.

    Examples
    --------
    >>> a, b = torch.eye(2, dtype=torch.float64).view(2, 1, 2)
    >>> unique_basis(torch.stack([a + b, b - a]) / 2**0.5).tolist()
    [[[1.0, 0.0]], [[0.0, 1.0]]]
    """
    span = maps.flatten(1).mT.clone()
    basis = torch.zeros_like(span)
    for k in range(span.shape[1]):
        reach = span.square().sum(1)
        pivot = int((reach >= (1 - TIE) * reach.max()).int().argmax())
        direction = span[pivot] / reach[pivot].sqrt()
        basis[:, k] = span @ direction
        span = span - torch.outer(basis[:, k], direction)
    # exact zeros leave rounding behind
    basis = torch.where(basis.abs() < 1e-13, 0.0, basis)
    return basis.mT.unflatten(-1, maps.shape[1:])
