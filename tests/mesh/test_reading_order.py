"""The modules of the package read in one order, at module level and inside functions."""

import ast
from pathlib import Path

import equigeo.mesh

PACKAGE = Path(equigeo.mesh.__file__).parent
BEFORE = {  # what each folder or module of the package may import
    "errors": set(),
    "geometry": {"errors"},
    "io": {"errors", "geometry"},
    "repair": {"errors", "geometry", "io"},
    "simplify": {"geometry", "repair"},
    "subdivide": {"geometry", "repair", "simplify"},
    "load_mesh": {"errors", "geometry", "io", "repair"},
    "nn": {"errors", "geometry"},
}


def _imports(path):
    """Names below ``equigeo.mesh`` that a module imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("equigeo.mesh"):
            for name in node.names:
                yield f"{node.module}.{name.name}".removeprefix("equigeo.mesh.")


def test_every_module_imports_from_those_before_it_alone():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).with_suffix("").parts[0]
        if part == "__init__":
            continue
        used = {name.split(".")[0] for name in _imports(path)}
        wrong += [f"{path.name}: {name}" for name in used - BEFORE[part] - {part}]
    assert not wrong
