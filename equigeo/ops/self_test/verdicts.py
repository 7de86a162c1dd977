"""What self-tests found, kept on disk for the next process.

One file for each combination of device, driver, library and versions, in ``self-tests`` below
``$EQUIGEO_CACHE``, or below ``equigeo`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. A file that cannot
be read or does not say what it should is as good as none.
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
    """Result of a self-test.

    Parameters
    ----------
    state : str
        ``"passed"`` or ``"failed"``.
    when : str
        Date and time, ISO 8601, UTC.
    seconds : float
        How long it took.
    cases : int
        How many ops ran.
    worst : str
        The result that came closest to what is tolerated, or what failed.
    """

    state: str
    when: str
    seconds: float
    cases: int
    worst: str

    @property
    def has_passed(self) -> bool:
        """Whether the kernels may be relied on."""
        return self.state == "passed"


def key_of(index: int, library: str) -> dict[str, str]:
    """Say what a verdict is about.

    Parameters
    ----------
    index : int
        Of the device; -1 for the simulated one.
    library : str
        Path of the library.

    Returns
    -------
    dict
        Name of the device and its capability, driver, content of the library, versions.
    """
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
    """Look for the verdict of an earlier process.

    Parameters
    ----------
    key : dict
        From :func:`key_of`.

    Returns
    -------
    Verdict or None
        None if there is none that can be read and is about this.
    """
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
    """Keep a verdict, whole or not at all; where nothing can be written, none is kept.

    Parameters
    ----------
    key : dict
        From :func:`key_of`.
    verdict : Verdict
        What was found.
    """
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
    """Version of CUDA that the driver has, and its own where the system tells."""
    version = ctypes.c_int(0)
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    module = Path("/proc/driver/nvidia/version")
    own = module.read_text().splitlines()[0] if module.exists() else ""
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10} {own}".strip()


@functools.cache
def _digest(library: str) -> str:
    return hashlib.sha256(Path(library).read_bytes()).hexdigest()
