"""Packages of AOTInductor, which run without Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.export import ExportedProgram

from equigeo.ops.runtime.library import loaded_library


def write_package(
    path: str | os.PathLike[str],
    export: Callable[[], ExportedProgram],
    device: torch.device,  # of the program
    metadata: Mapping[str, str],
) -> Path:
    """Compile a program into a package at a path, or raise and leave the path as it was."""
    target = Path(path)
    if target.suffix != ".pt2":
        raise ValueError(f"path must end in .pt2, got {str(target)!r}")
    if not target.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(target)!r} must exist")
    if loaded_library(device.type) is None:
        raise RuntimeError(
            f"a package needs the compiled kernels for {device.type}, which are missing"
        )
    # Threads are counted where the package runs, not where it was made.
    settings = {"aot_inductor.metadata": dict(metadata), "cpp.dynamic_threads": True}
    with TemporaryDirectory(dir=target.absolute().parent, prefix=".compile-") as folder:
        made = torch._inductor.aoti_compile_and_package(
            export(), package_path=str(Path(folder) / target.name), inductor_configs=settings
        )
        os.replace(made, target.resolve())  # a link stays a link
    return target
