"""Sources of the kernels that are compiled at run time, embedded into the CUDA library."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ENTRY = "kernels/cuda/run_time_kernels.cuh"
STAND_INS = "kernels/cuda/nvrtc"
"""Folder of the headers that NVRTC lacks."""


def kernel_sources(folder: Path) -> dict[str, str]:
    """Return the header of the kernels and all that it includes, by name, below a folder csrc."""
    found: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in found:
            found[name] = (folder / name).read_text(encoding="utf-8")
            for other in re.findall(r'^#include "(.+)"', found[name], re.MULTILINE):
                add(other)

    add(ENTRY)
    for path in sorted((folder / STAND_INS).iterdir()):
        found[path.name] = path.read_text(encoding="utf-8")
    return found


def _write_header(folder: Path, path: Path) -> None:
    content = json.dumps(kernel_sources(folder)).encode()
    numbers = ",".join(map(str, [*content, 0]))
    path.write_text(f"static const char kKernelSources[] = {{{numbers}}};\n", encoding="utf-8")


if __name__ == "__main__":
    _write_header(Path(sys.argv[1]), Path(sys.argv[2]))
