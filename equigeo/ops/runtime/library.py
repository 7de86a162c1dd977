"""Load the compiled libraries, after checking that they were built from these schemas."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import re
from collections.abc import Iterable
from operator import index
from pathlib import Path
from typing import Any

import torch

from equigeo._core.tensors import has_kernel
from equigeo.ops.runtime.declare import SCHEMAS
from equigeo.ops.runtime.schemas import MARKER, fingerprint

_log = logging.getLogger("equigeo")
_CPU_INFO = Path("/proc/cpuinfo")
_loaded: dict[str, str] = {}
_compiled: dict[str, frozenset[str]] = {}

MOST_MEBIBYTES = 2**43
"""A limit from here on is no 64-bit number of bytes."""

_FLAGS = {
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"},
    "neon": {"asimd"},
}
"""Names of Linux for what an instruction set needs."""

_DEFINED = "EQUIGEO_OPS_ARE_DEFINED"
"""Set while a library is opened, which defines the ops itself where it is opened without Python."""

REMEDY = (
    "rebuild with `pip install --no-build-isolation --no-deps .` (`-e .` in a checkout), "
    "or set EQUIGEO_KERNELS=0 to run without kernels"
)


def load_kernels(
    folders: Iterable[str],  # an editable install spreads a package over two folders
) -> None:
    """Load the compiled libraries in the folders, as configured by the environment."""
    # EQUIGEO_KERNELS=0 skips loading or names another folder; EQUIGEO_REQUIRE_KERNELS=1 makes a
    # missing library an error; EQUIGEO_SIMULATE_CUDA=1 loads only the library that runs CUDA
    # kernels on the CPU.
    required, simulated = switch("EQUIGEO_REQUIRE_KERNELS"), switch("EQUIGEO_SIMULATE_CUDA")
    choice = os.environ.get("EQUIGEO_KERNELS", "1")
    if choice == "0":
        switches = {"EQUIGEO_REQUIRE_KERNELS": required, "EQUIGEO_SIMULATE_CUDA": simulated}
        if name := next((name for name, is_set in switches.items() if is_set), ""):
            raise ValueError(f"{name}=1 contradicts EQUIGEO_KERNELS=0")
        return
    if choice not in ("", "1"):
        if not Path(choice).is_dir():
            raise ValueError(f"EQUIGEO_KERNELS must be 0, 1 or a folder, got {choice!r}")
        folders = [choice]
    if simulated:
        _load_simulated([Path(f) / "_kernels_simulated.so" for f in folders])
        return
    # A CUDA build of PyTorch has the symbols that the library needs, whether or not a device is
    # present; asking for the device would initialize the driver and break a later fork.
    names = ["cpu"] if torch.version.cuda is None else ["cpu", "cuda"]
    for name in names:
        found = [Path(f) / f"_kernels_{name}.so" for f in folders]
        path = next(filter(Path.exists, found), None)
        if path is not None:
            load_library(path)
            _loaded[name] = str(path)
            _compiled[name] = frozenset(op for op in SCHEMAS if has_kernel(op, name.upper()))
        elif required and name == "cpu":
            raise ImportError(f"EQUIGEO_REQUIRE_KERNELS=1, but {found[0]} is missing; {REMEDY}")
        elif name == "cpu":
            _log.warning(
                "no compiled kernels, so that slower reference implementations run; %s", REMEDY
            )


def _load_simulated(places: list[Path]) -> None:
    path = next(filter(Path.exists, places), None)
    if path is None:
        raise ImportError(
            f"EQUIGEO_SIMULATE_CUDA=1, but {places[0]} is missing; build it in a checkout with "
            "`make simulated-kernels`, and name its folder in EQUIGEO_KERNELS"
        )
    load_library(path)
    _loaded["cuda"] = str(path)
    _compiled["cpu"] = frozenset(op for op in SCHEMAS if has_kernel(op, "CPU"))


def load_library(path: Path) -> None:
    """Load one library if it was built from the schemas of this package."""
    # The fingerprint is read from the file: opening the library would already register its ops, and
    # PyTorch only checks the number of their arguments.
    content = path.read_bytes()
    built = re.search(re.escape(MARKER) + rb"([0-9a-f]{16})", content)
    expected = fingerprint(SCHEMAS.values())
    if built is None or built[1].decode() != expected:
        found = "no schemas" if built is None else f"schemas {built[1].decode()}"
        raise ImportError(f"{path} is stale: it has {found}, not {expected}; {REMEDY}")
    isas = re.search(rb"equigeo-isas:([a-z0-9,]+)", content)
    if isas is not None and not any(map(_machine_has, isas[1].decode().split(","))):
        raise ImportError(
            f"{path} was built for {isas[1].decode()}, which this processor has not; {REMEDY}"
        )
    os.environ[_DEFINED] = "1"
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(f"{path} is broken: {error}; {REMEDY}") from error
    finally:
        del os.environ[_DEFINED]
    if path.stem == "_kernels_cpu":
        library = ctypes.CDLL(str(path))
        _choose_isa(library, os.environ.get("EQUIGEO_ISA") or None)
        library.equigeo_limit_memory(ctypes.c_int64(_result_memory()))


def kernels_info() -> dict[str, Any]:
    """Return information about the loaded libraries.

    ``"cpu"`` and ``"cuda"``: path of the library, or of the one that simulates it, or None;
    ``"isa"``: the instruction set in use on the CPU or None; ``"available_isas"``: those that this
    machine and build have.

    Examples
    --------
    >>> sorted(kernels_info())
    ['available_isas', 'cpu', 'cuda', 'isa']
    """
    info: dict[str, Any] = {name: _loaded.get(name) for name in ("cpu", "cuda")}
    info["isa"], info["available_isas"] = None, []
    if info["cpu"] is not None:
        library = ctypes.CDLL(info["cpu"])
        info["isa"] = text_of(library, "equigeo_isa")
        info["available_isas"] = text_of(library, "equigeo_available_isas").split(",")
    return info


def loaded_library(
    name: str,  # "cpu" or "cuda"
) -> str | None:
    """Return the path of the loaded library for a device type, or None."""
    return _loaded.get(name)


def runs_compiled(op_name: str, device: torch.device) -> bool:
    """Return whether a loaded library has a kernel of an op for a device.

    For callers with a faster alternative to the reference implementation. The result is a constant
    under :func:`torch.compile`. Where no library of the CPU is loaded, it is True for the CPU, so
    that a layer makes the same choice with and without kernels. Raises ``ValueError`` if there is
    no such op.

    Examples
    --------
    >>> runs_compiled("copywise_product", torch.device("cpu"))
    True
    >>> runs_compiled("copywise_product", torch.device("meta"))
    False
    """
    if op_name not in SCHEMAS:
        raise ValueError(f"op_name must be an op of equigeo, got {op_name!r}")
    if device.type == "cpu" and "cpu" not in _compiled:
        return True
    return op_name in _compiled.get(device.type, ())


def _machine_has(isa: str) -> bool:
    """Return whether the processor has an instruction set, or True where it is not known."""
    if platform.machine() in ("aarch64", "arm64"):
        return isa == "neon"
    try:
        flags = re.search(r"^flags\s*:(.*)$", _CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        return True
    return flags is None or _FLAGS.get(isa, set()) <= set(flags[1].split())


def _choose_isa(library: ctypes.CDLL, name: str | None) -> None:
    if name is not None and not library.equigeo_set_isa(os.fsencode(name)):
        known = text_of(library, "equigeo_available_isas").replace(",", ", ")
        raise ValueError(f"EQUIGEO_ISA must be one of {known} on this machine, got {name!r}")


def text_of(
    library: ctypes.CDLL,
    name: str,  # of a function without arguments
) -> str:
    """Return the text that a function of a library returns."""
    function = getattr(library, name)
    function.restype = ctypes.c_char_p
    text: bytes = function()
    return text.decode()


def _result_memory() -> int:
    mebibytes = os.environ.get("EQUIGEO_RESULT_MEMORY") or "1024"
    # As many digits as the largest has, so that a number of any length is not computed first.
    is_number = mebibytes.isascii() and mebibytes.isdecimal() and len(mebibytes) <= 13
    if not is_number or int(mebibytes) >= MOST_MEBIBYTES:
        raise ValueError(
            "EQUIGEO_RESULT_MEMORY must be a whole number of MiB below 2^43, "
            f"got {mebibytes[:40]!r}"
        )
    return int(mebibytes) << 20


def switch(
    name: str,
    *,
    default: bool = False,  # value if the variable is empty or not set
) -> bool:
    """Return whether an environment variable is 1; raise if it is neither 0 nor 1."""
    value = os.environ.get(name) or str(int(default))
    if value not in ("0", "1"):
        raise ValueError(f"{name} must be 0 or 1, got {value!r}")
    return value == "1"


def limit_result_memory(size: int) -> None:
    """Set how many bytes of freed results are kept for reuse in this process; zero keeps none.

    Mapping a new result of many megabytes costs more than computing it, because the C library
    returns such memory to the system with every tensor. Compiled CPU ops therefore keep that of
    their own results of 4 MiB and more, by default up to 1 GiB, or ``EQUIGEO_RESULT_MEMORY`` (MiB)
    of the environment; least recently used memory is freed first. ``gather_sum``,
    ``segment_attention``, ``symmetric_eigen`` and ``axis_flags`` keep none. Needs PyTorch >= 2.11.

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
