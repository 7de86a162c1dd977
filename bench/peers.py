"""Layers and their peers in every mode in which they run, compared and timed in turn.

A peer runs as its authors leave it, by TorchScript or by ``torch.compile``; which is fastest
depends on the problem and on the pass. So all modes are measured, once their results have been
compared with ours, and ratios are stated to a peer as it is and to its fastest mode. A mode that
does not have a pass is recorded with the first line of its error: ``torch.compile`` has no second
derivatives.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import quantiles
from typing import Any

import torch
from torch import Tensor, nn

from bench.interleaved import all_rounds
from equigeo import ops
from equigeo.interop import to_e3nn

Layer = Callable[..., Any]
Call = Callable[[], tuple[Tensor, ...]]
KINDS = ("forward", "both", "second")
AS_IT_IS = "eager"
KEPT = 2**30  # bytes of results whose memory kernels keep, as by default
STRICT = {"fail_on_recompile_limit_hit": True}  # a compiler that gives up does not run a layer


@dataclass(frozen=True)
class Library:
    """Ways to run the layer of a library, by mode, which compute the same."""

    modes: Mapping[str, Layer]
    inputs: list[Tensor]
    wanted: str | None = None  # library with the same results; None is compared with nothing
    parameters: Sequence[Tensor] = ()  # of gradients, besides the inputs
    same: tuple[str, ...] = KINDS  # passes whose results are compared


def of_module(
    layer: nn.Module, inputs: list[Tensor], call: Layer | None = None, **options: Any
) -> Library:
    """A module, in evaluation mode where no gradients are asked for, and in training else."""

    def run(*given: Tensor) -> Any:
        if layer.training != torch.is_grad_enabled():
            layer.train(torch.is_grad_enabled())
        return (call or layer)(*given)

    parameters = [x for x in layer.parameters() if x.requires_grad]
    return Library({AS_IT_IS: run}, inputs, parameters=parameters, **options)


def e3nn_modes(product: Any, around: Callable[[Layer], Layer] | None = None) -> dict[str, Layer]:
    """What a product of this library is in e3nn, with whatever is computed around it."""
    around = around or (lambda layer: layer)
    built = {}
    for mode in (AS_IT_IS, "script"):
        with jit_mode(mode):
            built[mode] = around(to_e3nn(product))
    return with_compiled(built.pop(AS_IT_IS)) | built


def with_compiled(layer: Layer) -> dict[str, Layer]:
    """A layer as it is, and compiled."""
    with quiet():
        return {AS_IT_IS: layer, "compile": torch.compile(layer, dynamic=False)}


@contextmanager
def jit_mode(mode: str) -> Iterator[None]:
    """How modules of e3nn are made that are built inside."""
    from e3nn import get_optimization_defaults, set_optimization_defaults

    before = get_optimization_defaults()["jit_mode"]
    set_optimization_defaults(jit_mode=mode)
    try:
        with quiet():
            yield
    finally:
        set_optimization_defaults(jit_mode=before)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings that TorchScript is deprecated: it is a mode that users still have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        yield


def results_of(layer: Layer, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    """All results of a layer."""
    found: Any = layer(*inputs)
    return found if isinstance(found, tuple) else (found,)


def by_all(inputs: list[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
    """What gradients are taken by."""
    return [*(x for x in inputs if x.requires_grad), *parameters]


def forward(layer: Layer, inputs: list[Tensor], _: Sequence[Tensor] = ()) -> Call:
    """The values alone, without a graph."""

    def call() -> tuple[Tensor, ...]:
        with torch.no_grad():
            return results_of(layer, inputs)

    return call


def both(layer: Layer, inputs: list[Tensor], parameters: Sequence[Tensor] = ()) -> Call:
    """Values, and gradients of all inputs and parameters."""
    directions = drawn_like(forward(layer, inputs)(), 1)
    by = by_all(inputs, parameters)
    return lambda: torch.autograd.grad(
        results_of(layer, inputs), by, directions, materialize_grads=True
    )


def second(layer: Layer, inputs: list[Tensor], parameters: Sequence[Tensor] = ()) -> Call:
    """Gradients of all inputs, differentiated by all that they depend on.

    What training on forces asks for after its two passes; the graph is kept.
    """
    values, by = results_of(layer, inputs), by_all(inputs, parameters)
    grads = [x.requires_grad_() for x in drawn_like(values, 1)]
    gradients = torch.autograd.grad(values, by, grads, create_graph=True)
    tangents = drawn_like(gradients, 2)
    return lambda: torch.autograd.grad(gradients, [*grads, *by], tangents, retain_graph=True)


PASSES: dict[str, Callable[[Layer, list[Tensor], Sequence[Tensor]], Call]] = {
    "forward": forward,
    "both": both,
    "second": second,
}


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    """Random inputs that have gradients, the same ones every time."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=generator).requires_grad_() for shape in shapes]


