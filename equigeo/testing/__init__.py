"""Public test helpers: one law for every layer, and the only source of tolerances."""

from equigeo.testing.assert_equivariant import assert_equivariant
from equigeo.testing.equivariance_error import equivariance_error
from equigeo.testing.tolerance import tolerance

__all__ = ["assert_equivariant", "equivariance_error", "tolerance"]


def __dir__() -> list[str]:
    return __all__
