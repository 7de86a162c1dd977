"""Conversion of modules between layouts."""

from __future__ import annotations

from typing import Any

from torch import nn

from equigeo.interop.accelerated.descriptions import OURS, describe, rebuild
from equigeo.reps.irreps import Layout


def reorder(module: nn.Module, *, layout: Layout) -> Any:
    """Build the same map in another layout, with the same weights.

    Its features are those of the given module after ``Irreps.to_layout``.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        Of this library; not changed. Classes with a fixed order of terms may become a
        ``TensorProduct``.
    layout : {"mul_ir", "ir_mul"}
        Order of axes inside a term.

    Examples
    --------
    >>> from equigeo.tensor_products import FullTensorProduct
    >>> reorder(FullTensorProduct("2x1o", "1o"), layout="ir_mul").irreps_in1
    Irreps('2x1o', layout='ir_mul')
    """
    name, description = describe(module, OURS, layout)
    return rebuild(description, OURS, name, module)
