"""The two tiers of the test suite: `make test` and, with `EQUIGEO_TESTS=full`, `make test-full`."""

import os
from typing import TypeVar

T = TypeVar("T")

FULL = os.environ.get("EQUIGEO_TESTS") == "full"
"""Whether the full tier runs. Whole tests of that tier are marked ``pytest.mark.full``."""


def tier(fast: T, full: T) -> T:
    """Return the parameter, or parameters, of the tier that runs."""
    return full if FULL else fast
