"""The matrix exponential, precise for single matrices too."""

from __future__ import annotations

import torch
from torch import Tensor


def matrix_exp(x: Tensor) -> Tensor:
    """Return the exponential of square matrices.

    :func:`torch.linalg.matrix_exp` has a wrong coefficient in the polynomial of degree 8 that it
    picks for a single small matrix (PyTorch issue 196592, errors of 1e-10 in float64 and 2e-5 in
    float32); batches take another path. A single matrix therefore goes as a batch of two.

    Parameters
    ----------
    x : Tensor, (..., n, n), floating
        Matrices.

    Returns
    -------
    Tensor, (..., n, n), dtype of ``x``
        The exponentials.

    Examples
    --------
    >>> import math
    >>> import torch
    >>> turn = matrix_exp(torch.tensor([[0.0, -0.04], [0.04, 0.0]], dtype=torch.float64))
    >>> abs(turn[0, 0].item() - math.cos(0.04)) < 1e-15
    True
    """
    if x.shape[:-2].numel() != 1:
        return torch.linalg.matrix_exp(x)
    return torch.linalg.matrix_exp(torch.stack([x, x]))[0]
