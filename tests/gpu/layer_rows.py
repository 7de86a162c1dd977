"""Layers of the mode matrix on a device, against themselves on the CPU."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.testing import assert_close

from equigeo.ops.runtime.declare import SCHEMAS
from tests.modes.deployment import SINGLE
from tests.modes.derivatives import SAME
from tests.modes.row import Bound, Row
from tests.modes.table import ROWS
from tests.modes.unsupported import reason

Tensors = tuple[Tensor, ...]


def layer_names(select: Sequence[str] = ()) -> list[str]:
    """Rows that are selected."""
    return [row.name for row in layers(select)]


def layers(select: Sequence[str]) -> list[Row]:
    """Rows of layers, by parts of their names; ops have a table of their own."""
    found = [row for row in ROWS if row.covers not in SCHEMAS]
    return [row for row in found if any(part in row.name for part in select or [""])]


def check_layers(
    device: torch.device, select: Sequence[str] = (), names: Sequence[str] | None = None
) -> dict[str, Any]:
    """Every layer in the modes of a device."""
    chosen = [row for row in layers(select) if names is None or row.name in names]
    rows: dict[str, dict[str, str]] = {row.name: {} for row in chosen}
    # One mode after another: a capture that fails comes after everything else.
    for name, mode in MODES.items():
        for row in chosen:
            rows[row.name][name] = outcome(row, name, mode, device)
    failures = [
        f"{row}, {name}: {text}"
        for row, found in rows.items()
        for name, text in found.items()
        if text.startswith("failed")
    ]
    return {"rows": rows, "failures": failures}


def outcome(
    row: Row, name: str, mode: Callable[[Row, torch.device], None], device: torch.device
) -> str:
    """What one mode says of a row."""
    listed = {"compiled": "compiled", "graph": "compiled"}.get(name)
    if listed and (why := reason(row.name, listed)):
        return f"not supported: {why}"
    if name == "graph" and device.type != "cuda":
        return "not supported: a graph is captured from a card"
    try:
        mode(row, device)
    except Exception as error:
        # That every layer can be captured is not promised: some look at values.
        wrong = name != "graph" or isinstance(error, AssertionError)
        text = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        return f"failed: {text}" if wrong else f"not captured: {text}"
    return "passed"


def eager(row: Row, device: torch.device) -> None:
    """Values and gradients of inputs and parameters in float64."""
    here, there = on(row, torch.device("cpu")), on(row, device)
    assert_close(back(slopes(*there)), slopes(*here), **SAME)


def float32(row: Row, device: torch.device) -> None:
    """Values in single precision."""
    bound, inputs = on(row, device)
    found = back(bound.float()(*(x.float() for x in inputs)))
    here, given = on(row, torch.device("cpu"))
    for one, other in zip(found, here(*given), strict=True):
        assert one.dtype == torch.float32
        size = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
        assert_close(one.double() / size, other.detach() / size, **SINGLE)


def inference(row: Row, device: torch.device) -> None:
    """A call that is not recorded; PyTorch's own sums on a card have no order."""
    bound, inputs = on(row, device)
    with torch.inference_mode():
        found = bound(*(x.clone() for x in inputs))
    assert_close(back(found), back(bound(*inputs)), **SAME)


def compiled(row: Row, device: torch.device) -> None:
    """One graph without a break; values and gradients."""
    bound, inputs = on(row, device)
    torch._dynamo.reset()
    program = torch.compile(bound, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_close(slopes(program, inputs), slopes(bound, inputs), **SAME)


def graph(row: Row, device: torch.device) -> None:
    """A captured graph, replayed on other inputs."""
    bound, inputs = on(row, device)
    still = tuple(x.clone() for x in inputs)
    with torch.no_grad():
        replay = capture(lambda: tuple(bound(*still)), device)
        others = [x + 0.01 * x.cos() for x in inputs]
        for x, other in zip(still, others, strict=True):
            x.copy_(other)
        assert_close(back(replay()), back(bound(*others)), **SAME)


def capture(call: Callable[[], Tensors], device: torch.device) -> Callable[[], Tensors]:
    """Capture a call as a CUDA graph and return its replay."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(3):  # what is allocated and chosen once
            call()
    torch.cuda.current_stream(device).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()

    def replay() -> Tensors:
        graph.replay()
        return results

    return replay


MODES = {
    "eager": eager,
    "float32": float32,
    "inference": inference,
    "compiled": compiled,
    "graph": graph,
}


def on(row: Row, device: torch.device) -> tuple[Bound, Tensors]:
    """A layer and its inputs on a device."""
    bound = copy.deepcopy(row.bound()).to(device)
    return bound, tuple(x.to(device) for x in row.inputs())


def slopes(bound: Callable[..., Any], inputs: Tensors) -> Tensors:
    """Results, and gradients of a function of them by inputs and parameters."""
    live = tuple(x.detach().requires_grad_() for x in inputs)
    results = tuple(bound(*live))
    free = [r for r in results if r.requires_grad]
    directions = [
        torch.linspace(-1, 1, r.numel(), dtype=torch.float64).to(r).view(r.shape) for r in free
    ]
    found: Tensors = ()
    if free:
        parameters = list(bound.parameters()) if isinstance(bound, torch.nn.Module) else []
        found = torch.autograd.grad(
            free, [*live, *parameters], directions, allow_unused=True, materialize_grads=True
        )
    return (*(r.detach() for r in results), *found)


def back(tensors: Tensors) -> Tensors:
    return tuple(x.detach().cpu() for x in tensors)
