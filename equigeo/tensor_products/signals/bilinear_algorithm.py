"""Products of vectors and quaternions with few multiplications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equigeo._kept import kept


class BilinearAlgorithm(NamedTuple):
    """A bilinear map ``z = out @ ((first @ x) * (second @ y))``."""

    first: Tensor  # (products, components)
    second: Tensor  # (products, components)
    out: Tensor  # (components, products)


@kept
def cross_product() -> BilinearAlgorithm:
    """Return the cross product with five multiplications, the minimum."""
    # A decomposition of the determinant: Derksen, "On the nuclear norm and the singular value
    # decomposition of tensors", 2016.
    first = [[0, 1, 1], [1, 1, 0], [0, 1, 0], [0, -1, 1], [1, -1, 0]]
    second = [[1, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 1, 0], [0, 1, 1]]
    twice_out = [[1, 1, 0], [0, 1, 1], [2, 0, 2], [-1, 1, 0], [0, -1, 1]]
    return _algorithm(first, second, [[value / 2 for value in row] for row in twice_out])


@kept
def quaternion_product() -> BilinearAlgorithm:
    """Return the product of quaternions, scalar first, with eight multiplications, the minimum."""
    # Four for the product of the group Z_2 x Z_2, which differs by signs, and four to correct them:
    # Howell and Lafon, "The complexity of the quaternion product", 1975.
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
