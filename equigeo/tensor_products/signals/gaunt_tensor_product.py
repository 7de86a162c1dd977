"""The product of functions on the sphere."""

from __future__ import annotations

from functools import partial
from typing import Literal, final

from equigeo.tensor_products.signals.fourier_method import FourierMethod
from equigeo.tensor_products.signals.grid_method import (
    GridMethod,
    analysis,
    resolve_grid,
    synthesis,
)
from equigeo.tensor_products.signals.path_method import PathMethod
from equigeo.tensor_products.signals.signal_couplings import gaunt_coupling
from equigeo.tensor_products.signals.signal_method import SignalMethod
from equigeo.tensor_products.signals.signal_product import SignalProduct
from equigeo.tensor_products.sphere.basis import Basis
from equigeo.tensor_products.sphere.sphere_grid import SphereGrid


@final
class GauntTensorProduct(SignalProduct):
    r"""Coefficients of the pointwise product of two functions on the sphere.

    .. math:: \sum_c z_c B_c(r) = \Bigl(\sum_a x_a B_a(r)\Bigr)\Bigl(\sum_b y_b B_b(r)\Bigr),
              \qquad z^{l_3} = \sum_{l_1 l_2} \kappa_{l_1 l_2 l_3} C^{l_1 l_2 l_3}(x^{l_1}, y^{l_2})

    where the strength :math:`\kappa` of a path is fixed, see :func:`gaunt_coupling`. Paths whose
    degrees have an odd sum are missing, the cross product of vectors among them, so that mirror
    images are never told apart: :class:`CurlTensorProduct` has exactly those.

    Parameters
    ----------
    lmax1, lmax2, lmax_out : int
        Largest degrees, included; ``lmax_out <= lmax1 + lmax2``, what is above is cut off.
    method : {"grid", "fourier", "paths"}
        How the same numbers are computed: on a grid of the sphere, keeping nothing of its size for
        the gradient; by convolution of Fourier series on the torus; or path by path.
    basis : {"component", "integral", "norm"}
        Of all three expansions: spherical harmonics of that normalization.
    parity1, parity2 : {1, -1}
        Of the values of the functions: -1 for pseudoscalars. The output has their product.
    grid : SphereGrid or (int, int), optional
        For the method ``"grid"``, or numbers of Gauss-Legendre latitudes and of longitudes; by
        default the smallest that is exact.

    Raises
    ------
    TypeError
        If a degree is not an integer.
    ValueError
        If a degree, parity or option is not among the above, or the grid is too small to be exact.

    Equivariance
    ------------
    Under O(3).

    References
    ----------
    Luo, Chen, Krishnapriyan, "Enabling Efficient Equivariant Operations in the Fourier Basis via
    Gaunt Tensor Products", ICLR 2024; Xie et al., "The Price of Freedom", 2025 (the grid).

    Examples
    --------
    >>> import torch
    >>> product = GauntTensorProduct(1, 1, 2)
    >>> str(product.irreps_out)
    '1x0e+1x1o+1x2e'
    >>> x, y = torch.tensor([[2.0, 0, 0, 0], [3.0, 1, 0, 0]])  # 2 and 3 + sqrt(3) x
    >>> product(x, y)[:4].abs().round(decimals=4)
    tensor([6., 2., 0., 0.])
    """

    def __init__(
        self,
        lmax1: int,
        lmax2: int,
        lmax_out: int,
        method: Literal["grid", "fourier", "paths"] = "grid",
        basis: Basis = "component",
        *,
        parity1: int = 1,
        parity2: int = 1,
        grid: SphereGrid | tuple[int, int] | None = None,
    ) -> None:
        parities = parity1, parity2, parity1 * parity2
        super().__init__(lmax1, lmax2, lmax_out, basis, parities=parities)
        if grid is not None and method != "grid":
            raise ValueError(f'grid is for the method "grid", not for {method!r}')
        self.method = method
        self.body = self._body(method, grid)

    def coefficient(self, l1: int, l2: int, l3: int) -> float:
        """Return the closed form, :func:`gaunt_coupling`.

        Examples
        --------
        >>> round(GauntTensorProduct(2, 2, 2, basis="integral").coefficient(2, 2, 2), 10)
        0.7539300439
        """
        return gaunt_coupling(l1, l2, l3, self.basis)

    def _body(self, method: str, grid: SphereGrid | tuple[int, int] | None) -> SignalMethod:
        degrees = self.lmax1, self.lmax2, self.lmax_out
        if method == "paths":
            return PathMethod(*degrees, coupling=partial(gaunt_coupling, basis=self.basis))
        if method == "fourier":
            return FourierMethod(*degrees, basis=self.basis)
        if method != "grid":
            raise ValueError(f'method must be "grid", "fourier" or "paths", got {method!r}')
        found = resolve_grid(grid, sum(degrees))
        return GridMethod(
            synthesis(found.harmonics(self.lmax1), self.basis),
            synthesis(found.harmonics(self.lmax2), self.basis),
            analysis(found, self.lmax_out, self.basis),
        )
