"""The products of the published comparison, in its three settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from equigeo.nn.reached import allow_unreached
from equigeo.reps import Irreps
from equigeo.tensor_products.analysis.cost import Setting
from equigeo.tensor_products.analysis.restricted_product import RestrictedProduct
from equigeo.tensor_products.products.full_tensor_product import FullTensorProduct
from equigeo.tensor_products.products.product import Product
from equigeo.tensor_products.signals.curl_tensor_product import CurlTensorProduct
from equigeo.tensor_products.signals.gaunt_tensor_product import GauntTensorProduct
from equigeo.tensor_products.signals.matrix_tensor_product import MatrixTensorProduct
from equigeo.tensor_products.signals.vector_signal_tensor_product import VectorSignalTensorProduct


def compared_products() -> tuple[str, ...]:
    """Return the row names of :func:`compare`: product, then method ("grid") or paths ("all")."""
    return tuple(_BUILDERS)


def compared_product(
    name: str,  # one of compared_products()
    lmax: int,  # degree of the inputs
    setting: Setting,  # "siso", "simo" or "mimo"
) -> Product:
    """Build the product of a row of :func:`compare`, without weights."""
    if setting not in ("siso", "simo", "mimo"):
        raise ValueError(f'setting must be "siso", "simo" or "mimo", got {setting!r}')
    if name not in _BUILDERS:
        raise ValueError(f"name must be one of {', '.join(_BUILDERS)}, got {name!r}")
    return _BUILDERS[name](lmax, setting)


def compared_inputs(lmax: int, setting: Setting) -> Irreps:
    """Return the irreps of each input in a setting, of natural parity."""
    return Irreps.signal(lmax) if setting == "mimo" else Irreps(Irreps.signal(lmax).terms[-1:])


def _outputs(lmax: int, setting: Setting, parity: int = 1) -> Irreps:
    whole = Irreps.signal(2 * lmax, parity)
    return Irreps(whole.terms[lmax : lmax + 1]) if setting == "siso" else whole


def _full(
    lmax: int, setting: Setting, method: Literal["dense", "sparse"], *parities: int
) -> Product:
    wanted = [ir for parity in parities for _, ir in _outputs(lmax, setting, parity)]
    irreps = compared_inputs(lmax, setting)
    with allow_unreached():  # a comparison also lists products without outputs
        return FullTensorProduct(irreps, irreps, wanted, method=method)


def _signals(product: Product, lmax: int, setting: Setting, parity: int = 1) -> Product:
    natural = compared_inputs(lmax, setting)
    wanted = natural, natural, _outputs(lmax, setting, parity)
    own = product.irreps_in1, product.irreps_in2, product.irreps_out
    return product if own == wanted else RestrictedProduct(product, *wanted)


def _sizes(lmax: int, setting: Setting) -> tuple[int, int, int]:
    return lmax, lmax, lmax if setting == "siso" else 2 * lmax


def _gaunt(lmax: int, setting: Setting, method: Literal["grid", "fourier", "paths"]) -> Product:
    return _signals(GauntTensorProduct(*_sizes(lmax, setting), method), lmax, setting)


def _curl(lmax: int, setting: Setting, method: Literal["grid", "paths"]) -> Product:
    return _signals(CurlTensorProduct(*_sizes(lmax, setting), method), lmax, setting, -1)


def _matrix(lmax: int, setting: Setting) -> Product:
    return _signals(MatrixTensorProduct(*_sizes(lmax, setting)), lmax, setting)


def _vector_signal(lmax: int, setting: Setting) -> Product:
    """Build the vector-signal product restricted to the irreps of the setting."""
    product = VectorSignalTensorProduct(*_sizes(lmax, setting))
    inputs = {ir for _, ir in compared_inputs(lmax, setting)}
    outputs = {l for _, (l, _) in _outputs(lmax, setting)}
    return RestrictedProduct(
        product,
        Irreps([term for term in product.irreps_in1 if term[1] in inputs]),
        Irreps([term for term in product.irreps_in2 if term[1] in inputs]),
        Irreps([term for term in product.irreps_out if term[1][0] in outputs]),
    )


_BUILDERS: dict[str, Callable[[int, Setting], Product]] = {
    "full all": lambda lmax, setting: _full(lmax, setting, "dense", 1, -1),
    "full even": lambda lmax, setting: _full(lmax, setting, "dense", 1),
    "full_sparse even": lambda lmax, setting: _full(lmax, setting, "sparse", 1),
    "gaunt grid": lambda lmax, setting: _gaunt(lmax, setting, "grid"),
    "gaunt fourier": lambda lmax, setting: _gaunt(lmax, setting, "fourier"),
    "gaunt paths": lambda lmax, setting: _gaunt(lmax, setting, "paths"),
    "curl grid": lambda lmax, setting: _curl(lmax, setting, "grid"),
    "curl paths": lambda lmax, setting: _curl(lmax, setting, "paths"),
    "matrix": _matrix,
    "vector_signal": _vector_signal,
}
