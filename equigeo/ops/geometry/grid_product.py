"""Product of two functions on the sphere, from coefficients to coefficients in one pass."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features, check_table
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.runtime.batching import blocks
from equigeo.ops.runtime.declare import declare
from equigeo.ops.runtime.forward_rules import linear_in
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "grid_product(Tensor x, Tensor y, Tensor legendre_x, Tensor trig_x, Tensor legendre_y, "
    "Tensor trig_y, Tensor legendre_z, Tensor trig_z) -> Tensor"
)

# Values on the grid per block of samples, which stays in the cache of a core.
_BLOCK_VALUES = 1 << 16

_AXES = {
    "legendre": ("summands", "coefficients", "latitudes"),
    "trig": ("summands", "orders", "longitudes"),
}
_TABLES = tuple(f"{name}_{operand}" for operand in "xyz" for name in _AXES)


@computes_in_float32
def grid_product(
    x: Tensor,
    y: Tensor,
    legendre_x: Tensor,
    trig_x: Tensor,
    legendre_y: Tensor,
    trig_y: Tensor,
    legendre_z: Tensor,
    trig_z: Tensor,
) -> Tensor:
    r"""Evaluate two expansions on a grid of the sphere, multiply, and analyze the product.

    .. math::

        z_c = \sum_s \sum_{ij} \Bigl(\sum_a X^s_a(i, j)\, x_a\Bigr)
              \Bigl(\sum_b Y^s_b(i, j)\, y_b\Bigr) Z^s_c(i, j), \qquad
        X^s_{lm}(i, j) = \mathrm{legendre}^s_{lm}(i)\, \mathrm{trig}^s_m(j)

    with i over latitudes, j over longitudes, and s over summands: one for a product of functions,
    two for one of gradients. The form is trilinear, so that each gradient is this same op with
    operands exchanged, at any order; coefficients alone are kept for it, never values on the grid.
    Returns the coefficients of the product, (samples, (L3 + 1)^2).

    Parameters
    ----------
    x, y : Tensor, (samples, (L + 1)^2)
        Coefficients of both functions; degree l and order m at ``l^2 + l + m``.
    legendre_x, legendre_y, legendre_z : Tensor, (summands or 1, (L + 1)^2, latitudes)
        Factor of each coefficient along a meridian; that of z holds the quadrature weights. Tables
        have the dtype in which ``x`` is computed, and no gradient.
    trig_x, trig_y, trig_z : Tensor, (summands or 1, 2 L + 1, longitudes)
        Factor of each order along a parallel, from ``-L`` to ``L``; as many summands as its
        partner.

    Examples
    --------
    >>> one = torch.ones(1, 1, 1)  # constants, on a grid of one point
    >>> grid_product(torch.full((2, 1), 3.0), torch.full((2, 1), 5.0), *[one] * 6).tolist()
    [[15.0], [15.0]]
    """
    given = legendre_x, trig_x, legendre_y, trig_y, legendre_z, trig_z
    tables = dict(zip(_TABLES, given, strict=True))
    check_features("x", x, ("samples", "coefficients"))
    check_features("y", y, ("samples", "coefficients"))
    _check_tables(tables)
    if x.shape[0] != y.shape[0]:  # len() would fix the number in an exported program
        raise ValueError(f"y must have the {x.shape[0]} samples of x, got {y.shape[0]}")
    for name, features, wanted in (("x", x, legendre_x.shape[1]), ("y", y, legendre_y.shape[1])):
        if features.shape[1] != wanted:
            raise ValueError(
                f"{name} must have {wanted} coefficients to fit legendre_{name}, "
                f"got {features.shape[1]}"
            )
    check_dtype("y", y, "x", x)
    for name, table in tables.items():
        check_table(name, table, x)
    check_device(x=x, y=y, **tables)
    return grid_product_op(x, y, *tables.values())


def _check_tables(tables: dict[str, Tensor]) -> None:
    """Validate that tables describe three expansions on one grid."""
    for name, table in tables.items():
        check_features(name, table, _AXES[name.partition("_")[0]])
    legendre_x, trig_x, *_ = tables.values()
    summands = max(len(table) for table in tables.values())
    for operand in ("x", "y", "z"):
        legendre, trig = tables[f"legendre_{operand}"], tables[f"trig_{operand}"]
        for name, axis, wanted in (
            (f"legendre_{operand}", legendre.shape[2], legendre_x.shape[2]),
            (f"trig_{operand}", trig.shape[2], trig_x.shape[2]),
        ):
            if axis != wanted:
                raise ValueError(f"{name} must be for a grid of {wanted} as those of x, got {axis}")
        if len(legendre) != len(trig) or len(legendre) not in (1, summands):
            raise ValueError(
                f"legendre_{operand} and trig_{operand} must both have 1 or {summands} summands, "
                f"got {len(legendre)} and {len(trig)}"
            )
        # Without a square root, which programs for any size cannot take.
        if trig.shape[1] % 2 == 0 or 4 * legendre.shape[1] != (trig.shape[1] + 1) ** 2:
            raise ValueError(
                f"legendre_{operand} and trig_{operand} must be for (L + 1)^2 coefficients and "
                f"2 L + 1 orders, got {legendre.shape[1]} and {trig.shape[1]}"
            )


def grid_product_reference(x: Tensor, y: Tensor, **tables: Tensor) -> Tensor:
    """Reference implementation of :func:`grid_product`, differentiable by PyTorch alone."""
    x, y = x.contiguous(), y.contiguous()
    tables = {name: table.contiguous() for name, table in tables.items()}
    pairs = _pairs(tables)
    points = tables["legendre_x"].shape[2] * tables["trig_x"].shape[2]
    first, second, third = (SeparableTransform(legendre, trig) for legendre, trig in pairs)
    values = points * max(len(legendre) for legendre, _ in pairs)
    rows = max(1, _BLOCK_VALUES // max(1, values))
    # Written in place: results kept block by block would break up the memory that blocks reuse.
    z = x.new_empty(x.shape[0], tables["legendre_z"].shape[1])
    for start in range(0, x.shape[0], rows):
        block = slice(start, start + rows)
        z[block] = third.analyze(first.evaluate(x[block]) * second.evaluate(y[block]))
    return z


def _pairs(tables: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Return both factors of each operand."""
    return [(tables[f"legendre_{operand}"], tables[f"trig_{operand}"]) for operand in "xyz"]


