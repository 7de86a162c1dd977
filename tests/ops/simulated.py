"""Processes in which CUDA kernels run on the CPU, for tests of what is done with them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = Path(os.environ.get("EQUIGEO_SIMULATED", "")) / "thread"
"""Where ``make simulate`` leaves the library that needs no sanitizer around Python."""

WRONG = """
import torch
from equigeo.ops.runtime.declare import reference_of
import equigeo.ops
def wrong(*arguments):
    return reference_of("grid_product")(*arguments) * 1.01
library = torch.library.Library("equigeo", "IMPL")
library.impl("grid_product", wrong, "CPU", allow_override=True)
"""
"""What gives an op kernels that are wrong by one part in a hundred."""

needs_simulator = pytest.mark.skipif(
    not (LIBRARIES / "_kernels_simulated.so").exists(),
    reason="EQUIGEO_SIMULATED names no folder of simulated kernels: make simulate",
)


def run(code: str, cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with simulated kernels that are tested on first use, and a cache of their own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("EQUIGEO_")}
    simulated = {
        "EQUIGEO_SIMULATE_CUDA": "1",
        "EQUIGEO_CUDA_SELF_TEST": "1",
        "EQUIGEO_KERNELS": str(LIBRARIES),
        "EQUIGEO_CACHE": str(cache),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-c", code],
        env=clean | simulated | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,  # of what hangs
        check=False,
    )


def printed(code: str, cache: Path, **variables: str) -> str:
    """What such a process prints, which must succeed."""
    result = run(code, cache, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout
