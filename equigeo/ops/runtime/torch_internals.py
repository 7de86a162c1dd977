"""Everything private that this package asks of PyTorch, so that an upgrade has one file to check.

Each name says what it is for and what to do when PyTorch changes it; a test of the same name fails
where PyTorch has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._compile import _disable_dynamo
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

below_autograd = torch._C._AutoDispatchBelowAutograd
"""Context in which a call of an op skips the dispatcher's autograd keys.

Ops whose gradient is not wanted, or is an ``autograd.Function`` of ours, save the time that the
dispatcher takes to find that out, which is more than the kernel of a small problem takes. C++ has
it as ``at::AutoDispatchBelowAutograd``, a public guard. Without it: ``contextlib.nullcontext``,
with :func:`torch.no_grad` inside of an ``autograd.Function``; slower, with the same results.
"""

transforms_active = torch._C._are_functorch_transforms_active
"""Tell whether a transform of :mod:`torch.func` is at work, in constant time.

Its tensors must be seen by the dispatcher, so no call may go round that. Without it:
``torch._C._functorch.peek_interpreter_stack() is not None``; or answer True always, which is
correct and slow.
"""


autocast_active = torch._C._is_any_autocast_enabled
"""Tell whether autocast is enabled for a device, in constant time.

Layers ask at every call. Without it: ``torch.is_autocast_enabled`` of the device of each tensor.
"""


check_in_program = torch._assert_async
"""Raise where a tensor of one bool is False, now or whenever a recorded program runs.

A check that Python makes is not part of the program. ``torch._check`` is public, and takes what is
known while a program is recorded. Without it: give NaN where the bool is False.
"""


parameters_replaced = _reparametrize_module
"""Context in which a module has other tensors for some of its parameters, by their names.

``torch.func.functional_call`` is public, and calls hooks of the module a second time. Without it:
that.
"""


register_structure = _pytree.register_dataclass
"""Let PyTorch find the tensors in a value: DistributedDataParallel and programs look for them.

``torch.export.register_dataclass`` is public, and imports the compiler. Without it: that.
"""


disable_compiler = _disable_dynamo
"""Let :func:`torch.compile` skip a function, and import the compiler when the function is called.

``torch.compiler.disable`` is public, and imports the compiler at once, which takes longer than this
package. Without it: ``torch.compiler.disable``.
"""


def record_program(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> GraphModule:
    """Record what a function does with tensors of any size, gradients that it takes included.

    ``torch.export`` cannot record ``torch.autograd.grad``, and exports what ``make_fx`` made of it.
    Without its argument for tensors that are no inputs: make weights and tables inputs, and bind
    them to what was recorded.

    Parameters
    ----------
    function : callable
        Of tensors. Weights and tables that it holds become constants.
    inputs : tuple of Tensor
        Which are not read, but for their dtypes and devices, and sizes that are equal.

    Returns
    -------
    GraphModule
        For inputs of other sizes, where the function did not ask for these as numbers.
    """
    recorded = make_fx(function, tracing_mode="symbolic", _allow_non_fake_inputs=True)
    program: GraphModule = recorded(*inputs)
    return program


def compile_for_sizes(program: GraphModule, varying: Sequence[Sequence[int]]) -> Callable[..., Any]:
    """Compile a recorded program at its first call, for any length of some axes of its inputs.

    ``torch.compile`` would guess the axes from later calls, or take all axes for such, channels
    too, for which it then makes slower code. Without ``mark_dynamic``: let it guess.

    Parameters
    ----------
    program : GraphModule
        As of :func:`record_program`.
    varying : sequence of sequence of int
        Axes of each input; their lengths are never 0 or 1.

    Returns
    -------
    callable
        Takes what the program takes.
    """
    compiled = torch.compile(program)
    marked = False

    def call(*inputs: Tensor) -> Any:
        nonlocal marked
        if not marked:
            for x, axes in zip(inputs, varying, strict=True):
                for axis in axes:
                    torch._dynamo.mark_dynamic(x, axis)
            marked = True
        return compiled(*inputs)

    return call


def values_readable(x: Tensor) -> bool:
    """Tell whether the values of a tensor can be looked at, as checks of indices do.

    ``torch.compile`` and ``torch.export`` say so themselves, ``make_fx`` by its mode, and a batch
    of ``torch.vmap`` lies in the tensor, maybe below other transforms. Without that: catch the
    error where a value is read.

    Parameters
    ----------
    x : Tensor
        A tensor.

    Returns
    -------
    bool
        False while a program is recorded, for a batch, and for a tensor that has no values.
    """
    if torch.compiler.is_compiling() or x.is_meta or get_proxy_mode() is not None:
        return False
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            return False
        x = torch._C._functorch.get_unwrapped(x)
    return True


def without_transforms(x: Tensor) -> Tensor:
    """Give the values of a tensor below transforms of :mod:`torch.func`, without gradients.

    A library reads them by their address, which the tensor of a transform does not have. Call it
    under :func:`plain_tensors`. Without it: refuse tensors of transforms.

    Parameters
    ----------
    x : Tensor
        A tensor whose values can be read.

    Returns
    -------
    Tensor
        The same values.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x.detach()