class SeparableTransform:
    """Sphere transform along meridians per order, then along parallels."""

    def __init__(
        self,
        legendre: Tensor,  # (summands, (L + 1)^2, latitudes)
        trig: Tensor,  # (summands or 1, 2 L + 1, longitudes)
    ) -> None:
        size = legendre.shape[1]
        lmax = math.isqrt(size) - 1
        orders, degrees = range(-lmax, lmax + 1), range(lmax + 1)
        # A rectangle of orders and degrees; the corners it has too many are read from a zero that
        # is put behind the coefficients.
        place = [[l * l + l + m if l >= abs(m) else size for l in degrees] for m in orders]
        back = [(lmax + m) * (lmax + 1) + l for l in degrees for m in range(-l, l + 1)]
        self._place = torch.tensor(place, device=trig.device)
        self._back = torch.tensor(back, device=trig.device)
        zero = legendre.new_zeros(legendre.shape[0], 1, legendre.shape[2])
        self._legendre = torch.cat([legendre, zero], 1)[:, self._place]
        self._trig = trig

    def evaluate(
        self,
        x: Tensor,  # (samples, (L + 1)^2)
    ) -> Tensor:
        """Return the values of expansions, (summands, samples, latitudes, longitudes)."""
        # f(i, j) = sum_m trig_m(j) sum_l legendre_lm(i) x_lm
        by_order = torch.cat([x, x.new_zeros(x.shape[0], 1)], 1).mT[self._place].mT
        parallels = by_order @ self._legendre  # (summands, orders, samples, latitudes)
        return (parallels.flatten(2).mT @ self._trig).unflatten(1, parallels.shape[2:])

    def analyze(
        self,
        values: Tensor,  # (summands, samples, latitudes, longitudes)
    ) -> Tensor:
        """Apply the transpose of :meth:`evaluate` and sum over summands: (samples, (L + 1)^2)."""
        if len(self._legendre) == len(self._trig) == 1:
            values = values.sum(0, keepdim=True)
        parallels = (self._trig @ values.flatten(1, 2).mT).unflatten(2, values.shape[1:3])
        by_order = (parallels @ self._legendre.mT).sum(0)  # (orders, samples, degrees)
        return by_order.permute(1, 0, 2).flatten(1)[:, self._back]


def _fake(x: Tensor, legendre_z: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], legendre_z.shape[1])


def _backward(
    grad: Tensor, *, x: Tensor, y: Tensor, needed: set[str], **tables: Tensor
) -> Gradients:
    first, second, third = _pairs(tables)
    # One trilinear form: z takes the place of the operand that is differentiated.
    gradients: Gradients = {}
    if "x" in needed:
        gradients["x"] = grid_product_op(grad, y, *third, *second, *first)
    if "y" in needed:
        gradients["y"] = grid_product_op(grad, x, *third, *first, *second)
    return gradients


grid_product_op = declare(
    SCHEMA,
    reference=grid_product_reference,
    fake=_fake,
    backward=_backward,
    forward=linear_in("grid_product", ("x", "y")),
    batch=blocks(("x", "y")),
)
