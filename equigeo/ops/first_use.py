"""The self-test of a device, run before an op launches its first kernel there.

The CUDA library requests it where it launches kernels. CPU tensors, tracing and meta tensors never
reach this check; on a tested device it costs one flag read.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

import torch

from equigeo._core.files import read_own, write_own
from equigeo._core.version import __version__
from equigeo.ops.runtime.library import loaded_library, runs_compiled, switch, text_of
from equigeo.ops.self_test import Deviation, worst_deviation
from equigeo.ops.self_test_cases import Case, all_cases

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
    if index == SIMULATED:
        capability = os.environ.get("EQUIGEO_SIMULATE_DEVICE") or "sm_90"
        name, driver = "simulator", "none"
    else:
        name, capability, driver = _card(index)
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
        found = json.loads(read_own("self-tests", _name(key), _UNCACHED) or b"")
        if found["key"] != key:
            return None
        verdict = Verdict(**found["verdict"])
    except (RuntimeError, ValueError, TypeError, KeyError):
        return None
    types = {"state": str, "when": str, "seconds": float, "cases": int, "worst": str}
    fields = all(isinstance(getattr(verdict, name), kind) for name, kind in types.items())
    return verdict if fields and verdict.state in ("passed", "failed") else None


def write_verdict(key: dict[str, str], verdict: Verdict) -> None:
    """Save a verdict atomically, or warn."""
    text = json.dumps({"key": key, "verdict": asdict(verdict)}, indent=1) + "\n"
    write_own("self-tests", _name(key), text.encode(), _UNCACHED)


_UNCACHED = "the self-test of CUDA kernels is not kept and runs in every process"


def _name(key: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16] + ".json"


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


EXECUTED = "executed on NVIDIA H100 and H200, and on the simulator"
"""Where the CUDA kernels of this version have run."""

VARIABLE = "EQUIGEO_CUDA_SELF_TEST"

_log = logging.getLogger("equigeo")
_BEFORE_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class _Watch:
    """Self-test state of a loaded library per device."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.verdicts: dict[int, Verdict] = {}
        self._library = ctypes.CDLL(path)
        self._lock = threading.Lock()
        self._tester: int | None = None
        self._callback = _BEFORE_LAUNCH(self._before_launch)  # lives as long as the library
        self._library.equigeo_watch_devices(self._callback)

    def require(self, index: int) -> None:
        """Raise if the kernels failed on a device; run the self-test if it has no verdict."""
        if threading.get_ident() == self._tester:  # an op of the self-test itself
            return
        with self._lock:  # of two threads that come at once, one waits for the other's result
            verdict = self.verdicts.get(index)
            if verdict is None:
                verdict = read_verdict(key_of(index, self.path))
                if verdict is None or not verdict.has_passed:
                    verdict = self._tested(index)
                self._keep(index, verdict)
        if not verdict.has_passed:
            raise RuntimeError(_refusal(index, self.path, verdict))

    def run(self, index: int) -> Verdict:
        """Run the self-test on a device, ignoring earlier verdicts."""
        with self._lock:
            verdict = self._tested(index)
            self._keep(index, verdict)
        return verdict

    def _before_launch(self, index: int, message: int, size: int) -> int:
        """Return 1 to the library, or 0 and a message, since exceptions must not cross C++."""
        try:
            self.require(index)
        except BaseException as error:
            text = (str(error) or type(error).__name__).encode("ascii", "replace")[: size - 1]
            ctypes.memmove(message, text + b"\0", len(text) + 1)
            return 0
        return 1

    def _keep(self, index: int, verdict: Verdict) -> None:
        self.verdicts[index] = verdict
        self._library.equigeo_trust_device(index, int(verdict.has_passed))

    def _tested(self, index: int) -> Verdict:
        """Run the self-test and save its result."""
        key = key_of(index, self.path)
        if index != SIMULATED:
            _refuse_capture(index, key["device"])

        def work() -> Verdict:
            self._tester = threading.get_ident()
            try:
                return _test_kernels(index)
            finally:
                self._tester = None

        try:
            verdict = _in_own_thread(work)
        except BaseException as error:
            raise RuntimeError(
                f"the self-test of the CUDA kernels on {key['device']} must come to an end before "
                f"they run, but stopped: {error}"
            ) from error
        write_verdict(key, verdict)
        if verdict.has_passed:
            text = "CUDA kernels passed their self-test on %s in %.1f s; of this version: %s"
            _log.warning(text, key["device"], verdict.seconds, EXECUTED)
        return verdict


def _in_own_thread(work: Callable[[], Verdict]) -> Verdict:
    """Run a self-test in a thread without modes, graphs, streams or transforms."""
    found: list[Verdict | BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, name="equigeo self-test", daemon=True)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


_watch: _Watch | None = None


def verdict_on_kernels(
    index: int,  # device index
    kernels: str,  # hash of the kernels
    cases: list[Case],
    use: Callable[[], object],  # makes ops of the calling thread use the kernels
) -> Verdict | None:
    """Test kernels that were compiled at run time; None if the self-test is switched off."""
    if _watch is None:
        return None
    _watch.require(index)
    key = key_of(index, _watch.path) | {"kernels": kernels}
    verdict = read_verdict(key)
    if verdict is None or not verdict.has_passed:

        def work() -> Verdict:
            use()
            return _run_cases(index, cases)

        verdict = _in_own_thread(work)
        write_verdict(key, verdict)
    return verdict


