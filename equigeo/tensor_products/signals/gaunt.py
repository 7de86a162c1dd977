"""The product of functions on the sphere."""

from __future__ import annotations

from typing import final

import torch

from equigeo.tensor_products.signals.couplings import curl_coupling, gaunt_coupling
from equigeo.tensor_products.signals.methods import GridMethod, analysis, resolve_grid, synthesis
from equigeo.tensor_products.signals.signal_product import Grid, SignalProduct


@final
class GauntTensorProduct(SignalProduct):
    r"""Coefficients of the pointwise product of two functions on the sphere.

    .. math:: \sum_c z_c B_c(r) = \Bigl(\sum_a x_a B_a(r)\Bigr)\Bigl(\sum_b y_b B_b(r)\Bigr),
              \qquad z^{l_3} = \sum_{l_1 l_2} \kappa_{l_1 l_2 l_3} C^{l_1 l_2 l_3}(x^{l_1}, y^{l_2})

    with fixed strengths :math:`\kappa`, see :meth:`coefficient` (Luo, Chen, Krishnapriyan, ICLR
    2024; grids: Xie et al., "The Price of Freedom", 2025). Paths whose degrees have an odd sum,
    such as the cross product of vectors, are missing, so mirror images are not distinguished;
    :class:`CurlTensorProduct` has these paths. Equivariant under O(3).

    In the basis "component" they are

    .. math:: \kappa_{l_1 l_2 l_3} = \sqrt{(2 l_1 + 1)(2 l_2 + 1)(2 l_3 + 1)}
              \left|\begin{pmatrix} l_1 & l_2 & l_3 \\ 0 & 0 & 0 \end{pmatrix}\right|

    Parameters
    ----------
    lmax1, lmax2, lmax_out : int
        Largest degrees, included; ``lmax_out <= lmax1 + lmax2``, higher degrees are cut off.
    method : {"grid", "fourier", "paths"}
        How the same numbers are computed: on a grid of the sphere, without storing values on it for
        the backward pass; by convolution of Fourier series on the torus; or path by path.
    basis : {"component", "integral", "norm"}
        Normalization of the spherical harmonics of all three expansions.
    parity1, parity2 : {1, -1}
        Of the values of the functions: -1 for pseudoscalars. The output has their product.
    grid : SphereGrid or (int, int), optional
        For the method "grid", or numbers of Gauss-Legendre latitudes and of longitudes; by default
        the smallest exact one. A grid that is not exact raises ``ValueError``.

    Examples
    --------
    >>> import torch
    >>> product = GauntTensorProduct(1, 1, 2)
    >>> x, y = torch.tensor([[2.0, 0, 0, 0], [3.0, 1, 0, 0]])  # 2 and 3 + sqrt(3) x
    >>> product(x, y)[:4].abs().round(decimals=4)
    tensor([6., 2., 0., 0.])
    """

    methods = ("grid", "fourier", "paths")
    sign = 1
    coupling = staticmethod(gaunt_coupling)

    def _on_grid(self, grid: Grid) -> GridMethod:
        degrees = self.lmax1, self.lmax2, self.lmax_out
        found = resolve_grid(grid, sum(degrees))
        return GridMethod(
            synthesis(found.harmonics(self.lmax1), self.basis),
            synthesis(found.harmonics(self.lmax2), self.basis),
            analysis(found, self.lmax_out, self.basis),
        )


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
