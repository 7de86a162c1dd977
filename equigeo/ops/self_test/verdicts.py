"""Results of self-tests, saved on disk for later processes.

One file for each combination of device, driver, library and versions, in ``self-tests`` below
``$EQUIGEO_CACHE``, or below ``equigeo`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. Unreadable or
invalid files are ignored.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from equigeo._version import __version__

SIMULATED = -1
"""Index of the simulated device, whose tensors are the CPU's."""


@dataclass(frozen=True)
class Verdict:
    """Result of a self-test."""

    state: str  # "passed" or "failed"
    when: str  # ISO 8601, UTC
    seconds: float  # duration
    cases: int  # number of ops
    worst: str  # result closest to its bound, or the failure

    @property
    def has_passed(self) -> bool:
        """Return whether the self-test passed."""
        return self.state == "passed"


def key_of(
    index: int,  # device index, -1 for the simulator
    library: str,  # path of the library
) -> dict[str, str]:
    """Return the device, driver, library and versions that a verdict applies to."""
    name, capability, driver = _simulated() if index == SIMULATED else _card(index)
    return {
        "device": name,
        "capability": capability,
        "driver": driver,
        "library": _digest(library),
        "equigeo": __version__,
        "torch": torch.__version__,
    }


def read_verdict(key: dict[str, str]) -> Verdict | None:
    """Load the verdict of an earlier process, or None if there is no valid one for this key."""
    try:
        found = json.loads(_file(key).read_text(encoding="utf-8"))
        if found["key"] != key:
            return None
        verdict = Verdict(**found["verdict"])
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):
        return None
    types = {"state": str, "when": str, "seconds": float, "cases": int, "worst": str}
    fields = all(isinstance(getattr(verdict, name), kind) for name, kind in types.items())
    return verdict if fields and verdict.state in ("passed", "failed") else None


def write_verdict(key: dict[str, str], verdict: Verdict) -> None:
    """Save a verdict atomically; do nothing if the folder is not writable."""
    text = json.dumps({"key": key, "verdict": asdict(verdict)}, indent=1) + "\n"
    with contextlib.suppress(OSError, RuntimeError):  # the latter where there is no home
        file = _file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            whole = Path(folder, file.name)
            whole.write_text(text, encoding="utf-8")
            whole.replace(file)


def _file(key: dict[str, str]) -> Path:
    chosen = os.environ.get("EQUIGEO_CACHE")
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(chosen) if chosen else Path(caches) / "equigeo"
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    return folder.expanduser() / "self-tests" / f"{name}.json"


def _simulated() -> tuple[str, str, str]:
    device = os.environ.get("EQUIGEO_SIMULATE_DEVICE") or "sm_90"
    return "simulator", device, "none"


def _card(index: int) -> tuple[str, str, str]:
    found = torch.cuda.get_device_properties(index)
    return found.name, f"sm_{found.major}{found.minor}", _driver()


@functools.cache
def _driver() -> str:
    """Return the CUDA version of the driver, and the driver version if the system provides it."""
    version = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    module = Path("/proc/driver/nvidia/version")
    own = module.read_text().splitlines()[0] if module.exists() else ""
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10} {own}".strip()


@functools.cache
def _digest(library: str) -> str:
    return hashlib.sha256(Path(library).read_bytes()).hexdigest()
