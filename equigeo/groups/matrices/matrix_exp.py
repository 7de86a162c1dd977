"""The matrix exponential, precise for single matrices too."""

from __future__ import annotations

import torch
from torch import Tensor


def matrix_exp(x: Tensor) -> Tensor:
    """Return the exponential of square matrices (..., n, n), in their dtype.

    Unlike :func:`torch.linalg.matrix_exp`, precise for a single matrix.

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
    # The polynomial of degree 8 for a single small matrix has a wrong coefficient (PyTorch issue
    # 196592; errors of 1e-10 in float64, 2e-5 in float32). Batches are computed otherwise.
    return torch.linalg.matrix_exp(torch.stack([x, x]))[0]
