"""Tests mirror the package: whoever reads a module knows where its tests are.

``equigeo/a/b/c.py`` is tested by ``tests/a/b/test_c.py``, or by the file that ``covered_by.txt``
names; either has to reach the module through its imports. Names that a package passes on count as
imports of the module that defines them, so that not every test reaches everything.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import (
    REPOSITORY,
    Module,
    defining_module,
    read_modules,
    refuse,
    the_package,
)

COVERED_BY = Path("tests/covered_by.txt")


def mirrored(module: Module) -> Path:
    """Where the tests of a module belong."""
    _, *folders, name = module.path.parts
    return Path("tests", *folders, f"test_{name}")


def is_public(module: Module) -> bool:
    return not module.is_package and not module.path.name.startswith("_")


def problems(root: Path) -> Iterator[str]:
    """Public modules without tests, lines of the list that say nothing, and what is not reached."""
    package = read_modules(root)
    modules = package | read_modules(root, "tests")
    reach = Reach(modules)
    listed, wrong = covered_by(root, {str(m.path): m for m in package.values()})
    yield from wrong
    for module in filter(is_public, package.values()):
        test = listed.get(module.name, mirrored(module))
        if not (root / test).exists():
            yield f"{module.path}: neither {test} nor a line in {COVERED_BY}"
        elif module.name not in reach.of(".".join(test.with_suffix("").parts)):
            yield f"{module.path}: {test} does not reach it"


def covered_by(root: Path, modules: dict[str, Module]) -> tuple[dict[str, Path], list[str]]:
    """Test files by module, and the lines of the list that are out of date."""
    path = root / COVERED_BY
    lines = path.read_text().splitlines() if path.exists() else []
    listed: dict[str, Path] = {}
    wrong = [] if lines == sorted(set(lines)) else [f"{COVERED_BY}: not sorted, or a line twice"]
    for line in lines:
        name, _, test = line.partition(": ")
        module = modules.get(f"equigeo/{name}")
        if module is None or not is_public(module):
            wrong.append(f"{COVERED_BY}: {name} is no public module")
        elif (root / mirrored(module)).exists():
            wrong.append(f"{COVERED_BY}: {name} has its own tests, {mirrored(module)}")
        elif not (root / test).exists():
            wrong.append(f"{COVERED_BY}: {name} is covered by {test}, which does not exist")
        else:
            listed[module.name] = Path(test)
    return listed, wrong


class Reach:
    """Which modules a test file needs, directly or through others."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.direct = {name: set(self._direct(module)) for name, module in modules.items()}

    def of(self, name: str) -> set[str]:
        seen: set[str] = set()
        todo = [name, *self._fixtures(name)]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo.extend(self.direct.get(name, ()))
        return seen

    def _direct(self, module: Module) -> Iterator[str]:
        nodes = [*ast.walk(module.tree)]
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        strings = {node.value for node in nodes if isinstance(node, ast.Constant)}
        yield from strings & self.modules.keys()  # imported by name
        for entry in module.imports:
            target = defining_module(self.modules, entry.base, entry.name) if entry.name else None
            target = target or (entry.base if entry.base in self.modules else None)
            if target is None:
                continue
            yield from self._used(target, attributes if target == entry.target else set())

    def _used(self, target: str, attributes: set[str]) -> Iterator[str]:
        """A module, or those behind the attributes of a package that was imported as a whole."""
        if not self.modules[target].is_package or not attributes:
            yield target
            return
        for attribute in attributes:
            behind = defining_module(self.modules, target, attribute)
            if behind not in {None, target}:
                yield str(behind)

    def _fixtures(self, name: str) -> Iterator[str]:
        """The ``conftest`` modules that pytest reads for a test file."""
        parts = name.split(".")
        names = (".".join([*parts[:k], "conftest"]) for k in range(1, len(parts)))
        yield from (name for name in names if name in self.modules)


@pytest.mark.full
def test_every_public_module_has_its_tests():
    refuse([*problems(REPOSITORY)])


def test_the_package_has_public_modules():
    assert sum(map(is_public, the_package().values())) > 100


FILES = {
    "equigeo/__init__.py": "",
    "equigeo/mesh/__init__.py": "from equigeo.mesh.a.part import f\n"
    "from equigeo.mesh.other import g",
    "equigeo/mesh/a/__init__.py": "",
    "equigeo/mesh/a/part.py": "from equigeo.mesh.deep import h",
    "equigeo/mesh/deep.py": "",
    "equigeo/mesh/other.py": "",
    "tests/mesh/a/test_part.py": "from equigeo.mesh import f",
    "tests/mesh/test_other.py": "import equigeo.mesh as m\nm.g()",
    "tests/covered_by.txt": "mesh/deep.py: tests/mesh/a/test_part.py\n",
}


def found_with(tmp_path: Path, **changes: str | None) -> list[str]:
    for name, text in (FILES | {key.replace("__", "/"): v for key, v in changes.items()}).items():
        if text is not None:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    return [*problems(tmp_path)]


def test_what_is_covered_is_not_reported(tmp_path):
    assert found_with(tmp_path) == []


BROKEN = [
    ("tests/mesh/test_other.py", None, "neither tests/mesh/test_other.py nor a line"),
    ("tests/mesh/test_other.py", "from equigeo.mesh import f", "does not reach it"),
    ("tests/mesh/test_other.py", "import equigeo.mesh as m\nm.f()", "does not reach it"),
    ("tests/covered_by.txt", "", "neither tests/mesh/test_deep.py nor a line"),
    ("tests/covered_by.txt", "mesh/deep.py: tests/mesh/test_other.py\n", "does not reach it"),
    ("equigeo/mesh/a/part.py", "x = 0", "does not reach it"),
]


@pytest.mark.parametrize(("name", "text", "problem"), BROKEN)
def test_what_is_not_covered_is_reported(tmp_path, name, text, problem):
    (found,) = found_with(tmp_path, **{name: text})
    assert problem in found


LINE = FILES["tests/covered_by.txt"]
STALE = [
    (LINE + "mesh/gone.py: tests/mesh/a/test_part.py\n", "gone.py is no public module"),
    (LINE + "mesh/other.py: tests/mesh/a/test_part.py\n", "has its own tests"),
    (LINE + LINE, "a line twice"),
    ("mesh/deep.py: tests/mesh/test_gone.py\n", "which does not exist"),
]


@pytest.mark.parametrize(("text", "problem"), STALE)
def test_a_stale_line_is_reported(tmp_path, text, problem):
    assert any(problem in found for found in found_with(tmp_path, **{"tests/covered_by.txt": text}))
