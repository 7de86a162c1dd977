"""Kernels that are compiled at run time for path tables, beside the general kernels."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from bench import products as channels
from bench.gpu_times import in_turn, micro, on, passes, random_graph
from bench.peers import agree_all
from equigeo.ops import compile_kernels
from equigeo.ops.run_time_kernels import COMPILED
from equigeo.tensor_products import ChannelwiseConv

LOW = "0e + 1o + 2e"
FAMILIES = {
    "MACE": ("96x0e + 96x1o", f"{LOW} + 3o", f"{LOW} + 3o"),
    "NequIP": ("96x0e + 96x0o + 96x1o + 96x1e", LOW, "0e + 0o + 1o + 1e + 2e + 2o"),
    "SevenNet": ("96x0e + 64x1o + 32x2e", LOW, LOW),
    "Nequix": ("96x0e + 64x1o + 32x2e + 32x3o", f"{LOW} + 3o", f"{LOW} + 3o"),
}
"""Convolutions like those of models, with numbers of channels that the library does not know."""


def check_compiled(
    device: torch.device, edges: int, rounds: int, names: Iterable[str] = FAMILIES
) -> dict[str, Any]:
    """Values, two orders of gradients and times before and after the kernels are compiled."""
    rows: dict[str, Any] = {}
    failures = []
    for name in names:
        try:
            conv = ChannelwiseConv(*FAMILIES[name]).to(device)
            rows[name] = compared(conv, device, edges, rounds)
        except Exception as error:  # the others go on
            rows[name] = {"state": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        if device.type == "cuda" and rows[name]["state"] != COMPILED:
            failures.append(f"{name}: {rows[name]['state']}")
    return {"rows": rows, "failures": failures}


def compared(
    conv: ChannelwiseConv, device: torch.device, edges: int, rounds: int
) -> dict[str, Any]:
    _, graph = random_graph(device, edges)
    inputs = on(device, channels.operands(conv, graph.num_targets, edges))
    x, y, w = inputs
    calls = passes({"conv": lambda: conv(x, graph, y, w)}, inputs)
    results, microseconds = [], []
    states: set[str] = set()
    for _ in ("general", "compiled"):
        results.append(tree_leaves([pass_["conv"]() for pass_ in calls.values()]))
        times = {kind: in_turn(pass_, device, rounds)["conv"] for kind, pass_ in calls.items()}
        microseconds.append({kind: micro(median(seconds)) for kind, seconds in times.items()})
        states = states or {*compile_kernels(conv).values()}
    agree_all(*results)
    (state,) = states
    return {"state": state, "general": microseconds[0], "compiled": microseconds[1]}
