"""Exported programs without ops of this library, for runtimes that know those of PyTorch alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule, Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from equigeo.ops.runtime.declare import reference_of
from equigeo.ops.runtime.torch_internals import plain_tensors


def decompose_ops(program: ExportedProgram) -> ExportedProgram:
    """Replace every op of this library in an exported program by PyTorch's own.

    Each op becomes its reference implementation, unrolled over its paths, so that the program is
    larger and slower than with the op. Weights stay parameters, and axes that were dynamic stay so.

    Parameters
    ----------
    program : ExportedProgram
        As of ``torch.export.export`` or :func:`equigeo.potentials.export_program`; not changed.

    Returns
    -------
    ExportedProgram
        With the same inputs and outputs, equal up to rounding, for ``torch.onnx.export`` and other
        compilers. It needs no ``import equigeo``.

    Raises
    ------
    TypeError
        If ``program`` is none.

    Examples
    --------
    >>> from equigeo.nn import Linear
    >>> program = torch.export.export(Linear("2x0e+1x1o", "1x0e+1x1o"), (torch.ones(4, 5),))
    >>> "equigeo" in str(program.graph), "equigeo" in str(decompose_ops(program).graph)
    (True, False)
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            f"program must be an ExportedProgram, got {type(program).__name__}: "
            "torch.export.export(module, args) returns one"
        )
    module = _with_own_names(program)
    for node in module.graph.nodes:
        if _is_ours(node.target):
            node.target = _reference(node, module)
    module.recompile()
    inputs = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    axes = [_open_axes(inputs[name]) for name in program.graph_signature.user_inputs]
    args, kwargs = _pytree.tree_unflatten(axes, program.call_spec.in_spec)
    given: Any = program.example_inputs
    # opt_einsum compares sizes, which would fix them.
    with torch.backends.opt_einsum.flags(enabled=False):
        return torch.export.export(module, *given, dynamic_shapes=(*args, *kwargs.values()))


def _with_own_names(program: ExportedProgram) -> Any:
    """Module of a program, whose constants have names that no new ones will have."""
    module: Any = program.module(check_guards=False)
    names: dict[Any, str] = {}
    for name in program.constants:
        path, _, attribute = name.rpartition(".")
        owner = module.get_submodule(path)
        if attribute in owner.__dict__:
            names[name] = f"constant{len(names)}"
            module.register_buffer(names[name], owner.__dict__.pop(attribute), persistent=False)
    for node in module.graph.find_nodes(op="get_attr"):
        node.target = names.get(node.target, node.target)
    return module


def _is_ours(target: Any) -> bool:
    """Tell whether a function is an op of this library."""
    return getattr(target, "namespace", None) == "equigeo"


def _open_axes(value: Any) -> dict[int, Any] | None:
    """Axes of an input whose lengths a program leaves open."""
    if not isinstance(value, Tensor):
        return None
    return {axis: Dim.DYNAMIC for axis, size in enumerate(value.shape) if not isinstance(size, int)}


def _reference(node: Node, module: GraphModule) -> Callable[..., Any]:
    """Reference of the op of a node, with the values of its tables, which a trace does not have."""
    op: Any = node.target
    saved, tables = module.state_dict(), {}
    for place, given in enumerate(node.args):
        if isinstance(given, Node) and given.op == "get_attr":
            value = _attribute(module, given.target)
            if given.target not in saved or not value.is_floating_point():
                tables[place] = value

    def call(*given: Any) -> Any:
        with _References():
            return op(*(tables.get(place, value) for place, value in enumerate(given)))

    return call


def _attribute(module: Any, name: Any) -> Any:
    """Attribute of a module or its submodules."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


class _References(TorchFunctionMode):
    """Trace references in the place of ops, and nothing that depends on tables alone."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a reference, a function outside of the trace, or a function."""
        kwargs = kwargs or {}
        if _is_ours(func):
            with self:
                return reference_of(func._opname)(*args, **kwargs)
        traced = any(map(_is_traced, _pytree.tree_leaves((args, kwargs))))
        with plain_tensors():
            if not traced:
                return func(*args, **kwargs)
            # PyTorch cannot unlift a constant that a program has twice.
            args, kwargs = _pytree.tree_map(_copied, (args, kwargs))
        return func(*args, **kwargs)


def _copied(value: Any) -> Any:
    """Copy of a constant, and anything else as it is."""
    return value.clone() if isinstance(value, Tensor) and not _is_traced(value) else value


def _is_traced(value: Any) -> bool:
    """Tell whether a trace leaves the value of an argument open."""
    return isinstance(value, (torch.SymInt, FakeTensor)) or (
        isinstance(value, Tensor) and value.requires_grad
    )
