"""The product of surface gradients, which complements the Gaunt product."""

from __future__ import annotations

from typing import final

import torch

from equigeo.tensor_products.signals.grid_method import (
    GridMethod,
    analysis,
    resolve_grid,
    synthesis,
)
from equigeo.tensor_products.signals.signal_couplings import curl_coupling
from equigeo.tensor_products.signals.signal_product import Grid, SignalProduct


@final
class CurlTensorProduct(SignalProduct):
    r"""Coefficients of the Poisson bracket of two functions on the sphere.

    .. math:: \{f, g\}(r) = r \cdot (\nabla f \times \nabla g), \qquad
              z^{l_3} = \sum_{l_1 l_2} \kappa_{l_1 l_2 l_3} C^{l_1 l_2 l_3}(x^{l_1}, y^{l_2})

    with surface gradients: all paths whose degrees have an odd sum, which Gaunt products lack (Xie
    et al., "The Price of Freedom", 2025), at the same asymptotic cost. On vectors it is a multiple
    of the cross product. It is antisymmetric, degrees 0 and ``lmax1 + lmax2`` vanish, and it is
    equivariant under O(3).

    In the basis "component" the strengths of paths are

    .. math:: \kappa_{l_1 l_2 l_3} =
              \sqrt{l_1 (l_1 + 1)\, l_2 (l_2 + 1) (2 l_1 + 1)(2 l_2 + 1)(2 l_3 + 1)}
              \left|\begin{pmatrix} l_1 & l_2 & l_3 \\ 1 & -1 & 0 \end{pmatrix}\right|

    Parameters
    ----------
    method : {"grid", "paths"}
    parity1, parity2 : {1, -1}
        Of the values of the functions. The output has minus their product.
    lmax1, lmax2, lmax_out, basis, grid
        See :class:`GauntTensorProduct`.

    Examples
    --------
    >>> product = CurlTensorProduct(1, 1, 1, basis="integral")
    >>> str(product.irreps_out)
    '1x0o+1x1e'
    >>> x, y = torch.tensor([[0.0, 0, 0, 1], [0, 1, 0, 0]])  # z and x
    >>> (product(x, y) * (4 * torch.pi / 3) ** 0.5).abs().round(decimals=4)  # y
    tensor([0., 0., 1., 0.])
    """

    methods = ("grid", "paths")
    sign = -1
    coupling = staticmethod(curl_coupling)

    def _on_grid(self, grid: Grid) -> GridMethod:
        degree = self.lmax1 + self.lmax2 + self.lmax_out
        found = resolve_grid(grid, max(0, degree - 1), default=degree)
        first = synthesis(found.gradients(self.lmax1), self.basis)
        legendre, trig = synthesis(found.gradients(self.lmax2), self.basis)
        # south1 east2 - east1 south2, for south x east = r
        second = torch.stack([legendre[1], -legendre[0]]), trig.flip(0)
        return GridMethod(first, second, analysis(found, self.lmax_out, self.basis))
