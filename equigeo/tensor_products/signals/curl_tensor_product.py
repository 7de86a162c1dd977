"""The product of surface gradients, which complements the Gaunt product."""

from __future__ import annotations

from functools import partial
from typing import Literal, final

import torch

from equigeo.tensor_products.signals.grid_method import (
    GridMethod,
    analysis,
    resolve_grid,
    synthesis,
)
from equigeo.tensor_products.signals.path_method import PathMethod
from equigeo.tensor_products.signals.signal_couplings import curl_coupling
from equigeo.tensor_products.signals.signal_method import SignalMethod
from equigeo.tensor_products.signals.signal_product import SignalProduct
from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid


@final
class CurlTensorProduct(SignalProduct):
    r"""Coefficients of the Poisson bracket of two functions on the sphere.

    .. math:: \{f, g\}(r) = r \cdot (\nabla f \times \nabla g), \qquad
              z^{l_3} = \sum_{l_1 l_2} \kappa_{l_1 l_2 l_3} C^{l_1 l_2 l_3}(x^{l_1}, y^{l_2})

    with surface gradients and the strengths of :func:`curl_coupling`: all paths whose degrees have
    an odd sum, which Gaunt products lack (Xie et al., "The Price of Freedom", 2025), at the same
    asymptotic cost. On vectors it is a multiple of the cross product. It is antisymmetric, degrees
    0 and ``lmax1 + lmax2`` vanish, and it is equivariant under O(3).

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

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        method: Literal["grid", "paths"] = "grid",
        basis: Basis = "component",
        *,
        parity1: int = 1,
        parity2: int = 1,
        grid: SphereGrid | tuple[int, int] | None = None,
    ) -> None:
        parities = parity1, parity2, -parity1 * parity2
        super().__init__(lmax1, lmax2, lmax_out, basis, parities=parities)
        if grid is not None and method != "grid":
            raise ValueError(f'grid is for the method "grid", not for {method!r}')
        self.method = method
        self.body = self._body(method, grid)

    def coefficient(self, l1: int, l2: int, l3: int) -> float:
        """Return :func:`curl_coupling` in the basis of the product."""
        return curl_coupling(l1, l2, l3, self.basis)

    def _body(self, method: str, grid: SphereGrid | tuple[int, int] | None) -> SignalMethod:
        degrees = self.lmax1, self.lmax2, self.lmax_out
        if method == "paths":
            return PathMethod(*degrees, coupling=partial(curl_coupling, basis=self.basis))
        if method != "grid":
            raise ValueError(f'method must be "grid" or "paths", got {method!r}')
        found = resolve_grid(grid, max(0, sum(degrees) - 1), default=sum(degrees))
        first = synthesis(found.gradients(self.lmax1), self.basis)
        legendre, trig = synthesis(found.gradients(self.lmax2), self.basis)
        # south1 east2 - east1 south2, for south x east = r
        second = torch.stack([legendre[1], -legendre[0]]), trig.flip(0)
        return GridMethod(first, second, analysis(found, self.lmax_out, self.basis))
