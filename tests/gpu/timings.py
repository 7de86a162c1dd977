"""Times of ops on a device beside their peers."""

from collections.abc import Callable
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from tests.gpu.problems import PROBLEMS, cue_method

Call = Callable[[], Any]
WARM_UP = 3  # calls: TorchScript, which e3nn uses, compiles in the first two
# Float32 sums in another order, of numbers of which the largest is one.
SAME = {"rtol": 1e-4, "atol": 1e-4}


def measure_ops(device: torch.device, edges: int, rounds: int) -> dict[str, Any]:
    """Microseconds of each call, in float32, after a comparison of the results."""
    found: dict[str, Any] = {
        "edges": edges, "rounds": rounds, "cuEquivariance": cue_method(device),
        "bytes per second, copy": copied(device, rounds), "microseconds": {}, "spread": {},
        "megabytes": {}, "share of the copy": {}, "failures": [],
    }  # fmt: skip
    for name, make in PROBLEMS.items():
        try:
            measure(found, name, *make(device, edges), device, rounds)
        except Exception as error:  # the others go on
            text = " ".join(str(error).split())[:300]
            found["failures"].append(f"{name}: {type(error).__name__}: {text}")
    return found


def measure(
    found: dict[str, Any],
    name: str,
    calls: dict[str, Callable[..., Tensor]],
    inputs: list[Tensor],
    device: torch.device,
    rounds: int,
) -> None:
    """All passes of one problem."""
    results = [call(*inputs) for call in calls.values()]
    agree(results)
    size = sum(x.numel() * x.element_size() for x in (*inputs, results[0]))
    del results
    for kind, timed in passes(calls, inputs).items():
        key = f"{name}, {kind}"
        seconds = in_turn(timed, device, rounds)
        found["microseconds"][key] = {who: micro(median(s)) for who, s in seconds.items()}
        found["spread"][key] = {
            who: [micro(sorted(s)[round(q * (len(s) - 1))]) for q in (0.25, 0.75)]
            for who, s in seconds.items()
        }
        found["megabytes"][key] = {who: peak(call, device) for who, call in timed.items()}
        if kind == "forward":
            least = 1e6 * size / found["bytes per second, copy"]
            found["share of the copy"][name] = {
                who: round(least / time, 3) for who, time in found["microseconds"][key].items()
            }


def micro(seconds: float) -> float:
    return round(1e6 * seconds, 2)


def agree(results: list[Tensor]) -> None:
    """Refuse to time what computes something else."""
    want = results[-1].detach()
    size = float(want.abs().max())
    for found in results[:-1]:
        torch.testing.assert_close(found.detach() / size, want / size, **SAME)


def passes(
    calls: dict[str, Callable[..., Tensor]], inputs: list[Tensor]
) -> dict[str, dict[str, Call]]:
    """The forward pass without a graph, both passes, and what training on forces adds."""

    def forward(call: Callable[..., Tensor]) -> Tensor:
        with torch.no_grad():
            return call(*inputs)

    def both(call: Callable[..., Tensor]) -> Any:
        result = call(*inputs)
        return torch.autograd.grad(result, inputs, torch.ones_like(result))

    def second(call: Callable[..., Tensor]) -> Any:
        result = call(*inputs)
        ones = torch.ones_like(result)
        slopes = torch.autograd.grad(result, inputs, ones, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in slopes), inputs)

    kinds = [forward, both]
    result = next(iter(calls.values()))(*inputs)
    slopes = torch.autograd.grad(result, inputs, torch.ones_like(result), create_graph=True)
    if all(x.requires_grad for x in slopes):  # sums have no second derivatives
        kinds.append(second)
    return {
        kind.__name__: {name: partial(kind, call) for name, call in calls.items()} for kind in kinds
    }


def in_turn(calls: dict[str, Call], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Seconds of every round of each call, by the clock of the device."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP + rounds):
        for name, call in calls.items():
            seconds[name].append(timed(call, device))
    return {name: values[WARM_UP:] for name, values in seconds.items()}


def timed(call: Call, device: torch.device) -> float:
    """Seconds of one call."""
    if device.type != "cuda":
        start = perf_counter()
        call()
        return perf_counter() - start
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize(device)
    first.record()
    call()
    last.record()
    torch.cuda.synchronize(device)
    return float(first.elapsed_time(last)) / 1e3


def copied(device: torch.device, rounds: int) -> float:
    """Bytes that a copy reads and writes in a second."""
    size = 2**28 if device.type == "cuda" else 2**22  # numbers: more than caches hold
    source = torch.ones(size, device=device)
    target = torch.empty_like(source)
    seconds = in_turn({"copy": lambda: target.copy_(source)}, device, rounds)["copy"]
    return 2 * source.numel() * source.element_size() / median(seconds)


def peak(call: Call, device: torch.device) -> float | None:
    """Megabytes that are allocated at most during a call."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    call()
    torch.cuda.synchronize(device)
    return round(torch.cuda.max_memory_allocated(device) / 2**20, 1)
