"""Products by name, so that a model swaps one for another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from equigeo.reps import Irreps
from equigeo.tensor_products.instructions import Operands, kinds, read_operands
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.channelwise import (
    ChannelwiseTensorProduct,
    ProductBetweenLinears,
)
from equigeo.tensor_products.products.tensor_product import (
    ElementwiseTensorProduct,
    FullTensorProduct,
    FullyConnectedTensorProduct,
)
from equigeo.tensor_products.signals.signal_tensor_product import SignalTensorProduct

Builder = Callable[..., Product]


def make(  # noqa: PLR0913 - each is an option of some product
    name: str,
    irreps_in1: Irreps | str,
    irreps_in2: Irreps | str,
    irreps_out: Irreps | str,
    *,
    channels: int | None = None,
    method: Literal["grid", "fourier", "paths", "dense", "sparse"] | None = None,
    t: int | None = None,
    irrep_normalization: str | None = None,
    path_normalization: str | None = None,
    weight_order: Literal["output", "instruction"] | None = None,
) -> Product:
    """Build a weighted layer ``irreps_in1 x irreps_in2 -> irreps_out`` around a product by name.

    ====================  ======================================================================
    full, full_sparse     every path, then a linear layer
    fully_connected       every path with weights for all triples of channels
    channelwise           every path per channel of the first input, then a linear layer
    elementwise           ``channels`` of each pair of irreps, between linear layers
    gaunt                 ``channels`` of signals on the sphere: even paths only
    curl                  the same with their Poisson bracket: odd paths only
    gaunt+curl            both; names of signal products combine by "+" in any way
    matrix                ``channels`` of signals as matrices
    vector_signal         ``channels`` of vector signals
    ====================  ======================================================================

    Equivariant under O(3) for any weights. An irrep of the output that the product cannot reach is
    zero, such as a pseudoscalar for Gaunt products of natural-parity features (Xie, Daigavane,
    Kotak, Smidt, "The Price of Freedom", ICML 2025).

    Parameters
    ----------
    name : str
    irreps_in1, irreps_in2, irreps_out : Irreps or str
        In the layout ``mul_ir``.
    channels : int, optional
        For signals and "elementwise"; by default the largest multiplicity of the output.
    method, t, irrep_normalization, path_normalization, weight_order
        Options of the product's class; one that the product does not have raises ``TypeError``.

    Examples
    --------
    >>> import torch
    >>> x, y = torch.randn(2, 5, 9)
    >>> make("gaunt+curl", "0e+1o+2e", "0e+1o+2e", "8x0e+8x1o")(x, y).shape
    torch.Size([5, 32])
    """
    irreps = read_operands(irreps_in1, irreps_in2, irreps_out)
    named = {
        "channels": channels,
        "method": method,
        "t": t,
        "irrep_normalization": irrep_normalization,
        "path_normalization": path_normalization,
        "weight_order": weight_order,
    }
    options: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if name in _BUILDERS:
        return _BUILDERS[name](irreps, **options)
    if isinstance(name, str) and set(name.split("+")) <= set(_SIGNALS):
        return SignalTensorProduct(*irreps, name, **options)
    raise ValueError(f"name must be one of {', '.join(product_names())}, got {name!r}")


def product_names() -> tuple[str, ...]:
    """Return the names that :func:`make` accepts, in the order of its table.

    Examples
    --------
    >>> "gaunt" in product_names(), "gaunt+curl" in product_names()
    (True, True)
    """
    return (*_BUILDERS, *_SIGNALS, "gaunt+curl")


def _full(irreps: Operands, **options: Any) -> Product:
    first, second, out = irreps
    product = FullTensorProduct(first, second, kinds(out), **options)
    return ProductBetweenLinears(product, *irreps)


def _full_sparse(irreps: Operands, *, irrep_normalization: str | None = None) -> Product:
    return _full(irreps, method="sparse", irrep_normalization=irrep_normalization)


def _channelwise(irreps: Operands, **options: Any) -> Product:
    product = ChannelwiseTensorProduct(*irreps, **options, shared_weights=True)
    return ProductBetweenLinears(product, *irreps)


def _elementwise(irreps: Operands, *, channels: int | None = None, **options: Any) -> Product:
    """Align the inputs: one block of channels for each pair of irreps."""
    first, second, out = irreps
    if channels is None:
        channels = max([1, *(mul for mul, _ in out.simplify().terms)])
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    pairs = [(ir1, ir2) for ir1 in kinds(first) for ir2 in kinds(second)]
    aligned1 = Irreps([(channels, ir1) for ir1, _ in pairs])
    aligned2 = Irreps([(channels, ir2) for _, ir2 in pairs])
    product = ElementwiseTensorProduct(aligned1, aligned2, kinds(out), **options)
    return ProductBetweenLinears(product, *irreps)


_BUILDERS: dict[str, Builder] = {
    "full": _full,
    "full_sparse": _full_sparse,
    "fully_connected": lambda irreps, **options: FullyConnectedTensorProduct(*irreps, **options),
    "channelwise": _channelwise,
    "elementwise": _elementwise,
}
_SIGNALS = ("gaunt", "curl", "matrix", "vector_signal")
