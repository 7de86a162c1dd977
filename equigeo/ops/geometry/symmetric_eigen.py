"""Eigenvalues and eigenvectors of many small symmetric matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo._core.checks import check_features
from equigeo._core.tensors import HALF, computes_in_float32, in_float32
from equigeo.ops.geometry.axis_rules import safe_divisor
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare
from equigeo.ops.runtime.tape import Gradients

SCHEMA = "symmetric_eigen(Tensor matrix) -> (Tensor, Tensor)"

KERNEL_SIZES = (2, 3)


@computes_in_float32
def symmetric_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    r"""Diagonalize symmetric parts: :math:`(A + A^T) / 2 = V \mathrm{diag}(\lambda) V^T`.

    Matrices with two or three rows have a kernel: the eigenvalue that is better separated comes
    from the trigonometric solution, its eigenvector from a cross product, and the others from the
    problem on the complement, so that eigenvectors are orthonormal to rounding for every
    spectrum. Others go to :func:`torch.linalg.eigh`.

    Parameters
    ----------
    matrix : Tensor, (batch, n, n)

    Returns
    -------
    values : Tensor, (batch, n)
        Eigenvalues, descending. NaN for a matrix that is not finite.
    vectors : Tensor, (batch, n, n)
        Orthonormal columns; the component of largest magnitude of each is positive. The gradient
        omits the rotation of two of them into each other where their eigenvalues are equal.

    Examples
    --------
    >>> values, vectors = symmetric_eigen(torch.tensor([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> values.tolist()
    [[3.0, 1.0]]
    """
    check_features("matrix", matrix, ("batch", "rows", "columns"))
    n = matrix.shape[1]
    if matrix.shape[2] != n:
        raise ValueError(f"matrix must be (batch, n, n), got shape {tuple(matrix.shape)}")
    if n in KERNEL_SIZES:
        return symmetric_eigen_op(matrix)
    if matrix.dtype in HALF:
        return in_float32(symmetric_eigen_reference, [matrix])
    return symmetric_eigen_reference(matrix)


def symmetric_eigen_reference(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Reference implementation of :func:`symmetric_eigen`, differentiable by PyTorch alone."""
    symmetric = (matrix + matrix.mT) / 2
    finite = symmetric.detach().isfinite().flatten(1).all(-1)[:, None]
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    solved = torch.linalg.eigh(torch.where(finite[..., None], symmetric, identity))
    values, vectors = solved.eigenvalues.flip(-1), solved.eigenvectors.flip(-1)
    if matrix.shape[1]:
        largest = vectors.detach().abs().argmax(-2, keepdim=True)
        negative = vectors.detach().gather(-2, largest) < 0
        vectors = torch.where(negative, -vectors, vectors)
    values = torch.where(finite, values, torch.nan)
    return values.contiguous(), torch.where(finite[..., None], vectors, torch.nan).contiguous()


def _fake(matrix: Tensor) -> tuple[Tensor, Tensor]:
    return matrix.new_empty(matrix.shape[:2]), matrix.new_empty(matrix.shape)


def _backward(
    grad_values: Tensor, grad_vectors: Tensor, *, values: Tensor, vectors: Tensor
) -> Gradients:
    # In the basis of the eigenvectors: values move by the diagonal, vectors turn by the rest,
    # divided by the differences of values.
    moment = vectors.mT @ grad_vectors
    gap = values[:, None, :] - values[:, :, None]
    turn = torch.where(gap == 0, 0, (moment - moment.mT) / safe_divisor(gap))
    return {"matrix": vectors @ (torch.diag_embed(grad_values) + turn / 2) @ vectors.mT}


symmetric_eigen_op = declare(
    SCHEMA,
    reference=symmetric_eigen_reference,
    fake=_fake,
    backward=_backward,
    batch=blocks(["matrix"]),
    results=("values", "vectors"),
)
