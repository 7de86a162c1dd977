"""Recorded programs as TorchScript, for engines in C++."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import nn
from torch.fx import GraphModule, Node

_INFIX: Final = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//"}


def script_program(
    program: GraphModule,  # calls of ATen and custom ops between tensors, from record_program
) -> torch.jit.ScriptModule:
    """Convert a recorded program to TorchScript, with weights and tables as buffers."""
    # Modules of one class with buffers of the same names would share their methods.
    holder, lines = type("Program", (nn.Module,), {})(), []
    # Sizes are computed by the script as well. Tensors are created on the device of the first
    # input.
    inputs = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    for node in program.graph.nodes:
        if node.op == "get_attr":
            holder.register_buffer(node.name, getattr(program, node.target).detach().clone())
            lines.append(f"{node.name} = self.{node.name}")
        elif node.op == "call_function":
            lines += _statement(node, inputs[0])
        elif node.op == "output":
            (results,) = node.args
            lines.append(f"return ({', '.join(_text(x, inputs[0]) for x in results)},)")
            types = ", ".join(["Tensor"] * len(results))
        elif node.op != "placeholder":
            raise ValueError(f"a program must call functions, got {node.format_node()}")
    arguments = "".join(f", {name}: Tensor" for name in inputs)
    body = "".join(f"    {line}\n" for line in lines)
    with warnings.catch_warnings():
        # PyTorch recommends formats that these engines do not read.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        scripted: torch.jit.ScriptModule = torch.jit.script(holder.eval())
    scripted.define(f"def forward(self{arguments}) -> Tuple[{types}]:\n{body}")
    return scripted


def _statement(node: Node, like: str) -> Iterator[str]:
    """Return one call, with results named like the node."""
    target: Any = node.target
    if target is operator.getitem:
        yield f"{node.name} = {node.args[0]}[{node.args[1]}]"
    elif target is torch.ops.aten.sym_size.int:
        yield f"{node.name} = {node.args[0]}.size({node.args[1]})"
    elif target is torch.ops.aten._assert_async.msg:
        # As an op without results it would be left out as dead code.
        yield f"assert bool({node.args[0]}), {node.args[1]!r}"
    elif target in _INFIX:
        left, right = (_text(x, like) for x in node.args)
        yield f"{node.name} = {left} {_INFIX[target]} {right}"
    elif isinstance(target, torch._ops.OpOverload):
        call = f"torch.ops.{target.namespace}.{target._opname}({', '.join(_given(node, like))})"
        yield f"{node.name} = {call}" if target._schema.returns else call
    else:
        raise ValueError(f"a program must call ops, got {node.format_node()}")


def _given(node: Node, like: str) -> Iterator[str]:
    """Return the arguments of an op; their types and names determine the overload."""
    target: Any = node.target
    for k, argument in enumerate(target._schema.arguments):
        if argument.kwarg_only and argument.name in node.kwargs:
            yield f"{argument.name}={_text(node.kwargs[argument.name], like)}"
        elif not argument.kwarg_only and k < len(node.args):
            text, kind = _text(node.args[k], like), str(argument.type)
            # An empty list has no type, and one of tensors is none of optional tensors.
            needs_type = text == "[]" or (kind == "List[Optional[Tensor]]" and text != "None")
            yield f"torch.jit.annotate({kind}, {text})" if needs_type else text
        elif not argument.kwarg_only and argument.name in node.kwargs:
            raise ValueError(f"a program must give {argument.name} of {target} by position")


def _text(value: Any, like: str) -> str:
    if isinstance(value, Node):
        return value.name
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(x, like) for x in value)}]"
    if isinstance(value, torch.device):
        return f"{like}.device"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return str(value) if isinstance(value, (torch.dtype, torch.layout)) else repr(value)
