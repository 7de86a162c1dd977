"""Corresponding modules of two libraries, and their descriptions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from torch import nn

from equigeo import nn as equigeo_nn
from equigeo import tensor_products as tp
from equigeo.interop.descriptions.harmonics_description import HarmonicsDescription
from equigeo.interop.descriptions.linear_description import LinearDescription
from equigeo.interop.descriptions.product_description import ProductDescription
from equigeo.reps.irreps import Layout

Description = ProductDescription | LinearDescription | HarmonicsDescription

# Special products come before TensorProduct: the first class that fits is kept.
SHARED: dict[str, type[Description]] = {
    "FullyConnectedTensorProduct": ProductDescription,
    "FullTensorProduct": ProductDescription,
    "ElementwiseTensorProduct": ProductDescription,
    "TensorSquare": ProductDescription,
    "TensorProduct": ProductDescription,
    "Linear": LinearDescription,
    "SphericalHarmonics": HarmonicsDescription,
}

OURS = SimpleNamespace(
    PathProduct=tp.PathProduct,
    **{name: getattr(equigeo_nn if name == "Linear" else tp, name) for name in SHARED},
)


def describe(
    module: nn.Module,
    library: Any,  # e3nn.o3 or OURS
    layout: Layout | None = None,  # layout of the description, by default that of the module
) -> tuple[str, Description]:
    """Return the class name of a module in a library, and a description of the map."""
    # An accelerated module computes what the class that it had computes.
    own_class = getattr(type(module), "made_of", (None, type(module)))[1]
    for name, kind in SHARED.items():
        shared: Any = getattr(library, name)
        if name == "TensorProduct":  # in e3nn the base of all products, here one of them
            shared = getattr(library, "PathProduct", shared)
        if isinstance(module, shared) and own_class.forward is shared.forward:
            own: Layout = getattr(irreps_of(module, name), "layout", "mul_ir")
            return name, kind.read(module, layout or own, library)
    cls = type(module)
    raise TypeError(
        f"cannot convert {cls.__module__}.{cls.__qualname__}: expected one of {', '.join(SHARED)}, "
        "or a subclass that keeps forward"
    )


def irreps_of(module: Any, name: str) -> Any:
    """Return the irreps of the output, or raise if either side is not irreps."""
    if name == "Linear" and not hasattr(module, "irreps_out"):
        raise TypeError(
            "cannot convert a Linear whose sides are not both irreps: of a representation of O(3) "
            "reps.decompose returns the irreps and the change of basis"
        )
    return module.irreps_out
