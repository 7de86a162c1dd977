"""The products of the published comparison, in its three settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, final

import torch
from torch import Tensor
from torch.nn.functional import pad

from equigeo.nn.module import allow_unreached
from equigeo.nn.tables import IndexTables
from equigeo.reps import Irreps, Representation
from equigeo.reps.irreps import Term
from equigeo.tensor_products.instructions import read_operands
from equigeo.tensor_products.products.base import Product
from equigeo.tensor_products.products.tensor_product import FullTensorProduct
from equigeo.tensor_products.signals.gaunt import CurlTensorProduct, GauntTensorProduct
from equigeo.tensor_products.signals.matrix import MatrixTensorProduct
from equigeo.tensor_products.signals.vector_signals import VectorSignalTensorProduct

Setting = Literal["siso", "simo", "mimo"]


@final
class RestrictedProduct(Product):
    """Restrict a product to some of its terms: pad inputs with zeros and select outputs."""

    def __init__(
        self,
        product: Product,
        irreps_in1: Irreps | str,
        irreps_in2: Irreps | str,
        irreps_out: Irreps | str,
    ) -> None:
        super().__init__(*read_operands(irreps_in1, irreps_in2, irreps_out))
        self.product = product
        sides = ("irreps_in1", "irreps_in2", "irreps_out")
        positions = [
            _positions(name, getattr(self, name), getattr(product, name)) for name in sides
        ]
        self.positions = IndexTables(
            in1=_sources(positions[0], product.irreps_in1),
            in2=_sources(positions[1], product.irreps_in2),
            out=torch.tensor(positions[2], dtype=torch.int64),
        )

    def multiply_adds(self) -> int:
        return self.product.multiply_adds()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        self.check_inputs(x, y)
        x = pad(x, (0, 1))[..., self.positions["in1"]]
        y = pad(y, (0, 1))[..., self.positions["in2"]]
        return self.product(x, y)[..., self.positions["out"]]

    def _represent(self, irreps: Irreps) -> Representation:
        return irreps.restrict(self.product.rep_out.group)


def _positions(name: str, wanted: Irreps, whole: Irreps) -> list[int]:
    """Return the positions of the selected components on the whole feature axis."""
    found: list[int] = []
    rest: list[tuple[Term, slice]] = list(zip(whole.terms, whole.slices(), strict=True))
    for term in wanted.terms:
        while rest and rest[0][0] != term:
            rest.pop(0)
        if not rest:
            raise ValueError(f"{name} must be terms of {whole}, in that order, got {wanted}")
        position = rest.pop(0)[1]
        found.extend(range(position.start, position.stop))
    return found


def _sources(positions: list[int], whole: Irreps) -> Tensor:
    """Return the source position of each whole component, or the position of an appended zero."""
    sources = torch.full((whole.dim,), len(positions))
    sources[torch.tensor(positions).long()] = torch.arange(len(positions))
    return sources


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
    "gaunt grid": lambda l, s: _signals(GauntTensorProduct(*_sizes(l, s), "grid"), l, s),
    "gaunt fourier": lambda l, s: _signals(GauntTensorProduct(*_sizes(l, s), "fourier"), l, s),
    "gaunt paths": lambda l, s: _signals(GauntTensorProduct(*_sizes(l, s), "paths"), l, s),
    "curl grid": lambda l, s: _signals(CurlTensorProduct(*_sizes(l, s), "grid"), l, s, -1),
    "curl paths": lambda l, s: _signals(CurlTensorProduct(*_sizes(l, s), "paths"), l, s, -1),
    "matrix": lambda l, s: _signals(MatrixTensorProduct(*_sizes(l, s)), l, s),
    "vector_signal": _vector_signal,
}


def published_freedom(
    name: str,  # row of compare; the part before the first space counts
    lmax: int,
    setting: Setting,
) -> int | None:
    """Return the degrees of freedom in "The Price of Freedom", or None if not published."""
    # For Clebsch-Gordan products the paper counts all paths, though only even ones were computed:
    # 2 min(l1, l2) + 1 for each l1 and l2.
    n = lmax + 1
    freedoms = {
        "full": {"siso": 1, "simo": 2 * lmax + 1, "mimo": n * (2 * n * n + 1) // 3},
        "gaunt": {"siso": 1 - lmax % 2, "simo": lmax + 1, "mimo": 4 * lmax + 1},
        "matrix": {"siso": 1, "simo": 2 * lmax + 1, "mimo": 4 * lmax + 1},
        "vector_signal": {"mimo": 6 * lmax + 1},
    }
    kind = name.split()[0].removesuffix("_sparse")
    return freedoms.get(kind, {}).get(setting)