def watch_devices() -> None:
    """Make the CUDA library request a self-test before its first launch on a device."""
    global _watch
    # EQUIGEO_CUDA_SELF_TEST=0 disables it. The simulator disables it by default, since callers that
    # count or break one kernel there must not run others.
    wanted = switch(VARIABLE, default=not switch("EQUIGEO_SIMULATE_CUDA"))
    path = loaded_library("cuda")
    if path is None or not wanted:
        return
    _watch = _Watch(path)


def run_self_test(device: torch.device | str | int = "cuda") -> Verdict:
    """Run the self-test of all kernels on a device, ignoring earlier results.

    Ops do so themselves before their first launch on a device. Call it before the capture of a CUDA
    graph, where they cannot. The CPU is the device of simulated kernels. The result has
    ``has_passed``, ``when``, ``seconds``, ``cases`` and ``worst``; after a failure the kernels
    raise an error on this device. Raises ``RuntimeError`` if no CUDA kernels are loaded, or the
    self-test is switched off.

    Examples
    --------
    >>> run_self_test("meta")
    Traceback (most recent call last):
    ValueError: device must be of type cuda, got meta
    """
    chosen = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    wanted = "cpu" if switch("EQUIGEO_SIMULATE_CUDA") else "cuda"
    if chosen.type != wanted:
        raise ValueError(f"device must be of type {wanted}, got {chosen}")
    if _watch is None:
        raise RuntimeError(
            "a self-test needs a loaded library of CUDA kernels that asks for it, and there is "
            f"none; see kernels_info() and {VARIABLE}"
        )
    if wanted == "cpu":
        return _watch.run(SIMULATED)
    return _watch.run(torch.cuda.current_device() if chosen.index is None else chosen.index)


def cuda_status() -> dict[str, str]:
    """Return a description of the self-test state of the CUDA kernels.

    ``"status"``: where kernels of this version have run; ``"compiled for"``: architectures of the
    loaded library; ``"self-test, <device>"`` for each device.

    Examples
    --------
    >>> cuda_status()["status"]
    'executed on NVIDIA H100 and H200, and on the simulator'
    """
    path = loaded_library("cuda")
    found = {"status": EXECUTED, "compiled for": "no library is loaded"}
    if path is None:
        return found
    found["compiled for"] = _architectures(path)
    simulated = switch("EQUIGEO_SIMULATE_CUDA")
    for index in [SIMULATED] if simulated else range(torch.cuda.device_count()):
        key = key_of(index, path)
        known = _watch.verdicts.get(index) if _watch is not None else None
        verdict = known or read_verdict(key)
        state = f"skipped, see {VARIABLE}" if _watch is None else _described(verdict)
        found[f"self-test, {index}: {key['device']} ({key['capability']})"] = state
    return found


def _described(verdict: Verdict | None) -> str:
    if verdict is None:
        return "never run"
    counts = f"{verdict.cases} ops in {verdict.seconds:.1f} s"
    return f"{verdict.state} on {verdict.when}, {counts}; {verdict.worst}"


def _architectures(path: str) -> str:
    names = text_of(ctypes.CDLL(path), "equigeo_architectures").split(",")
    return ", ".join(f"sm_{name}" if name.isdecimal() else name for name in names)


def _refuse_capture(index: int, name: str) -> None:
    with torch.cuda.device(index):
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(
                f"the first op of equigeo on {name} must not be captured in a CUDA graph, because "
                "kernels are tested before it: call equigeo.ops.run_self_test() or the op itself "
                f"before the capture, or set {VARIABLE}=0"
            )


def _refusal(index: int, path: str, verdict: Verdict) -> str:
    key = key_of(index, path)
    return (
        f"the CUDA kernels failed their self-test on {key['device']} and are not run there: "
        f"{verdict.worst}. Please report this with what `equigeo doctor` prints; EQUIGEO_KERNELS=0 "
        f"runs reference implementations instead, {VARIABLE}=0 runs the kernels nevertheless"
    )


def _test_kernels(index: int) -> Verdict:
    return _run_cases(index, all_cases())


def _run_cases(index: int, cases: list[Case]) -> Verdict:
    """Run every case and stop at the first failure."""
    start, worst, count = time.perf_counter(), None, 0
    device = torch.device("cpu") if index == SIMULATED else torch.device("cuda", index)
    with _ordinary_settings(device):
        for case in cases:
            if not runs_compiled(case.op, device):
                continue
            count += 1
            try:
                found: Deviation | str = worst_deviation(case, device)
            except torch.OutOfMemoryError:
                raise  # no verdict about kernels
            except RuntimeError as error:
                found = f"{case.op}: {' '.join(str(error).split())}"
            if isinstance(found, str) or not found.is_tolerated:
                return _verdict("failed", start, count, str(found))
            worst = found if worst is None or found.share > worst.share else worst
    return _verdict("passed", start, count, f"closest to the bound: {worst}")


def _verdict(state: str, start: float, count: int, worst: str) -> Verdict:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Verdict(state, now, round(time.perf_counter() - start, 3), count, worst)


@contextlib.contextmanager
def _ordinary_settings(device: torch.device) -> Iterator[None]:
    """Reset process-wide PyTorch settings to their defaults and select the device."""
    strict = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    try:
        # The caller may be the thread that would run backward passes of the device, and it waits.
        with torch.autograd.grad_mode.set_multithreading_enabled(False):
            with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
                yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