@contextmanager
def plain_tensors() -> Iterator[None]:
    """Make plain tensors on the CPU, whatever device, mode or transform is at work outside.

    Inference mode, fake tensors, recorded programs and :mod:`torch.func` change what every op
    gives, and what is kept for a process would be of the first that asked. Without it: work in a
    thread of its own, where none of them is.

    Yields
    ------
    None
        While none of these is at work, and the default device is the CPU.
    """
    with (
        torch.inference_mode(False),
        _disable_current_modes(),
        temporarily_clear_interpreter_stack(),
        torch.device("cpu"),
    ):
        yield


def lasting(x: Tensor) -> AbstractContextManager[Any]:
    """Context in which what is made of a plain tensor may be kept, whatever is at work outside.

    Parameters
    ----------
    x : Tensor
        A tensor of no transform. Inside of a program that is recorded, only inference mode is left.
    """
    inside = values_readable(x) and transforms_active()
    return plain_tensors() if inside else torch.inference_mode(False)


def forward_mode_active() -> bool:
    """Tell whether tensors may carry tangents of forward-mode differentiation.

    Ops that go round the dispatcher ask, because they would lose them. Without the counter: ask
    ``forward_ad.unpack_dual`` of every tensor.

    Returns
    -------
    bool
        True inside of ``torch.autograd.forward_ad.dual_level`` and ``torch.func.jvp``, but for the
        rules that compute tangents themselves.
    """
    return forward_ad._current_level >= 0 and torch._C._is_fwd_grad_enabled()


rules_see_tangents = forward_ad._set_fwd_grad_enabled
"""Context in which a rule of forward mode is itself differentiated in forward mode, given True.

PyTorch turns that off inside of the ``jvp`` of an ``autograd.Function``, for all levels of
:mod:`torch.func` and not only its own, so that forward over forward is silently wrong. Without it:
raise where two levels are open.
"""


def recorder(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """Give what records a call of an autograd function, where no transform is at work.

    ``Function.apply`` asks for transforms, for tensors that outlived one, and for a
    ``setup_context``: with fifteen arguments that takes longer than to record the call. Without it:
    ``function.apply``.

    Parameters
    ----------
    function : type
        Without ``setup_context``.

    Returns
    -------
    callable
        ``function.apply``, for tensors of no transform.
    """
    record: Callable[..., Any] = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    return record


def arrives_at(node: Any) -> bool:
    """Tell whether the backward pass that runs goes on to a node of the graph.

    ``ctx.needs_input_grad`` says what could have a gradient, not what is asked for: forces are
    gradients by positions alone, of models whose parameters require gradients too. Without it:
    answer True, which computes what nobody reads.

    Parameters
    ----------
    node : torch.autograd.graph.Node
        One of ``ctx.next_functions``.

    Returns
    -------
    bool
        True also where PyTorch does not know, as in passes that it traces.
    """
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # a leaf that is asked for, or no engine runs
        return True


def has_kernel(op: str, key: str) -> bool:
    """Tell whether a body of an op is registered for a dispatch key itself, not by a fallback.

    The dispatcher finds bodies by itself; this is for callers that have another way to a result
    where an op is not compiled. Without it: look for the key in the lines of
    ``torch._C._dispatch_dump``, or let libraries export the names of their ops.

    Parameters
    ----------
    op : str
        Name without the namespace.
    key : str
        ``"CPU"`` or ``"CUDA"``.

    Returns
    -------
    bool
        Whether a library has registered one.
    """
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(f"equigeo::{op}", key))
