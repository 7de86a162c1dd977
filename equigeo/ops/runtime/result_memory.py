"""Memory of large CPU results, which is used again instead of going back to the system."""

from __future__ import annotations

import ctypes
from operator import index

from equigeo.ops.runtime.load_kernels import kernels_info


def limit_result_memory(size: int) -> None:
    """Set how much memory of freed results is kept for reuse.

    A new result of many megabytes costs more to map, page by page, than to compute: the C library
    gives such memory back to the system with every tensor. Compiled CPU ops therefore keep that of
    their own results of 4 MiB and more, by default up to 1 GiB; least recently used memory goes
    first. ``gather_sum``, ``segment_attention``, ``symmetric_eigen`` and ``axis_flags`` keep none.
    Needs PyTorch >= 2.11; before, and without compiled kernels, nothing is kept.

    Parameters
    ----------
    size : int
        Bytes, for the whole process, below 2^63. Zero frees what is kept and keeps no more. When
        a process starts it is taken from the environment variable ``EQUIGEO_RESULT_MEMORY``, in
        MiB.

    Raises
    ------
    TypeError
        If the size is not an integer.
    ValueError
        If it is negative or 2^63 and more.

    Notes
    -----
    PyTorch can give memory that is not its own to a tensor, but cannot make it larger:
    ``result.resize_`` to more elements, or ``out=result`` of an op with a larger result, raises its
    ``RuntimeError``. After ``limit_result_memory(0)`` new results are in memory of PyTorch.

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
    """Return how much memory of freed results is kept for reuse.

    Returns
    -------
    int
        Bytes.

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
