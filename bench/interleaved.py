"""Timing several things in turn, so that what disturbs one disturbs all."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

import equigeo
from equigeo.ops import kernels_info

Call = Callable[[], Any]


def interleaved(calls: dict[str, Call], rounds: int = 7) -> dict[str, float]:
    """Median seconds of each call; the rounds go through all of them."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def copy_bandwidth(megabytes: int = 256) -> float:
    """Bytes read and written per second by a copy between arrays beyond the caches."""
    source = torch.ones(megabytes * 2**18)
    target = torch.empty_like(source)
    seconds = interleaved({"copy": lambda: target.copy_(source)}, rounds=9)["copy"]
    return 2 * source.numel() * source.element_size() / seconds


def typed_command() -> str:
    """What was typed, without where files lie."""
    module = sys.modules["__main__"].__spec__
    name = module.name.removesuffix(".__main__") if module else Path(sys.argv[0]).name
    kept = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv[1:]]
    return shlex.join(["python", *(["-m"] if module else []), name, *kept])


def circumstances() -> dict[str, Any]:
    """Commit, versions, processor and how busy it is: what a reader of a figure asks first."""
    return {
        "commit": commit(Path(__file__).parent),
        "processor": processor(),
        "equigeo": equigeo.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "instruction set": kernels_info()["isa"],
        "load average": os.getloadavg(),
        "allocator": {
            name: value for name, value in os.environ.items() if name.startswith("MALLOC_")
        },
    }


def commit(checkout: Path) -> str:
    """The commit of a checkout, and whether tracked files differ from it."""

    def git(*words: str) -> str:
        return subprocess.check_output(["git", "-C", str(checkout), *words], text=True).strip()

    # Records of one measurement after another change no code.
    code = (":(top)", ":(top,exclude)bench/results")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *code)
    return git("rev-parse", "HEAD") + (" with changes" if changed else "")


def processor() -> str:
    """Name of the processor, where the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
