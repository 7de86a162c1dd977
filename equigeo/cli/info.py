"""``equigeo info``.

On its own because every command has its module.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from typing import Any

import torch

import equigeo
from equigeo.datasets.cache_folder import cache_folder


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("info", help="show versions, kernels and folders")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    for name, value in {
        "equigeo": equigeo.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda if torch.cuda.is_available() else "not available",
        "cache": _found(lambda: str(cache_folder())),
        "neighbors": _found(equigeo.points.neighbor_backend),
        **{f"kernels: {name}": value for name, value in equigeo.kernels_info().items()},
        **{f"CUDA kernels: {name}": value for name, value in equigeo.ops.cuda_status().items()},
    }.items():
        print(f"{name:<25} {value}")
    return 0


def _found(look: Callable[[], str]) -> str:
    """What a look gives, or why it gives nothing: the other lines are worth showing."""
    try:
        return look()
    except (ImportError, ValueError) as error:
        return str(error)
