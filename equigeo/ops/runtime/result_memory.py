"""Reuse of the memory of large CPU results."""

from __future__ import annotations

import ctypes
from operator import index

from equigeo.ops.runtime.load_kernels import kernels_info


def limit_result_memory(size: int) -> None:
    """Set how many bytes of freed results are kept for reuse in this process; zero keeps none.

    Mapping a new result of many megabytes costs more than computing it, because the C library
    returns such memory to the system with every tensor. Compiled CPU ops therefore keep that of
    their own results of 4 MiB and more, by default up to 1 GiB, or ``EQUIGEO_RESULT_MEMORY`` (MiB)
    of the environment; least recently used memory is freed first. ``gather_sum``,
    ``segment_attention``, ``symmetric_eigen`` and ``axis_flags`` keep none. Needs PyTorch >= 2.11.

    Notes
    -----
    Such results cannot grow: ``result.resize_`` to more elements, or ``out=result`` of an op with a
    larger result, raises ``RuntimeError``. After ``limit_result_memory(0)`` new results are in
    memory of PyTorch.

    Examples
    --------
    >>> limit_result_memory(0)  # free it, as before a fork
    >>> kept_result_memory()
    0
    >>> limit_result_memory(2**30)
    """
    if not 0 <= index(size) < 2**63:
        raise ValueError(f"size must be from 0 to 2^63 - 1 bytes, got {size}")
    library = _library()
    if library is not None:
        library.equigeo_limit_memory(ctypes.c_int64(size))


def kept_result_memory() -> int:
    """Return how many bytes of freed results are kept for reuse.

    Examples
    --------
    >>> kept_result_memory() >= 0
    True
    """
    library = _library()
    if library is None:
        return 0
    library.equigeo_kept_memory.restype = ctypes.c_int64
    return int(library.equigeo_kept_memory())


def _library() -> ctypes.CDLL | None:
    path = kernels_info()["cpu"]
    return None if path is None else ctypes.CDLL(path)
