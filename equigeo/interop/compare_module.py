"""Comparison of a module, and of the energy of a model, with their originals."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from equigeo.interop.accelerated.base import BODY, Accelerated, last_line
from equigeo.interop.certificate import ORDERS, Arrange, Check, derivatives, largest_error
from equigeo.testing import tolerance

FEW = 7
MANY = 4099  # odd, beyond 2^12 rows, and with 9 numbers per row beyond what 16 bits can count
MOST_NUMBERS = 2**23  # in the widest argument, 64 MiB in float64: above that there are fewer rows
REPETITIONS = 16

Results = dict[str, list[Tensor]]


class Form(NamedTuple):
    """A form of inputs: number of rows, memory layout and scale."""

    name: str
    rows: int
    arrange: Arrange
    scale: float = 1.0


def compare_module(
    module: Accelerated,
    *,
    compiled: bool,  # whether to compare it under torch.compile too
) -> tuple[Check, ...]:
    """Compare a module with its original in all forms of inputs; stop at the first failure."""
    if any(tensor.is_meta for tensor in chain(module.parameters(), module.buffers())):
        note = "nothing is computed on the meta device"
        return (Check("values", "all", None, 0.0, note),)
    checks: list[Check] = []
    with _differentiable(module) as parameters, module.unchanged():
        comparison = ModuleComparison(module, parameters)
        for found in comparison.all(compiled):
            checks += found
            if not all(check.passes for check in found):
                break
    return tuple(checks)


class ModuleComparison:
    """Comparisons of one module with its original."""

    def __init__(
        self,
        module: Accelerated,
        parameters: Sequence[Tensor],  # differentiated besides the arguments
    ) -> None:
        self.module = module
        self.parameters = parameters
        own = (value for name, value in module.named_buffers() if BODY not in name.split("."))
        floating = (value.dtype for value in chain(parameters, own) if value.is_floating_point())
        self.dtype = next(floating, torch.float64)  # harmonics have no tensors, and take any

    def all(self, compiled: bool) -> Iterator[list[Check]]:
        """Yield the checks of one comparison after another."""
        for form in self._forms():
            yield self._in_form(form)
        yield self._repeated()
        yield self._after_casts()
        if compiled:
            yield self._compiled()

    def _forms(self) -> Iterator[Form]:
        yield Form("plain", FEW, plain)
        for arrange in (strided, transposed, expanded):
            yield Form(arrange.__name__, FEW, arrange)
        yield Form("empty", 0, plain)
        widest = max(value.numel() for value in self._example(1))
        yield Form("many", min(MANY, MOST_NUMBERS // max(widest, 1)), plain)
        for scale in self.module.lengths:
            yield Form(f"{scale:.0e}-scaled" if scale else "zero", FEW, plain, scale)

    def _in_form(self, form: Form) -> list[Check]:
        arguments = [
            value * form.scale if value.is_floating_point() else value
            for value in self._example(form.rows)
        ]

        def evaluate(call: Callable[..., Tensor]) -> Results:
            return derivatives(call, arguments, self.parameters, form.arrange)

        limit = self._tolerance(arguments)
        if failure := self._failure(form, arguments, limit):
            return failure
        return _compare(
            form.name,
            limit,
            lambda: self._with_state(lambda: evaluate(self.module.original)),
            lambda: self._with_state(lambda: evaluate(self.module.replacement)),
        )

    def _failure(self, form: Form, arguments: Sequence[Tensor], limit: float) -> list[Check]:
        """Compare errors and state changes where the original fails."""
        given = [form.arrange(value) for value in arguments]

        def attempt(call: Callable[..., Tensor]) -> tuple[list[str], Results]:
            messages: list[str] = []

            def tried() -> Results:
                try:
                    if call(*given).numel() == 0:
                        messages.append("")
                except Exception as error:  # any error of another library
                    messages.append(last_line(error))
                return {}

            with torch.no_grad():
                state = self._with_state(tried)
            return messages, state

        before, want = attempt(self.module.original)
        # An empty result is not wrong: originals that cannot compute it are not followed.
        if not any(before):
            return []
        after, got = attempt(self.module.replacement)
        note = f"the original module fails: {before[0]}"
        error = None if after else float("inf")
        checks = [Check("values", form.name, error, limit, note if after else f"none where {note}")]
        return checks + _compare(form.name, limit, lambda: want, lambda: got)

    def _with_state(self, evaluate: Callable[[], Results]) -> Results:
        """Add the state after an evaluation to its results, and restore it."""
        named = chain(self.module.named_parameters(), self.module.named_buffers())
        own = (value for name, value in named if BODY not in name.split("."))
        found = [value for value in own if not value.is_inference()]
        kept = [value.detach().clone() for value in found]
        try:
            results = evaluate()
            return {**results, "state": [value.detach().clone() for value in found]}
        finally:
            with torch.no_grad():
                for value, before in zip(found, kept, strict=True):
                    if not torch.equal(value, before):
                        value.copy_(before)

    def _repeated(self) -> list[Check]:
        """Call repeatedly with equal values, and with other values in between."""
        arguments = self._example(FEW)
        # The graph stays one: ends of edges are reversed together.
        others = [value.flip(-1) for value in arguments]

        def evaluate(call: Callable[..., Tensor], times: int) -> Results:
            values = [call(*arguments), call(*others)]
            return {"values": [*values, *(call(*arguments) for _ in range(times))]}

        def once() -> Results:
            first, other = evaluate(self.module.original, 0)["values"]
            return {"values": [first, other, *[first] * REPETITIONS]}

        limit = self._tolerance(arguments)
        return _compare(
            "repeated", limit, once, lambda: evaluate(self.module.replacement, REPETITIONS)
        )

    def _after_casts(self) -> list[Check]:
        """Compare a copy cast from one dtype with tables made for the other dtype."""
        arguments = self._example(FEW)
        try:
            other = copy.deepcopy(self.module)
            other.replacement(*arguments)
        except Exception as error:  # modules of e3nn 0.4 without paths cannot be copied
            return [Check("values", "cast", None, 0.0, f"it cannot be copied: {last_line(error)}")]
        checks = []
        for before, after in ((torch.float32, torch.float64), (torch.float64, torch.float32)):
            _renew(other.to(before))
            other.replacement(*_cast(arguments, before))
            values, carried = _cast(arguments, after), getattr(other.to(after), BODY)
            checks += _compare(
                f"cast to {str(after).removeprefix('torch.')}",
                tolerance(after, _terms(values))["rtol"],
                lambda values=values: _with_body(other, _renew(other), values),  # type: ignore[misc]
                lambda values=values, body=carried: _with_body(other, body, values),  # type: ignore[misc]
            )
        return checks

    def _compiled(self) -> list[Check]:
        arguments = self._example(FEW)

        def call(*values: Tensor) -> Tensor:
            return self.module.replacement(*values)

        # A code object of its own: torch.compile counts recompilations by code object, and beyond
        # a limit runs without being compiled.
        call.__code__ = call.__code__.replace()
        orders = ORDERS[:2]  # what is compiled is differentiated once
        limit = self._tolerance(arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tracing
            try:
                program = torch.compile(call, backend="aot_eager")
                got = derivatives(program, arguments, self.parameters, plain, orders)
            except Exception as error:
                note = f"it is not compiled: {last_line(error)}"
                return [Check("values", "compiled", None, limit, note)]

        def want() -> Results:
            return derivatives(self.module.original, arguments, self.parameters, plain, orders)

        return _compare("compiled", limit, want, lambda: got)

    def _example(self, rows: int) -> list[Tensor]:
        return _cast(self.module.example(rows), self.dtype)

    def _tolerance(self, arguments: Sequence[Any]) -> float:
        return tolerance(table_precision(self.module, self.dtype), _terms(arguments))["rtol"]


def plain(value: Tensor) -> Tensor:
    """Keep the memory layout."""
    return value


def strided(value: Tensor) -> Tensor:
    """Store values as every second column of wider rows, with NaN or zeros in between."""
    between = torch.full_like(value, torch.nan) if value.is_floating_point() else value * 0
    return torch.stack([value, between], -1).flatten(-2)[..., ::2]


def transposed(value: Tensor) -> Tensor:
    """Store values column by column."""
    return value.mT.contiguous().mT if value.ndim > 1 else value


def expanded(value: Tensor) -> Tensor:
    """Store the first row only and expand it."""
    rows = value.is_floating_point() and value.ndim > 1 and len(value) > 0
    return value[:1].expand_as(value) if rows else value


def table_precision(
    module: nn.Module,
    dtype: torch.dtype = torch.float64,  # dtype of the features
) -> torch.dtype:
    """Return float32 if a float64 module has tables rounded to it, else ``dtype``."""
    own = (value for name, value in module.named_buffers() if BODY not in name.split("."))
    for table in own if dtype == torch.float64 else ():
        fractions = table.is_floating_point() and bool((table != table.round()).any())
        if fractions and table.double().equal(table.float().double()):
            return torch.float32
    return dtype


def _compare(
    inputs: str, limit: float, before: Callable[[], Results], after: Callable[[], Results]
) -> list[Check]:
    """Return one check per kind of result."""
    try:
        want = before()
    except Exception as error:  # any error of another library
        note = f"the original module fails: {last_line(error)}"
        return [Check("values", inputs, None, limit, note)]
    try:
        got = after()
    except Exception as error:
        return [Check("values", inputs, float("inf"), limit, f"fails: {last_line(error)}")]
    checks = []
    for what, values in want.items():
        if all(value.isfinite().all() for value in values):
            checks.append(Check(what, inputs, largest_error(got[what], values), limit))
        else:
            checks.append(Check(what, inputs, None, limit, "was not finite before"))
    return checks


def _renew(module: Any) -> nn.Module:
    """Rebuild the body from the current state."""
    tensor = next(chain(module.parameters(), module.buffers()), torch.empty(0))
    body: nn.Module = module.body_of(module).to(tensor.device)
    setattr(module, BODY, body)
    return body


def _with_body(module: Any, body: nn.Module, values: Sequence[Tensor]) -> Results:
    setattr(module, BODY, body)
    return {"values": [module.replacement(*values)]}


def _cast(values: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [value.to(dtype) if value.is_floating_point() else value for value in values]


def _terms(arguments: Sequence[Any]) -> int:
    """Return the length of the longest sum: over a row, or over rows for weight gradients."""
    return max(64, *(length for value in arguments for length in value.shape))


@contextmanager
def _differentiable(module: nn.Module) -> Iterator[Sequence[Tensor]]:
    """Enable gradients of all floating parameters, in any mode."""
    parameters = [p for p in module.parameters() if p.is_floating_point() and not p.is_inference()]
    flags = [p.requires_grad for p in parameters]
    device = next((p.device.type for p in parameters), "cpu")
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device, enabled=False):
        try:
            for parameter in parameters:
                parameter.requires_grad_(True)
            yield parameters
        finally:
            for parameter, flag in zip(parameters, flags, strict=True):
                parameter.requires_grad_(flag)


Energy = Callable[[Tensor, Tensor], Tensor]
Evidence = dict[str, Results | str]  # results by form of inputs, or the error message

# A model is a chain of tens of modules, each within its tolerance, and forces are differences.
CONDITION = 100.0


@dataclass(frozen=True)
class ModelEnergy:
    """A model as an energy function, with a system to evaluate it on."""

    energy: Energy  # of positions (atoms, 3) and index (atoms,): the atom in each row
    positions: Tensor  # (atoms, 3)
    parameters: Sequence[Tensor]  # of the model; differentiated if they require gradients

    def __post_init__(self) -> None:
        positions = self.positions
        if not positions.is_floating_point():
            raise TypeError(f"positions must be floating, got {positions.dtype}")
        if positions.ndim != 2 or positions.shape[1] != 3 or not len(positions):
            raise ValueError(f"positions must be (atoms, 3), got {tuple(positions.shape)}")

    def gather(self) -> Evidence:
        """Evaluate energies, gradients and second gradients in three forms of inputs."""
        x, found = self.positions.detach(), Evidence()
        forms = {"plain": (x, plain), "strided": (x, strided), "one-atom": (x[:1], plain)}
        with torch.inference_mode(False), torch.enable_grad():
            for name, (positions, arrange) in forms.items():
                try:
                    found[name] = self._derivatives(positions, arrange)
                except Exception as error:  # any error of the caller's function
                    found[name] = last_line(error)
        return found

    def compare(
        self,
        before: Evidence,  # from gather
        after: Evidence,
        precision: torch.dtype,  # precision of the tables of both
    ) -> tuple[Check, ...]:
        """Compare the results of a model with earlier ones."""
        coarse = max((precision, self.positions.dtype), key=lambda dtype: torch.finfo(dtype).eps)
        limit = tolerance(coarse, max(64, self.positions.numel()), CONDITION)["rtol"]
        checks: list[Check] = []
        for inputs, want in before.items():
            got = after[inputs]
            if isinstance(want, str):
                checks.append(Check("energy", inputs, None, limit, f"failed before: {want}"))
            elif isinstance(got, str):
                checks.append(Check("energy", inputs, math.inf, limit, f"fails: {got}"))
            else:
                checks += [
                    Check(f"energy, {what}", inputs, largest_error(got[what], values), limit)
                    for what, values in want.items()
                ]
        return tuple(checks)

    def _derivatives(self, x: Tensor, arrange: Arrange) -> Results:
        parameters = [p for p in self.parameters if p.requires_grad and p.is_floating_point()]
        index = torch.arange(len(x), device=x.device)

        def energy(moved: Tensor) -> Tensor:
            return self.energy(moved, index).reshape(1)

        return derivatives(energy, [x], parameters, arrange)
