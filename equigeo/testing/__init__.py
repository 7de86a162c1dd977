"""Test helpers for equivariance, and tolerances."""

from equigeo.ops.runtime.tolerance import tolerance
from equigeo.testing.equivariance import (
    assert_equivariant,
    assert_group,
    assert_representation,
    equivariance_error,
)

__all__ = [
    "assert_equivariant",
    "assert_group",
    "assert_representation",
    "equivariance_error",
    "tolerance",
]
__dir__ = __all__.copy
