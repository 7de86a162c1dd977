"""The form of modules: their length, what stands in them, circles of imports and repetitions."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from pathlib import Path

from tests.architecture.source import (
    Module,
    When,
    import_graph,
    refuse,
    the_package,
    write_package,
)

MAX_LINES = 600
MAX_MODULES = 20  # in a folder
MAX_FUNCTION = 80  # lines of code
MAX_DOCSTRING = 3  # lines of a private definition
MAX_REPEATED = 20  # pairs of places with RUN equal lines; there were 99 when this was counted first
RUN = 6

Functions = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


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


def long_functions(modules: dict[str, Module]) -> Iterator[str]:
    """Functions with many lines of code, docstring and signature left out."""
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, Functions):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > MAX_FUNCTION:
                    name = f"{module.path}:{node.lineno}: {node.name}"
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


def exported(modules: dict[str, Module]) -> set[str]:
    """Return the names in ``__all__`` of any package."""
    found: set[str] = set()
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                found |= {x.value for x in ast.walk(node.value) if isinstance(x, ast.Constant)}
    return found


def long_docstrings(modules: dict[str, Module]) -> Iterator[str]:
    names = exported(modules)
    for module in modules.values():
        for node in private(module.tree, names):
            lines = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
            if lines > MAX_DOCSTRING:
                place = f"{module.path}:{node.lineno}"
                yield f"{place}: {node.name} is private, its docstring has {lines} lines"


def private(node: ast.AST, names: set[str] | None) -> Iterator[Definition]:
    """Yield private definitions; those named are public, and so are members of public classes."""
    for part in ast.iter_child_nodes(node):
        if not isinstance(part, Definition):
            yield from private(part, names)
        elif part.name.startswith("_") or (names is not None and part.name not in names):
            yield part
            yield from private(part, set())
        elif isinstance(part, ast.ClassDef):
            yield from private(part, None)


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(module: Module) -> list[tuple[int, str]]:
    """Numbers and texts of lines that count, without comments and indentation."""
    text = dict(enumerate(module.source.splitlines(), 1))
    for node in ast.walk(module.tree):
        documented = isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False)
        imports = isinstance(node, ast.Import | ast.ImportFrom)
        for left in [node.body[0]] if documented else [node] if imports else []:
            for number in range(left.lineno, left.end_lineno + 1):
                text.pop(number, None)
    lines = ((number, re.sub(r"(^|  )#.*", "", line).strip()) for number, line in text.items())
    return [line for line in lines if any(character.isalnum() for character in line[1])]


def repetitions(modules: dict[str, Module]) -> list[str]:
    """Pairs of places that share a run of equal lines."""
    places: dict[tuple[str, ...], list[tuple[Path, int]]] = defaultdict(list)
    files = {module.path: code_lines(module) for module in modules.values()}
    for path, lines in files.items():
        for k in range(len(lines) - RUN + 1):
            places[tuple(text for _, text in lines[k : k + RUN])].append((path, k))
    windows = {
        (a, k, b, m)
        for same in places.values()
        for (a, k), (b, m) in combinations(same, 2)
        if a != b or m - k >= RUN  # a list of equal lines does not repeat itself
    }
    runs = [(a, k, b, m) for a, k, b, m in windows if (a, k - 1, b, m - 1) not in windows]
    return sorted(f"{a}:{files[a][k][0]} ~ {b}:{files[b][m][0]}" for a, k, b, m in runs)


def circles(modules: dict[str, Module]) -> Iterator[str]:
    """A circle of imports, those inside functions included."""
    try:
        TopologicalSorter(import_graph(modules, When)).prepare()
    except CycleError as error:
        yield " -> ".join(error.args[1])


COUNTED = {"inputs", "ctx.saved_tensors", "ctx.needs_input_grad"}
RULES = [
    *(long_modules, without_docstring, full_folders, long_functions, silenced_overrides),
    *(positional_slices, long_docstrings, circles),
]


def test_the_package_has_the_form():
    refuse(found for rule in RULES for found in rule(the_package()))
    refuse(repetitions(the_package())[MAX_REPEATED:])


LONG = '"""Do.\n\n    x\n    y\n    """\n'
METHODS = "".join(f"    def {name}(self):\n        {LONG}" for name in ("f", "_g"))
SIX = "".join(f"x{k} = {k}\n" for k in range(6))
INIT = "from equigeo.mesh.a import f"
# Rules, modules of a package, and how many violations they have.
PLANTED = [
    (long_modules, {"ops__part": '"""A part."""\n' + "x = 0\n" * 600}, 1),
    (without_docstring, {"ops__part": '"""TODO."""\n'}, 1),
    (full_folders, {f"part{k}": "" for k in range(21)}, 1),
    (
        long_functions,
        {"ops__part": 'def f():\n    """Run."""\n    y = 1\n' + "    x = 0\n" * 80},
        1,
    ),
    (silenced_overrides, {"ops__part": "def f(self): ...  # type: ignore[override, misc]\n"}, 1),
    (positional_slices, {"ops__part": "def f(ctx, inputs):\n    ctx.save(*inputs[:12])\n"}, 1),
    (
        long_docstrings,
        {
            "mesh____init__": '__all__ = ["A"]\n',
            "mesh__a": f"class A:\n    {LONG}{METHODS}def b():\n    {LONG}",
        },
        2,
    ),
    *(
        (circles, {"mesh____init__": INIT, "mesh__a": a, "mesh__b": b}, count)
        for a, b, count in (
            ("from equigeo.mesh.b import g", "from equigeo.mesh.a import f", 1),
            ("from equigeo.mesh.b import g", "def g():\n    import equigeo.mesh.a", 1),
            ("from equigeo.mesh import f", "x = 0", 1),  # by its package
            ("from equigeo.mesh.b import g", "x = 0", 0),
        )
    ),
    *(
        (repetitions, {"a": first, "b": second}, count)
        for first, second, count in (
            ("y = 0\n" + SIX, SIX.replace("\n", "  # why\n\n"), 1),
            (SIX, SIX[7:], 0),
            (SIX + "y = 0\n" + SIX, SIX, 3),
            ("x = 0\n" + SIX, "x = 0\n" + SIX, 1),
            (f'"""{SIX}"""' + "\nimport os" * 6, f'"""{SIX}"""' + "\nimport os" * 6, 0),
        )
    ),
]
FINE = (
    '"""A part."""\n'
    'def f(\n    ctx, inputs,\n):\n    """Run."""\n'
    + "    x = 0\n" * 78
    + "    ctx.save(inputs)  # type: ignore[misc]\n    return x[:12], None\n"
)


def test_broken_rules_are_reported(tmp_path):
    for k, (rule, sources, count) in enumerate(PLANTED):
        assert len([*rule(write_package(tmp_path / str(k), **sources))]) == count, rule
    modules = write_package(tmp_path, ops__part=FINE)
    assert not [found for rule in RULES for found in rule(modules)]
