"""Which modules of two libraries are the same, and what they compute."""

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
    "TensorProduct": ProductDescription,
    "Linear": LinearDescription,
    "SphericalHarmonics": HarmonicsDescription,
}

OURS = SimpleNamespace(
    PathProduct=tp.PathProduct,
    **{name: getattr(equigeo_nn if name == "Linear" else tp, name) for name in SHARED},
)


def describe(
    module: nn.Module, library: Any, layout: Layout | None = None
) -> tuple[str, Description]:
    """Find the class of a library that a module is of, and read what it computes.

    Parameters
    ----------
    module : Module
        Of the library.
    library : module
        ``e3nn.o3`` or :data:`OURS`.
    layout : {"mul_ir", "ir_mul"}, optional
        To describe it in; by default its own.

    Returns
    -------
    str
        Name of the class.
    Description
        What the module computes.

    Raises
    ------
    TypeError
        If the module is of no such class, of a subclass that computes something else, or joins
        representations that are not irreps.
    """
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
    """Irreps of the output, where both sides have some: no other maps have a counterpart."""
    if name == "Linear" and not hasattr(module, "irreps_out"):
        raise TypeError(
            "cannot convert a Linear whose sides are not both irreps: of a representation of O(3) "
            "reps.decompose gives the irreps and the change of basis"
        )
    return module.irreps_out