def drawn_like(tensors: Iterable[Tensor], seed: int) -> list[Tensor]:
    """Random numbers of these shapes, the same ones every time."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in tensors]


def agree_all(got: Iterable[Tensor], want: Iterable[Tensor]) -> None:
    """Results of a pass, one by one."""
    for mine, wanted in zip(got, want, strict=True):
        agree(mine, wanted)


def agree(got: Tensor, want: Tensor) -> None:
    """Float32 sums in another order."""
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4 * float(want.detach().abs().max()))


@dataclass(frozen=True)
class Compared:
    """Passes of libraries whose results agree."""

    calls: Mapping[str, Call]  # by label
    without: Mapping[str, str]  # errors of modes that do not have a pass

    def __or__(self, other: Compared) -> Compared:
        """Passes of both, to be timed in turn."""
        return Compared({**self.calls, **other.calls}, {**self.without, **other.without})

    def timed(
        self, rounds: int, repeat: int = 1, clock: Callable[[], float] = time.perf_counter
    ) -> dict[str, Any]:
        """Time each pass of all in turn: seconds of one of ``repeat`` calls, and quartiles."""
        # A small problem leaves for the next call what the caches hold. Passes do not alternate:
        # modules discard in training mode what they keep for evaluation.
        seconds: dict[str, list[float]] = {}
        for kind in KINDS:
            calls = {key: call for key, call in self.calls.items() if key.split()[-1] == kind}
            in_a_row = {key: partial(call_times, call, repeat) for key, call in calls.items()}
            for key, values in all_rounds(in_a_row, rounds, clock).items():
                seconds[key] = [value / repeat for value in values]
        spread = {key: quantiles(values, n=4)[::2] for key, values in seconds.items()}
        return {"seconds": seconds, "quartiles": spread, "without": dict(self.without)}

    def timed_with_either_memory(self, rounds: int, repeat: int = 1) -> Iterator[dict[str, Any]]:
        """Time all passes while our kernels keep the memory of results, and while they do not."""
        for kept in KEPT, 0:
            ops.limit_result_memory(kept)
            yield self.timed(rounds, repeat) | {"results kept": bool(kept)}
        ops.limit_result_memory(KEPT)


def compare(libraries: Mapping[str, Library], kinds: tuple[str, ...] = KINDS) -> Compared:
    """Compare the results of libraries in every mode; ``wanted`` ones come before others."""
    # Compiled code is kept by function, which layers of one class share: those of other problems
    # would fill the cache, and the rest would run as it is.
    if any("compile" in library.modes for library in libraries.values()):
        torch.compiler.reset()
    calls: dict[str, Call] = {}
    without: dict[str, str] = {}
    for kind in kinds:
        results: dict[str, tuple[Tensor, ...]] = {}
        for name, library in libraries.items():
            for mode, layer in library.modes.items():
                key = label(name, mode, kind)
                try:
                    strict = mode == "compile"
                    with torch._dynamo.config.patch(STRICT) if strict else nullcontext():
                        call = PASSES[kind](layer, library.inputs, library.parameters)
                        got = call()
                except RuntimeError as error:
                    without[key] = str(error).strip().splitlines()[0]
                    continue
                if library.wanted and kind in library.same:
                    agree_all(got, results[library.wanted])
                results.setdefault(name, got)
                calls[key] = call
            if name not in results:
                raise RuntimeError(f"{name} has no mode with the pass {kind!r}: {without}")
    return Compared(calls, without)


def label(library: str, mode: str, kind: str) -> str:
    """How a pass is called in results."""
    return f"{library} {kind}" if mode == AS_IT_IS else f"{library}, {mode} {kind}"


def fastest(times: Mapping[str, float], library: str, kind: str) -> float:
    """The time of a library in its fastest mode."""
    names = (name for name in times if name.endswith(f" {kind}"))
    own = label(library, AS_IT_IS, kind)
    return min(times[name] for name in names if name == own or name.startswith(f"{library}, "))


def call_times(call: Call, times: int) -> None:
    """Call several times in a row."""
    for _ in range(times):
        call()
