"""Exported programs without ops of this library, for other runtimes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.fx import Node, map_arg
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from equigeo._core.tensors import plain_tensors
from equigeo.ops.runtime.declare import reference_of


def decompose_ops(program: ExportedProgram) -> ExportedProgram:
    """Replace every op of this library in an exported program by PyTorch's own.

    For ``torch.onnx.export`` and compilers that do not know these ops. Each op becomes its
    reference implementation, unrolled over its paths: larger and slower, equal up to rounding.
    Weights remain parameters and dynamic axes dynamic; the given program does not change.

    Parameters
    ----------
    program : ExportedProgram
        From ``torch.export.export`` or :func:`equigeo.potentials.export_program`.

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
    learned = {name for name, value in module.state_dict().items() if value.is_floating_point()}
    constants: dict[Node, Any] = {}
    for node in module.graph.nodes:
        if _is_ours(node.target):
            node.target = _reference(node, constants)
        elif node.op == "get_attr" and node.target not in learned:
            constants[node] = functools.reduce(getattr, node.target.split("."), module)
        elif node.op == "call_function" and constants.keys() >= {*node.all_input_nodes} != set():
            with plain_tensors():  # such as a table on another device
                given = map_arg((node.args, node.kwargs), constants.__getitem__)
                constants[node] = node.target(*given[0], **given[1])
    module.recompile()
    inputs = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    examples: Any = program.example_inputs
    sizes: Any = ShapesCollection()
    leaves = _pytree.tree_leaves(examples)
    for leaf, name in zip(leaves, program.graph_signature.user_inputs, strict=True):
        if isinstance(leaf, Tensor):
            axes = enumerate(inputs[name].shape)
            sizes[leaf] = {k: Dim.DYNAMIC for k, size in axes if not isinstance(size, int)}
    # opt_einsum compares sizes, which would fix them.
    with torch.backends.opt_einsum.flags(enabled=False):
        found = torch.export.export(module, *examples, dynamic_shapes=sizes)
    if any(not node.users for node in found.graph.find_nodes(op="placeholder")):
        # torch.onnx.export cannot evaluate guards on inputs that a program does not read.
        found._guards_code = []
    return found


def _with_own_names(program: ExportedProgram) -> Any:
    """Return the module of a program, with constants under names that no new ones will have."""
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
    """Return whether a function is an op of this library."""
    return getattr(target, "namespace", None) == "equigeo"


def _reference(node: Node, constants: dict[Node, Any]) -> Callable[..., Any]:
    """Return the reference of an op with its table values, which a trace does not have."""
    op: Any = node.target
    places = enumerate(node.args)
    tables = {k: constants[x] for k, x in places if isinstance(x, Node) and x in constants}

    def call(*given: Any) -> Any:
        with _References():
            return op(*(tables.get(place, value) for place, value in enumerate(given)))

    return call


class _References(TorchFunctionMode):
    """Trace references instead of ops, and nothing that depends on tables alone."""

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
            # Copied, as PyTorch cannot unlift a constant that a program has twice.
            args, kwargs = _pytree.tree_map_only(
                Tensor, lambda x: x if _is_traced(x) else x.clone(), (args, kwargs)
            )
        return func(*args, **kwargs)


def _is_traced(value: Any) -> bool:
    """Return whether a trace leaves the value of an argument open."""
    return isinstance(value, (torch.SymInt, FakeTensor)) or (
        isinstance(value, Tensor) and value.requires_grad
    )
