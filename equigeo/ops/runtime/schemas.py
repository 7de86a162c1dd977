"""Fingerprint of all op schemas, computed alike at build time and at import."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

MARKER = b"equigeo-schemas:"

TABLES = "paths of 18 columns"
"""Contents of table tensors that no schema states; part of the fingerprint."""


def product_schemas(schema: str) -> tuple[str, str, str]:
    """Return the schemas of a product op, of its gradients and of their gradients."""
    # The length of the output is that of the gradient that arrives.
    name, arguments = schema.removesuffix(") -> Tensor").split("(")
    x, y, weight, *rest = (each for each in arguments.split(", ") if each != "int dim_out")
    form = ["Tensor grad", x, y, weight]
    tangents = [f"Tensor? {operand}_tangent" for operand in ("x", "y", "weight")]
    flags = [f"bool by_{argument}" for argument in ("grad", "x", "y", "weight")]
    first = ", ".join([*form, *rest, "bool by_weight"])
    second = ", ".join([*form, *tangents, *rest, *flags])
    return (
        schema,
        f"{name}_backward({first}) -> (Tensor, Tensor, Tensor)",
        f"{name}_double_backward({second}) -> (Tensor, Tensor, Tensor, Tensor)",
    )


def read_schemas(folder: Path) -> list[str]:
    """Return the schemas of every op file below a folder, without importing any."""
    schemas: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
            if isinstance(node, ast.Assign) and name.endswith("SCHEMA"):
                schema = ast.literal_eval(node.value)
                schemas += product_schemas(schema) if name.endswith("PRODUCT_SCHEMA") else [schema]
    return schemas


def fingerprint(schemas: Iterable[str]) -> str:
    """Return a hash of 16 hexadecimal digits of all schemas, in any order, and the table layout."""
    return hashlib.sha256("\n".join([TABLES, *sorted(schemas)]).encode()).hexdigest()[:16]


def _write_header(path: Path) -> None:
    schemas = read_schemas(Path(__file__).parents[1])
    quoted = ", ".join(f'"{schema}"' for schema in schemas)
    lines = [
        f'#define EQUIGEO_SCHEMA_MARKER "{MARKER.decode()}{fingerprint(schemas)}"',
        f"#define EQUIGEO_SCHEMAS {quoted}",
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    _write_header(Path(sys.argv[1]))
