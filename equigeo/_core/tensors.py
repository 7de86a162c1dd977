"""Tensors under autocast, transforms, tracing and half precision, and modules with hooks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch._compile import _disable_dynamo
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

HALF = frozenset((torch.bfloat16, torch.float16))
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def computed_in(dtype: torch.dtype) -> torch.dtype:
    """Return the compute dtype of features: float32 for half precision, else unchanged."""
    return torch.float32 if dtype in HALF else dtype


def in_float32(
    function: Callable[..., Any],
    inputs: Sequence[Any],  # the first is a half-precision tensor
) -> Any:
    """Call a function on half-precision inputs cast to float32 and round its results once."""
    dtype = inputs[0].dtype

    def rounded(x: Tensor) -> Tensor:
        return x.to(dtype) if x.dtype == torch.float32 else x

    # Autograd passes through the casts: gradients have the dtypes of the inputs and are rounded
    # once.
    results = function(*(_wide(x) for x in inputs))
    return tuple(map(rounded, results)) if isinstance(results, tuple) else rounded(results)


def rounded_once(
    function: Callable[..., Any],
    inputs: Sequence[Any],  # the first is a tensor
) -> Any:
    """Call a function in float32 if all its floating inputs have one half-precision dtype."""
    given = {x.dtype for x in inputs if isinstance(x, Tensor) and x.is_floating_point()}
    is_half = len(given) == 1 and given <= HALF
    return in_float32(function, inputs) if is_half else function(*inputs)


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, Tensor) and x.dtype in HALF else x


below_autograd = torch._C._AutoDispatchBelowAutograd
"""Context in which a call of an op skips the dispatcher's autograd keys.

Ops whose gradient is not wanted, or is an ``autograd.Function`` of ours, save the time that the
dispatcher takes to find that out, which is more than the kernel of a small problem takes. C++ has
it as ``at::AutoDispatchBelowAutograd``, a public guard. Without it: ``contextlib.nullcontext``,
with :func:`torch.no_grad` inside of an ``autograd.Function``; slower, with the same results.
"""


def body_of(overload: OpOverload) -> Callable[..., Any]:
    """Return what an overload of an op calls, which saves a call in Python."""
    # Without it: the overload.
    body: Callable[..., Any] = overload._op
    return body


transforms_active = torch._C._are_functorch_transforms_active
"""Return whether a transform of :mod:`torch.func` is active, in constant time.

Calls under a transform must go through the dispatcher. Substitutes:
``torch._C._functorch.peek_interpreter_stack() is not None``, or always True, which is correct
but slow.
"""


autocast_active = torch._C._is_any_autocast_enabled
"""Return whether autocast is enabled for a device, in constant time.

Layers call this in every forward pass. Substitute:
``torch.is_autocast_enabled`` of the device of each tensor.
"""


check_in_program = torch._assert_async
"""Raise where a tensor of one bool is False, now or whenever a recorded program runs.

A check that Python makes is not part of the program. ``torch._check`` is public, and takes what is
known while a program is recorded. Without it: give NaN where the bool is False.
"""


any_global_hook: Callable[[], object] = _has_any_global_hook
"""Return whether hooks of all modules are registered, as a value that is true or false.

Code that reuses results of modules would call them less often than expected. Without it: keep no
results.
"""


def has_hooks(module: nn.Module) -> bool:
    """Return whether a module has hooks that a call runs."""
    return any(getattr(module, kind) for kind in HOOKS)


def has_constants(part: nn.Module) -> bool:
    """Return whether no attribute is a method of the instance, or a tensor."""
    return not any(callable(x) or isinstance(x, Tensor) for x in vars(part).values())


def runs_own_code(part: nn.Module, *types: type) -> bool:
    """Return whether a call runs the code of one of these types alone."""
    if torch.compiler.is_compiling() or (types and type(part) not in types):
        return False  # compilers do not trace what follows
    return not has_hooks(part) and not any_global_hook() and has_constants(part)


parameters_replaced = _reparametrize_module
"""Context in which a module has other tensors for some of its parameters, by their names.

