"""Times of kernels on a card beside the bounds that the simulator's counts predict."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from equigeo import tensor_products as tp
from tests.gpu.timings import IRREPS, operands, random_graph

MODEL = Path(__file__).parents[2] / "bench" / "results" / "cuda_model.json"
CALLS = 20
Times = dict[str, float]
"""Microseconds of one call by kernel."""


def compare_kernels(device: torch.device, model: Path = MODEL) -> dict[str, Any]:
    """Profile the cases of the model that can be made here.

    Parameters
    ----------
    device : torch.device
        A card; elsewhere there are no kernels to profile, and no times.
    model : Path
        Record of ``bench/cuda_model.py``.

    Returns
    -------
    dict
        By case and kernel: predicted and measured microseconds, where both are known.
    """
    record = json.loads(model.read_text())
    if record["problem"] != "mace-large":
        return {}
    found = {}
    for case, kernels in record["cases"].items():
        call = made(case, record["edges"], record["nodes"], device)
        if call is not None:
            found[case] = joined(predicted(kernels), measured(call, device))
    return {case: rows for case, rows in found.items() if rows}


def made(case: str, edges: int, nodes: int, device: torch.device) -> Callable[[], Any] | None:
    """The call of a case, ``"<op>, <layout>, <passes>"``; None of one that is not known here."""
    op, layout, passes, *_ = [*case.split(", "), "", ""]
    if op == "channelwise_product" and layout in ("mul_ir", "ir_mul"):
        product = tp.ChannelwiseTensorProduct(*IRREPS, layout=layout).to(device)
        rows, call = edges, product
    elif op == "channelwise_conv" and layout in ("mul_ir", "ir_mul"):
        product = tp.ChannelwiseConv(*IRREPS, layout=layout).to(device)
        _, graph = random_graph(device, edges, nodes)
        rows, call = nodes, lambda x, y, w: product(x, graph, y, w)
    else:
        return None
    shapes = [(rows, product.irreps_in1.dim), (edges, product.irreps_in2.dim)]
    inputs = operands([*shapes, (edges, product.weight_numel)], device)

    def run() -> Any:
        result: Tensor = call(*inputs)
        return result.sum().backward() if passes == "both" else result

    return run


def predicted(kernels: Iterable[dict[str, Any]]) -> Times:
    """Bounds of the model, all launches of a kernel together."""
    found: Times = defaultdict(float)
    for row in kernels:
        for name, value in row.items():
            if name.startswith("microseconds"):
                found[base_name(row["kernel"])] += value
    return found


def measured(call: Callable[[], Any], device: torch.device) -> Times:
    """Time of every kernel of one call, by the profiler of PyTorch."""
    if device.type != "cuda":
        call()
        return {}
    call()
    with profile(activities=[ProfilerActivity.CUDA]) as session:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize(device)
    return per_call(session.key_averages(), CALLS)


def per_call(events: Iterable[Any], calls: int) -> Times:
    """Microseconds of one call by kernel, from the averages of a profile."""
    found: Times = defaultdict(float)
    for event in events:
        found[base_name(event.key)] += event.self_device_time_total / calls
    return found


def base_name(kernel: str) -> str:
    """Name of a kernel without results, namespaces, template arguments and parameters.

    Examples
    --------
    >>> base_name("void equigeo::(anonymous namespace)::sum_rows<float>(equigeo::Plan<float>)")
    'sum_rows'
    >>> base_name("plan_paths<float>")
    'plan_paths'
    """
    plain = kernel.replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", plain)[0].split("::")[-1].split(" ")[-1]


def joined(bounds: Times, times: Times) -> dict[str, dict[str, float]]:
    """Kernels that are in both."""
    return {
        name: {
            "predicted": round(bounds[name], 3),
            "measured": round(times[name], 3),
            "measured / predicted": round(times[name] / bounds[name], 2),
        }
        for name in bounds
        if name in times and bounds[name] > 0
    }
