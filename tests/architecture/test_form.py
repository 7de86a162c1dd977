"""The form of modules: how long they and their functions are, and what stands in them."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles

import pytest

from tests.architecture.source import Module, When, import_graph, read_modules, refuse, the_package

MAX_LINES = 400
MAX_MODULES = 20  # in a folder
SMALL = 60  # lines: a smaller module with one importer says why it stands alone
REASON = "On its own because"
MAX_FUNCTION = 45  # lines of code
MAX_P90 = 20

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


def small_modules(modules: dict[str, Module]) -> Iterator[str]:
    """Small modules with one importer and no word why they are not part of it."""
    graph = import_graph(modules, When)
    importers = Counter(target for targets in graph.values() for target in targets)
    for name, module in modules.items():
        lines = len(module.source.splitlines())
        if module.is_package or lines >= SMALL or importers[name] != 1:
            continue
        if REASON not in " ".join((ast.get_docstring(module.tree) or "").split()):
            (only,) = (source for source, targets in graph.items() if name in targets)
            yield f"{module.path}: {lines} lines, and only {only} imports it: merge, or say why not"


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
    "small modules": small_modules,
    "long functions": long_functions,
    "overrides": silenced_overrides,
    "positional slices": positional_slices,
}


@pytest.mark.parametrize("rule", RULES)
def test_the_package_has_the_form(rule):
    refuse([*RULES[rule](the_package())])


def test_nine_of_ten_functions_are_short():
    lengths = [lines for lines, _ in function_lengths(the_package())]
    assert len(lengths) > 1000
    assert quantiles(lengths, n=10)[-1] <= MAX_P90


BODY = "    x = 0\n" * 44
BROKEN = {
    "long modules": '"""A part."""\n' + "x = 0\n" * 400,
    "docstrings": "",
    "small modules": '"""A part."""\n',
    "long functions": f'def f():\n    """Run."""\n    y = 1\n{BODY}    return y\n',
    "overrides": "def f(self): ...  # type: ignore[override, misc]\n",
    "positional slices": "def f(ctx, inputs):\n    ctx.save(*inputs[:12])\n",
}
FINE = {
    "long modules": '"""A part."""\n' + "x = 0\n" * 399,
    "docstrings": '"""A part."""\n',
    "small modules": '"""A part.\n\nOn its own\nbecause it is a subject.\n"""\n',
    "long functions": f'def f(\n    z,\n):\n    """Run."""\n{BODY}    return z\n',
    "overrides": "def f(self): ...  # type: ignore[misc]\n",
    "positional slices": "def f(ctx, inputs):\n    ctx.save(inputs)\n    return x[:12], None\n",
}


def write(tmp_path: Path, source: str) -> dict[str, Module]:
    """A package with one op, which one other module imports."""
    folder = tmp_path / "equigeo" / "ops"
    folder.mkdir(parents=True)
    (folder / "part.py").write_text(source)
    (folder / "user.py").write_text(
        '"""A user."""\nfrom equigeo.ops.part import f\n' + "y = 1\n" * 60
    )
    return read_modules(tmp_path)


@pytest.mark.parametrize(("rule", "source"), BROKEN.items())
def test_a_broken_rule_is_reported(tmp_path, rule, source):
    (found,) = RULES[rule](write(tmp_path, source))
    assert found.startswith("equigeo/ops/part.py:")


@pytest.mark.parametrize(("rule", "source"), FINE.items())
def test_what_keeps_a_rule_is_not_reported(tmp_path, rule, source):
    assert not [*RULES[rule](write(tmp_path, source))]


@pytest.mark.parametrize("docstring", ['""', '"""..."""', '"""TODO."""', "# no docstring"])
def test_a_docstring_that_says_nothing_is_reported(tmp_path, docstring):
    (found,) = without_docstring(write(tmp_path, docstring + "\n"))
    assert "no docstring" in found


def test_gradients_that_are_counted_are_reported(tmp_path):
    (found,) = positional_slices(write(tmp_path, "def f(x):\n    return x, *(None,) * 11\n"))
    assert "counts gradients" in found


@pytest.mark.parametrize(("importers", "count"), [(0, 0), (1, 1), (2, 0)])
def test_only_modules_with_one_importer_are_small(tmp_path, importers, count):
    folder = tmp_path / "equigeo"
    folder.mkdir()
    (folder / "part.py").write_text('"""A part."""\n')
    for k in range(importers):
        (folder / f"user{k}.py").write_text("import equigeo.part\n" + "x = 0\n" * 60)
    assert len([*small_modules(read_modules(tmp_path))]) == count


@pytest.mark.parametrize(("count", "reported"), [(20, 0), (21, 1)])
def test_a_full_folder_is_reported(tmp_path, count, reported):
    folder = tmp_path / "equigeo"
    folder.mkdir()
    for name in ["__init__", *(f"part{k}" for k in range(count))]:
        (folder / f"{name}.py").write_text('"""A part."""\n')
    assert len([*full_folders(read_modules(tmp_path))]) == reported
