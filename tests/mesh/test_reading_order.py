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
    "damage": {"geometry"},
    "load_mesh": {"errors", "geometry", "io", "repair"},
    "nn": {"errors", "geometry"},
    "export": {"geometry", "subdivide", "nn"},
}


def test_every_module_imports_from_those_before_it_alone():
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).with_suffix("").parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            if part == "__init__" or not module.startswith("equigeo.mesh"):
                continue
            names = [f"{module}.{x.name}".removeprefix("equigeo.mesh.") for x in node.names]
            used = {name.split(".")[0] for name in names}
            wrong += [f"{path.name}: {name}" for name in used - BEFORE[part] - {part}]
    assert not wrong
