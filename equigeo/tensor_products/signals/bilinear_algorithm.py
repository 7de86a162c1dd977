"""Products of vectors and quaternions by few multiplications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo._kept import kept


class BilinearAlgorithm(NamedTuple):
    """A bilinear map as products of linear forms: ``z = out @ ((first @ x) * (second @ y))``.

    Parameters
    ----------
    first, second : Tensor, (products, components), float64
        Linear forms of the operands.
    out : Tensor, (components, products), float64
        What the products add up to.
    """

    first: Tensor
    second: Tensor
    out: Tensor


@kept
def cross_product() -> BilinearAlgorithm:
    """Cross product by five multiplications, the fewest possible.

    Returns
    -------
    BilinearAlgorithm
        Of three components.

    References
    ----------
    Derksen, "On the nuclear norm and the singular value decomposition of tensors", 2016
    (a decomposition of the determinant).

    Examples
    --------
    >>> first, second, out = cross_product()
    >>> x, y = torch.tensor([[1.0, 2, 3], [4, 5, 6]]).double()
    >>> out @ ((first @ x) * (second @ y))
    tensor([-3.,  6., -3.], dtype=torch.float64)
    """
    first = [[0, 1, 1], [1, 1, 0], [0, 1, 0], [0, -1, 1], [1, -1, 0]]
    second = [[1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, 0], [0, 1, 1]]
    twice_out = [[1, 1, 0], [0, 1, 1], [2, 0, 2], [-1, 1, 0], [0, -1, 1]]
    return _algorithm(first, second, [[value / 2 for value in row] for row in twice_out])


@kept
def quaternion_product() -> BilinearAlgorithm:
    r"""Product of quaternions :math:`(f + F)(g + G) = f g - F G + f G + g F + F \times G`.

    By eight multiplications, the fewest possible: four for the product of the group
    :math:`Z_2 \times Z_2`, which differs by signs only, and four to correct these.

    Returns
    -------
    BilinearAlgorithm
        Of four components, the scalar first.

    References
    ----------
    Howell, Lafon, "The complexity of the quaternion product", 1975.

    Examples
    --------
    >>> first, second, out = quaternion_product()
    >>> i, j = torch.eye(4).double()[1:3]
    >>> out @ ((first @ i) * (second @ j))  # k
    tensor([0., 0., 0., 1.], dtype=torch.float64)
    """
    hadamard = [[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]]
    unit = torch.eye(4).tolist()
    first = [*hadamard, unit[0], unit[3], unit[1], unit[2]]
    second = [*hadamard, unit[0], unit[2], unit[3], unit[1]]
    signs = (-1, 1, 1, 1)  # of the product of the group
    group = [[value * sign / 4 for value, sign in zip(row, signs, strict=True)] for row in hadamard]
    correction = [[-2 * s * value for value in row] for s, row in zip(signs, unit, strict=True)]
    return _algorithm(first, second, group + correction)


def _algorithm(*rows: Sequence[Sequence[float]]) -> BilinearAlgorithm:
    first, second, out = (torch.tensor(side, dtype=torch.float64) for side in rows)
    return BilinearAlgorithm(first, second, out.T.contiguous())
