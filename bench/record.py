"""One call under pytest-benchmark, and the entries of its record besides the times."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from bench.interleaved import copy_bandwidth
from equigeo.ops import kernels_info

bandwidth = cache(lambda threads: copy_bandwidth())


def record(
    benchmark: Any, call: Callable[[], Any], unit: str, count: int, moved: int | None = None
) -> None:
    """Time a call for ``count`` rows, edges or points, which moves so many bytes at least."""
    threads = torch.get_num_threads()
    info = {f"{unit}s": count, "threads": threads, "isa": kernels_info()["isa"]}
    benchmark.extra_info.update(info, torch=torch.__version__)
    benchmark(call)
    if benchmark.stats is None:  # where timing is switched off
        return
    seconds = benchmark.stats["median"]
    benchmark.extra_info[f"microseconds per {unit}"] = 1e6 * seconds / count
    if moved is not None:
        benchmark.extra_info["bytes"] = moved
        benchmark.extra_info["GB/s"] = moved / seconds / 1e9
        benchmark.extra_info["per cent of the bound"] = 100 * moved / seconds / bandwidth(threads)
