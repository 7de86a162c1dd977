"""Speed of a checkpoint's model with compiled kernels and with reference implementations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import equigeo
from equigeo._text import message
from equigeo.tasks import TASKS, find_task

_REPETITIONS: Final = 7
_SECONDS: Final = 5.0  # after which no further repetition begins
_PATIENCE: Final = 300  # seconds for the process without kernels
_UNCOMPILED: Final = "not measured: no compiled kernels are loaded"
_NO_OPS: Final = "not measured: one pass of it is made of operations of PyTorch alone"
_SWITCHES: Final = ("EQUIGEO_REQUIRE_KERNELS", "EQUIGEO_SIMULATE_CUDA")  # contradict having none


def measure_model(path: Path) -> dict[str, Any]:
    """Run a checkpoint's model on synthetic input; return its ops and the speed-up by kernels."""
    on, call = _trial(path)
    if call is None:
        return _without_times(on, [], [], "not measured: there is no synthetic input for this task")
    names = _called_ops(call)
    compiled = [name for name in names if _has_kernel(name)]
    reference = [name for name in names if name not in compiled]
    if not compiled:
        return _without_times(on, compiled, reference, _UNCOMPILED if names else _NO_OPS)
    here = _seconds(call)
    try:
        # A separate process that loads no kernels, with as many threads.
        there = _seconds_without_kernels(path)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        remark = f"not measured: the process without kernels failed ({message(error)})"
        return _without_times(on, compiled, reference, remark)
    return _without_times(on, compiled, reference, "") | {
        "kernels_ms": 1e3 * here,
        "reference_ms": 1e3 * there,
        "speedup": there / here,
    }


def _without_times(
    on: str, compiled: list[str], reference: list[str], remark: str
) -> dict[str, Any]:
    return {"on": on, "compiled": compiled, "reference": reference, "remark": remark}


def _trial(path: Path) -> tuple[str, Callable[[], Any] | None]:
    trained = find_task(path, TASKS).trained_type.load(path)
    found: tuple[str, Callable[[], Any]] | None = trained.trial()
    return ("", None) if found is None else found


def _has_kernel(name: str) -> bool:
    has_library = equigeo.kernels_info()["cpu"] is not None
    return has_library and equigeo.ops.runs_compiled(name, torch.device("cpu"))


class _Listener(TorchDispatchMode):
    """Record the ops of this library, in backward passes too."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "equigeo":
            self.names.add(func._schema.name.partition("::")[2])
        return func(*args, **(kwargs or {}))


def _called_ops(call: Callable[[], Any]) -> list[str]:
    with _Listener() as listener:
        call()
    return sorted(listener.names)


def _seconds(call: Callable[[], Any]) -> float:
    """Return the median time of repetitions after a warm-up."""
    call()
    times: list[float] = []
    while len(times) < _REPETITIONS and sum(times) < _SECONDS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return max(median(times), 1e-9)


def _seconds_without_kernels(path: Path) -> float:
    """Time the same model in a process without kernels."""
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        "from equigeo.cli.model_speed import print_seconds; "
        f"print_seconds({str(path.absolute())!r}, {torch.get_num_threads()})"
    )
    environment = {name: x for name, x in os.environ.items() if name not in _SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | {"EQUIGEO_KERNELS": "0"},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode != 0:
        raise ValueError(done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}")
    return float(json.loads(done.stdout)["seconds"])


def print_seconds(path: str, threads: int) -> None:
    """Time a checkpoint's model in this process and print the result as JSON."""
    torch.set_num_threads(threads)
    _, call = _trial(Path(path))
    if call is None:
        raise ValueError(f"{path}: there is no synthetic input for its task")
    print(json.dumps({"seconds": _seconds(call)}))