``torch.func.functional_call`` is public, and calls hooks of the module a second time. Without it:
that.
"""


def register_structure(
    cls: type[Any],  # a dataclass
    name: str,  # in saved programs
    constants: Mapping[str, Callable[[Any], Any]],  # fields that are no tensors, with their types
) -> None:
    """Let PyTorch find the tensors in a value, as programs and DistributedDataParallel do."""
    # Programs accept values with the same constants and the same fields that are not None. Files of
    # tensors may contain such values.
    # ``torch.export.register_dataclass`` is public, imports the compiler and takes no constants.
    names = [field.name for field in fields(cls) if field.name not in constants]

    def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
        given = tuple(n for n in names if getattr(value, n) is not None)
        children = [getattr(value, n) for n in given]
        return children, (given, *(getattr(value, n) for n in constants))

    def flatten_with_keys(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
        children, context = flatten(value)
        return list(zip(map(_pytree.GetAttrKey, context[0]), children, strict=True)), context

    def unflatten(children: Iterable[Any], context: tuple[Any, ...]) -> Any:
        given, *others = context
        known = dict(zip((*given, *constants), (*children, *others), strict=True))
        return cls(**dict.fromkeys(names) | known)

    def dump(context: tuple[Any, ...]) -> list[Any]:
        return [x.value if isinstance(x, Enum) else x for x in context]

    def undump(context: list[Any]) -> tuple[Any, ...]:
        types = (tuple, *constants.values())
        return tuple(make(x) for make, x in zip(types, context, strict=True))

    torch.serialization.add_safe_globals([cls, *constants.values()])
    _pytree.register_pytree_node(
        cls, flatten, unflatten, serialized_type_name=name, to_dumpable_context=dump,
        from_dumpable_context=undump, flatten_with_keys_fn=flatten_with_keys,
    )  # fmt: skip


disable_compiler = _disable_dynamo
"""Let :func:`torch.compile` skip a function, and import the compiler when the function is called.

``torch.compiler.disable`` is public, and imports the compiler at once, which takes longer than this
package. Without it: ``torch.compiler.disable``.
"""


def record_program(
    function: Callable[..., Any],
    inputs: tuple[Tensor, ...],  # only dtypes, devices and equal sizes are read
) -> GraphModule:
    """Record a function, including its calls of autograd, with symbolic sizes."""
    # torch.export cannot record torch.autograd.grad, but exports the result of make_fx. Without
    # _allow_non_fake_inputs: make weights and tables inputs, and bind them to the recorded program.
    recorded = make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)
    return recorded(*inputs)


def compile_for_sizes(
    program: GraphModule,
    varying: Sequence[Sequence[int]],  # axes of each input, of length at least 2
) -> Callable[..., Any]:
    """Compile a recorded program at its first call, with dynamic sizes for the given axes."""
    compiled = torch.compile(program)
    marked = False

    def call(*inputs: Tensor) -> Any:
        nonlocal marked
        if not marked:
            for x, axes in zip(inputs, varying, strict=True):
                for axis in axes:
                    # Otherwise torch.compile guesses from later calls or makes all axes dynamic,
                    # which makes the code slower. Without mark_dynamic: let it guess.
                    torch._dynamo.mark_dynamic(x, axis)
            marked = True
        return compiled(*inputs)

    return call


def recording() -> bool:
    """Return whether a program is recorded, whose operations must not depend on values."""
    return torch.compiler.is_compiling() or get_proxy_mode() is not None


def values_readable(x: Tensor) -> bool:
    """Return whether tensor values can be read: not while tracing, in a vmap batch or on meta."""
    return not (recording() or x.is_meta or in_batch(x))


def is_eager(x: Tensor) -> bool:
    """Return whether a plain CPU tensor is computed with at once, outside of all transforms."""
    if transforms_active() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return False
    return type(x) is Tensor and x.device.type == "cpu" and values_readable(x)


def in_batch(x: Tensor) -> bool:
    """Return whether a tensor is a batch of torch.vmap, False under torch.compile."""
    # It may lie below other transforms. Without this: catch the error where a value is read.
    while not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False


def without_transforms(
    x: Tensor,  # a tensor with readable values
) -> Tensor:
    """Return the detached tensor below torch.func transforms, which has a data pointer."""
    # Call this under plain_tensors. Without it: reject tensors of transforms.
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x.detach()


@contextmanager
def plain_tensors() -> Iterator[None]:
    """Create plain CPU tensors inside of any device context, mode or transform."""
    # Modes and transforms change the results of every op, which a process-wide cache would then
    # keep. Without this: run in a separate thread, where none of them is active.
    with (
        torch.inference_mode(False),
        _disable_current_modes(),
        temporarily_clear_interpreter_stack(),
        torch.device("cpu"),
    ):
        yield


def lasting(
    x: Tensor,  # a tensor without transforms; while recording, only inference mode is left
) -> AbstractContextManager[Any]:
    """Return a context in which results of a plain tensor may be cached."""
    inside = values_readable(x) and transforms_active()
    return plain_tensors() if inside else torch.inference_mode(False)


def forward_mode_active() -> bool:
    """Return whether tensors may have tangents, which calls that bypass the dispatcher lose."""
    # Rules that compute tangents themselves disable the second flag. Without the counter: call
    # forward_ad.unpack_dual on every tensor.
    return forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()


rules_see_tangents = forward_ad._set_fwd_grad_enabled
"""Context in which a rule of forward mode is itself differentiated in forward mode, given True.

