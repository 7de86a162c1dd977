"""Conversion of modules to e3nn."""

from __future__ import annotations

from typing import Any

from torch import nn

from equigeo.interop._require import require_e3nn
from equigeo.interop.descriptions.describe import OURS, describe


def to_e3nn(module: nn.Module) -> Any:
    """Convert a module of this library to a module of e3nn.

    Weights are copied in the same flat order; dtype, device, ``training`` and ``requires_grad``
    stay. The tables of e3nn are built in float64, then cast.

    Parameters
    ----------
    module : PathProduct, TensorSquare, Linear or SphericalHarmonics
        In the layout ``mul_ir``; see :func:`reorder`.

    Returns
    -------
    Module
        Of the class of the same name if e3nn has it with these paths, else an
        ``e3nn.o3.TensorProduct``.

    Examples
    --------
    >>> from equigeo.nn import Linear
    >>> linear = to_e3nn(Linear("4x0e+16x1o", "8x0e+8x1o"))
    >>> type(linear).__module__, linear.weight_numel
    ('e3nn.o3._linear', 160)
    """
    name, description = describe(module, OURS)
    if description.layout != "mul_ir":
        raise ValueError(
            f'e3nn has the layout "mul_ir", the module "{description.layout}": change it by '
            'interop.reorder(module, layout="mul_ir"), and its features by Irreps.to_layout'
        )
    converted = description.build(require_e3nn(), name)
    description.copy_into(converted, module)
    return converted
