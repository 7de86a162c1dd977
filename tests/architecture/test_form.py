"""The form of modules: how long they and their functions are, and what stands in them."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.architecture.source import Module, refuse, the_package, write_package

MAX_LINES = 600
MAX_MODULES = 20  # in a folder
MAX_FUNCTION = 80  # lines of code

Functions = (ast.FunctionDef, ast.AsyncFunctionDef)


def long_modules(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        lines = len(module.source.splitlines())
        if lines > MAX_LINES:
            yield f"{module.path}: the module has {lines} lines, more than {MAX_LINES}"


def without_docstring(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        if (ast.get_docstring(module.tree) or "").strip(" .") in {"", "TODO"}:
            yield f"{module.path}: the module has no docstring"


def full_folders(modules: dict[str, Module]) -> Iterator[str]:
    counts = Counter(m.path.parent for m in modules.values() if not m.is_package)
    for folder, count in counts.items():
        if count > MAX_MODULES:
            yield f"{folder}: {count} modules, more than {MAX_MODULES}"


def function_lengths(modules: dict[str, Module]) -> Iterator[tuple[int, str]]:
    """Lines of code of every function, docstring and signature left out."""
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, Functions):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                yield lines, f"{module.path}:{node.lineno}: {node.name}"


def long_functions(modules: dict[str, Module]) -> Iterator[str]:
    for lines, name in function_lengths(modules):
        if lines > MAX_FUNCTION:
            yield f"{name} has {lines} lines of code, more than {MAX_FUNCTION}"


def silenced_overrides(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        for number, line in enumerate(module.source.splitlines(), 1):
            if re.search(r"type: ?ignore\[[^]]*override", line):
                yield f"{module.path}:{number}: an override that breaks the promise of its base"


def positional_slices(modules: dict[str, Module]) -> Iterator[str]:
    """Ops whose arguments or gradients are counted instead of named."""
    for module in modules.values():
        if module.package != "ops" or "runtime" in module.path.parts:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) in COUNTED:
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)} counts arguments"
            elif isinstance(node, ast.Starred) and "(None,) *" in ast.unparse(node):
                yield f"{module.path}:{node.lineno}: {ast.unparse(node)} counts gradients"


COUNTED = {"inputs", "ctx.saved_tensors", "ctx.needs_input_grad"}

RULES = {
    "long modules": long_modules,
    "docstrings": without_docstring,
    "folder size": full_folders,
    "long functions": long_functions,
    "overrides": silenced_overrides,
    "positional slices": positional_slices,
}


def test_the_package_has_the_form():
    refuse(found for rule in RULES.values() for found in rule(the_package()))


BROKEN = {
    "long modules": '"""A part."""\n' + "x = 0\n" * 600,
    "docstrings": '"""TODO."""\n',
    "long functions": 'def f():\n    """Run."""\n    y = 1\n' + "    x = 0\n" * 80,
    "overrides": "def f(self): ...  # type: ignore[override, misc]\n",
    "positional slices": "def f(ctx, inputs):\n    ctx.save(*inputs[:12])\n",
}
FINE = (
    '"""A part."""\n'
    'def f(\n    ctx, inputs,\n):\n    """Run."""\n'
    + "    x = 0\n" * 78
    + "    ctx.save(inputs)  # type: ignore[misc]\n    return x[:12], None\n"
)


def test_broken_rules_are_reported(tmp_path):
    for rule, source in BROKEN.items():
        modules = write_package(tmp_path / rule, ops__part=source)
        (found,) = RULES[rule](modules)
        assert found.startswith("equigeo/ops/part.py:")
    modules = write_package(tmp_path, ops__part=FINE)
    assert not [found for rule in RULES.values() for found in rule(modules)]
    full = write_package(tmp_path / "full", **{f"part{k}": '"""A part."""\n' for k in range(21)})
    assert len([*full_folders(full)]) == 1
