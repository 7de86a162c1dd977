"""Functions from the sphere to vectors, as irreps and by Cartesian components."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from equigeo.nn import Tables
from equigeo.ops.runtime.torch_internals import plain_tensors
from equigeo.reps.wigner_3j import wigner_3j_table


class Harmonic(NamedTuple):
    """One irrep among the functions on the sphere.

    Parameters
    ----------
    j : int
        Degree of the irrep.
    l : int
        Degree of the component functions.
    spin : int
        0 for a scalar function, where ``j`` is ``l``; 1 for a vector function.
    """

    j: int
    l: int
    spin: int


@final
class VectorHarmonics(nn.Module):
    r"""Change of basis between irreps and Cartesian components of vector functions.

    .. math:: V_{j l m} = \sqrt{2 j + 1} \sum_{i a} C^{l 1 j}_{i a m} Y_{l i}\, e_a

    It is orthogonal, and works on one ``l`` at a time.

    Parameters
    ----------
    lmax : int
        Largest degree of the components, included.
    scalars : bool
        Whether a scalar function comes first.
    scale : callable
        What the irreps of a degree j are multiplied by.

    Attributes
    ----------
    harmonics : list of Harmonic
        The irreps in order: scalar ones by ``j``, then vector ones by ``j`` and ``l``.

    References
    ----------
    Varshalovich, Moskalev, Khersonskii, "Quantum Theory of Angular Momentum", 1988, 7.3.

    Examples
    --------
    >>> [(j, l) for j, l, _ in VectorHarmonics(1, False, float).harmonics]
    [(0, 1), (1, 0), (1, 1), (2, 1)]
    """

    def __init__(self, lmax: int, scalars: bool, scale: Callable[[int], float]) -> None:
        super().__init__()
        self.lmax, self.scalars = lmax, scalars
        # Components of degree l and a unit vector, degree 1, couple to j = l - 1, l, l + 1.
        vectors = sorted((j, l) for l in range(lmax + 1) for j in _degrees(l))
        self.harmonics = [Harmonic(l, l, 0) for l in range(lmax + 1) if scalars]
        self.harmonics += [Harmonic(j, l, 1) for j, l in vectors]
        self._sizes = [2 * harmonic.j + 1 for harmonic in self.harmonics]
        scalar = [scale(l) for l in range(lmax + 1) for _ in range(2 * l + 1)]
        with plain_tensors():
            tables = {f"degree{l}": _cartesian(l, scale) for l in range(lmax + 1)}
            tables["scalar"] = torch.tensor(scalar, dtype=torch.float64)
        self.tables = Tables(**tables)

    def multiply_adds(self) -> int:
        """Count for one sample, in one direction.

        Returns
        -------
        int
            Of dense matrices, one for each ``l``.
        """
        return sum((3 * (2 * l + 1)) ** 2 for l in range(self.lmax + 1))

    def components(self, x: Tensor) -> Tensor:
        """Pass from irreps to components.

        Parameters
        ----------
        x : Tensor, (..., dim), floating
            Coefficients, irrep by irrep.

        Returns
        -------
        Tensor, (3 or 4, ..., (lmax + 1)^2)
            Coefficients of the scalar function, if any, and of the components x, y and z.
        """
        parts = dict(zip(self.harmonics, x.split(self._sizes, dim=-1), strict=True))
        vector = []
        for l in range(self.lmax + 1):
            # All j with components of this l: an orthogonal matrix of size 3 (2 l + 1).
            part = torch.cat([parts[Harmonic(j, l, 1)] for j in _degrees(l)], dim=-1)
            whole = part @ self.tables[f"degree{l}", x.dtype]
            vector.append(whole.unflatten(-1, (3, 2 * l + 1)).movedim(-2, 0))
        components = torch.cat(vector, dim=-1)
        if not self.scalars:
            return components
        scalar = x[..., : (self.lmax + 1) ** 2] * self.tables["scalar", x.dtype]
        return torch.cat([scalar[None], components])

    def irreps(self, components: Tensor) -> Tensor:
        """Apply the transpose of :meth:`components`.

        Parameters
        ----------
        components : Tensor, (3 or 4, ..., (lmax + 1)^2), floating
            Coefficients of the scalar function, if any, and of the components x, y and z.

        Returns
        -------
        Tensor, (..., dim)
            Coefficients, irrep by irrep.
        """
        dtype, parts = components.dtype, {}
        degrees = components[-3:].split([2 * l + 1 for l in range(self.lmax + 1)], dim=-1)
        for l, degree in enumerate(degrees):
            whole = degree.movedim(0, -2).flatten(-2) @ self.tables[f"degree{l}", dtype].mT
            sizes = [2 * j + 1 for j in _degrees(l)]
            for j, part in zip(_degrees(l), whole.split(sizes, dim=-1), strict=True):
                parts[Harmonic(j, l, 1)] = part
        vector = [parts[harmonic] for harmonic in self.harmonics if harmonic.spin == 1]
        scalar = [components[0] * self.tables["scalar", dtype]] if self.scalars else []
        return torch.cat([*scalar, *vector], dim=-1)


def _degrees(l: int) -> range:
    """Degrees of the irreps of vectors with components of one degree."""
    return range(abs(l - 1), l + 2)


def _cartesian(l: int, scale: Callable[[int], float]) -> Tensor:
    """Matrix from irreps, ``j`` ascending, to components; orthogonal but for the scale."""
    blocks = [
        # Of unit norm are rows of C times sqrt(2 j + 1), as C has norm 1 over all orders m.
        scale(j) * math.sqrt(2 * j + 1) * wigner_3j_table(l, 1, j).permute(2, 1, 0)
        for j in _degrees(l)
    ]
    return torch.cat(blocks).flatten(1)
