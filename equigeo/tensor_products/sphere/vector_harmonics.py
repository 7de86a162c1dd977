"""Functions from the sphere to vectors, as irreps and by Cartesian components."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from equigeo._core.tensors import plain_tensors
from equigeo.nn import Tables
from equigeo.reps.wigner import wigner_3j_table


class Harmonic(NamedTuple):
    """One irrep among the functions on the sphere."""

    j: int  # degree of the irrep
    l: int  # degree of the component functions
    spin: int  # 0 for a scalar function (j = l), 1 for a vector function


@final
class VectorHarmonics(nn.Module):
    """Orthogonal change of basis between irreps and components of vector functions."""

    # V_jlm = sqrt(2 j + 1) sum_ia C^{l 1 j}_iam Y_li e_a, one l at a time: Varshalovich et al.,
    # "Quantum Theory of Angular Momentum", 1988, 7.3.
    def __init__(
        self,
        lmax: int,  # largest degree of the components
        scalars: bool,  # whether a scalar function comes first
        scale: Callable[[int], float],  # factor of the irreps of a degree j
    ) -> None:
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
        """Return the count of one dense matrix per ``l``, per sample and direction."""
        return sum((3 * (2 * l + 1)) ** 2 for l in range(self.lmax + 1))

    def components(self, x: Tensor) -> Tensor:  # (..., dim) to (3 or 4, ..., (lmax + 1)^2)
        """Convert irreps to the scalar function, if any, and the components x, y and z."""
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
        """Apply the transpose of :meth:`components`."""
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
    """Return the degrees of the irreps of vectors with components of one degree."""
    return range(abs(l - 1), l + 2)


def _cartesian(l: int, scale: Callable[[int], float]) -> Tensor:
    """Return the matrix from irreps, ``j`` ascending, to components; orthogonal up to the scale."""
    blocks = [
        # Of unit norm are rows of C times sqrt(2 j + 1), as C has norm 1 over all orders m.
        scale(j) * math.sqrt(2 * j + 1) * wigner_3j_table(l, 1, j).permute(2, 1, 0)
        for j in _degrees(l)
    ]
    return torch.cat(blocks).flatten(1)
