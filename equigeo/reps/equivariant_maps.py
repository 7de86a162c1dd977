"""Null spaces of the condition that a linear map is equivariant, in a unique basis."""

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
def equivariant_maps(
    rep_in: Representation, rep_out: Representation
) -> Tensor:  # (dimension, rep_out.dim, rep_in.dim), float64
    """Return an orthonormal basis of the equivariant maps; a cached table, do not modify."""
    return solve_conditions(_conditions(rep_out), _conditions(rep_in))


def _conditions(rep: Representation) -> Tensor:
    """Return matrices (conditions, dim, dim) that every equivariant map commutes with."""
    # A map commutes with a group if it does with the generators of its Lie algebra and with one
    # element of every component: each is a linear condition L A = A R.
    return torch.cat([rep.generators(), rep.matrix(rep.group.components()[1:])])


def maps_of_irrep(
    irrep: Representation, rep: Representation
) -> Tensor:  # (dimension, rep.dim, irrep.dim), float64
    """Return an orthonormal basis of the equivariant maps from an irrep of O(3) or SO(3)."""
    left, right = _conditions(rep), _conditions(irrep)
    # The image of an irrep is in an eigenspace of the Casimir operator: the cost is cubic in the
    # size of that space only.
    value = (right[:3] @ right[:3]).sum(0)[0, 0]
    shifted = (left[:3] @ left[:3]).sum(0) - value * torch.eye(rep.dim, dtype=left.dtype)
    _, values, rows = torch.linalg.svd(shifted)
    # Eigenvalues l (l + 1) are at least 2 apart.
    space = rows[values < TIE * max(1.0, float(values.max()))].mT
    within = space.mT @ left @ space
    # Conditions are normalized later, which would turn rounding of zeros into conditions.
    within = torch.where(within.abs() < ZERO * left.abs().amax(), 0.0, within)
    maps = solve_conditions(within, right)
    return unique_basis(space @ maps)


def solve_conditions(
    left: Tensor,  # (conditions, m, m)
    right: Tensor,  # (conditions, n, n)
) -> Tensor:  # (dimension, m, n)
    """Return an orthonormal basis of the matrices with ``left[k] A = A right[k]`` for all k."""
    m, n = left.shape[-1], right.shape[-1]
    if m * n == 0:
        return left.new_zeros(0, m, n)
    left, right = _normalized(left, right)
    squares, vectors = torch.linalg.eigh(_gram(left, right))
    maps = vectors[:, squares < SMALL_SQUARE].mT.unflatten(-1, (m, n))
    # few candidates are left: singular values themselves, instead of squares, keep all digits
    residual = (left[:, None] @ maps - maps @ right[:, None]).movedim(1, -1).flatten(0, -2)
    if len(residual):
        values, rows = _singular_rows(residual)
        maps = torch.einsum("kd,dij->kij", rows[values < ZERO], maps)
    return unique_basis(maps)


def _normalized(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return conditions of norm one, without those of norm zero."""
    norms = torch.stack([torch.linalg.matrix_norm(x, 2) for x in (left, right)]).amax(0)
    nonzero = norms > 0
    scale = norms[nonzero, None, None]
    return left[nonzero] / scale, right[nonzero] / scale


def _gram(left: Tensor, right: Tensor) -> Tensor:
    """Return the sum of squares of all conditions, (m n, m n), on entries in row-major order."""
    m, n = left.shape[-1], right.shape[-1]
    eye_out, eye_in = torch.eye(m).to(left), torch.eye(n).to(left)
    squares = torch.einsum("kab,kac,ij->bicj", left, left, eye_in)
    squares = squares + torch.einsum("ab,kij,klj->aibl", eye_out, right, right)
    mixed = torch.einsum("kab,kij->aibj", left, right)
    return (squares - mixed - mixed.permute(2, 3, 0, 1)).flatten(2).flatten(0, 1)


def _singular_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return singular values and right singular vectors of (rows, d), one per column."""
    _, values, rows = torch.linalg.svd(x, full_matrices=len(x) < x.shape[1])
    return torch.nn.functional.pad(values, (0, len(rows) - len(values))), rows


def unique_basis(
    maps: Tensor,  # (d, m, n), orthonormal for tr(A^T B)
) -> Tensor:
    """Return the orthonormal basis of a span that does not depend on the given basis."""
    span = maps.flatten(1).mT.clone()
    basis = torch.zeros_like(span)
    # Cholesky factor of the projector with complete pivoting (Higham, 1990, "Analysis of the
    # Cholesky decomposition of a semi-definite matrix"); ties take the first entry. Eigenvectors of
    # multiple eigenvalues differ between libraries, this basis only by rounding.
    for k in range(span.shape[1]):
        reach = span.square().sum(1)
        pivot = int((reach >= (1 - TIE) * reach.max()).int().argmax())
        direction = span[pivot] / reach[pivot].sqrt()
        basis[:, k] = span @ direction
        span = span - torch.outer(basis[:, k], direction)
    # exact zeros leave rounding behind
    basis = torch.where(basis.abs() < 1e-13, 0.0, basis)
    return basis.mT.unflatten(-1, maps.shape[1:])