PyTorch turns that off inside of the ``jvp`` of an ``autograd.Function``, for all levels of
:mod:`torch.func` and not only its own, so that forward over forward is silently wrong. Without it:
raise where two levels are open.
"""


def recorder(
    function: type[torch.autograd.Function],  # a class without setup_context
) -> Callable[..., Any]:
    """Return the base ``apply`` of an autograd function, which skips checks for transforms."""
    # Only valid for tensors without transforms. Without it: use function.apply.
    record: Callable[..., Any] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    return record


def arrives_at(
    node: Any,  # one of ctx.next_functions
) -> bool:
    """Return whether the running backward pass continues to a graph node; True if unknown."""
    # ctx.needs_input_grad includes gradients that are not requested, such as those of parameters
    # when forces are computed. Without it: return True, which computes unused gradients.
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # a requested leaf, or no engine runs
        return True


def has_kernel(
    op: str,  # name without namespace
    key: str,  # "CPU" or "CUDA"
) -> bool:
    """Return whether an op has a body registered for a dispatch key itself, not by a fallback."""
    # Without it: search torch._C._dispatch_dump, or let libraries export the names of their ops.
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"equigeo::{op}", key))


F = TypeVar("F", bound=Callable[..., Any])


def computes_in_float32(function: F) -> F:
    """Decorate a function to run in float32 under autocast, casting half-precision inputs."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not autocast_active():
            return function(*args, **kwargs)
        tensors = (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
        # The rule of torch.amp.custom_fwd(cast_inputs=torch.float32): geometry needs the digits,
        # and the inputs of one layer otherwise arrive in two dtypes.
        device = next((x.device.type for x in tensors), "cpu")
        if not autocasts(device):
            return function(*args, **kwargs)
        with without_autocast(device), wide_parameters(args[0]):
            named = {name: _single(x) for name, x in kwargs.items()}
            return function(*map(_single, args), **named)

    return cast(F, wrapped)


def autocasts(
    device: str,  # type, such as "cuda"
) -> bool:
    """Return whether autocast is enabled for a device type; False for types without autocast."""
    # PyTorch 2.11 cannot trace torch.amp.is_autocast_available.
    return autocast_active() and device != "meta" and torch.is_autocast_enabled(device)


def without_autocast(
    device: str,  # type, such as "cuda"
) -> AbstractContextManager[None]:
    """Return a context that disables autocast, without overhead if it is inactive."""
    return torch.autocast(device, enabled=False) if autocasts(device) else nullcontext()


def wide_parameters(owner: Any) -> AbstractContextManager[Any]:
    """Temporarily use float32 parameters in a module that is stored in half precision."""
    if not isinstance(owner, nn.Module):
        return nullcontext()
    wide = {name: p.float() for name, p in owner.named_parameters() if p.dtype in HALF}
    return parameters_replaced(owner, wide) if wide else nullcontext()


def _single(x: Any) -> Any:
    if isinstance(x, Tensor) and x.dtype in HALF:
        return x.float()
    # sources and targets of edges
    return tuple(map(_single, x)) if type(x) in (tuple, list) else x
