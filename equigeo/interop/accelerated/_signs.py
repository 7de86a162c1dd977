"""Whether a product still has the couplings of the module that it was made from."""

from __future__ import annotations

import math
from typing import Any

from equigeo.interop._couplings import read_signs
from equigeo.interop._require import require_e3nn


def same_signs(product: Any, module: Any) -> bool:
    """Tell whether a product of this library has the couplings that one of e3nn carries."""
    signs = [math.copysign(1.0, path.path_weight) for path in product.instructions]
    return signs == read_signs(module, require_e3nn())
