"""The facts that identify a series of training runs."""

from __future__ import annotations

import platform
from typing import Any

import lightning
import torch

import equigeo
from equigeo.ops import kernels_info


def training_facts() -> dict[str, Any]:
    """Versions and instruction set, as every record of training runs has them."""
    return {
        "versions": {
            "equigeo": equigeo.__version__,
            "torch": torch.__version__,
            "lightning": lightning.__version__,
            "python": platform.python_version(),
        },
        "instruction set": kernels_info()["isa"],
    }
