"""The modules of a package as syntax trees, and what each of them imports."""

import ast
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DYNAMIC_IMPORTS = {"__import__", "import_module", "importlib.import_module"}


class When(Enum):
    """When an import statement runs."""

    LOADING = "when the module is loaded"
    CALLED = "when a function is called"
    TYPING = "never: only for type checkers"


@dataclass(frozen=True)
class Import:
    """An imported name, as ``base.name``; for ``import a.b`` the name is empty."""

    line: int
    base: str
    name: str
    when: When

    @property
    def target(self) -> str:
        return f"{self.base}.{self.name}" if self.name else self.base


@dataclass(frozen=True)
class Module:
    """A source file."""

    root: Path
    path: Path  # relative to the root

    @property
    def name(self) -> str:
        """Dotted name; that of the package for its ``__init__``."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        """Package at the top that the module is part of, or nothing for the root's own."""
        return self.path.parts[1] if len(self.path.parts) > 2 else ""

    @cached_property
    def source(self) -> str:
        return (self.root / self.path).read_text()

    @cached_property
    def has_dynamic_imports(self) -> bool:
        return any(name in self.source for name in DYNAMIC_IMPORTS)

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        return tuple(_imports(self.tree, self))


@cache
def read_modules(root: Path, folder: str = "equigeo") -> dict[str, Module]:
    """All modules below a folder of ``root``, by dotted name."""
    paths = sorted((root / folder).rglob("*.py"))
    modules = (Module(root, path.relative_to(root)) for path in paths)
    return {module.name: module for module in modules}


def the_package() -> dict[str, Module]:
    """The modules of this repository's package."""
    return read_modules(REPOSITORY)


def _imports(tree: ast.AST, module: Module, when: When = When.LOADING) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr) and not module.has_dynamic_imports:
            continue
        inside = when
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = When.CALLED
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            inside = When.TYPING
        elif isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name, "", when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.path.parts[: -node.level] if node.level else ()
            base = ".".join([*parents, *filter(None, [node.module])])
            yield from (Import(node.lineno, base, alias.name, when) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in DYNAMIC_IMPORTS:
            name = next(iter(node.args), None)
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield Import(node.lineno, name.value, "", when)
        yield from _imports(node, module, inside)


def import_graph(modules: dict[str, Module], when: Iterable[When]) -> dict[str, set[str]]:
    """Modules that each module names in its imports."""
    kinds = set(when)
    graph: dict[str, set[str]] = {}
    for name, module in modules.items():
        entries = [entry for entry in module.imports if entry.when in kinds]
        targets = {e.target if e.target in modules else e.base for e in entries}
        graph[name] = {target for target in targets if target in modules}
    return graph


def tracked_files(*endings: str) -> list[Path]:
    """Files of the repository, relative to it, whose names end like this."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    paths = (Path(line) for line in listed.stdout.splitlines())
    return [path for path in paths if path.name.endswith(endings) and (REPOSITORY / path).exists()]


def refuse(violations: Iterable[str]) -> None:
    """Fail with every violation, a line each."""
    assert not (found := sorted(violations)), "\n".join(found)


def write_package(root: Path, **sources: str) -> dict[str, Module]:
    """Write modules of a toy package, and read it; ``mesh__part`` is ``equigeo/mesh/part.py``."""
    for name, source in sources.items():
        path = (root / "equigeo" / name.replace("__", "/", 1)).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return read_modules(root)
