"""A page for each public package, with its names as users import them."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = (
    "tensor_products", "affine", "mesh", "mds", "potentials", "nn", "reps", "groups", "testing",
    "graphs", "points", "interop", "interop.pyg", "interop.cuequivariance", "datasets", "training",
    "tasks", "report", "ops",
)  # fmt: skip
FOLDER = Path(__file__).parents[1] / "generated" / "api"


def write_pages(app: Any) -> None:
    """Write the pages and the list of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    documented: dict[int, str] = {}
    names = []
    for name in PACKAGES:
        try:
            package = import_module(f"equigeo.{name}")
        except ModuleNotFoundError:  # a package of a version to come
            continue
        names.append(name)
        _write(FOLDER / f"{name}.rst", _package_page(package, documented))
    entries = "\n".join(f"   {name}" for name in names)
    _write(
        FOLDER / "index.rst",
        f"{_title('API reference')}\n\nPublic names, as they are imported. What is not on these "
        "pages is private structure and may move.\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{_rows(names)}\n\n"
        f".. toctree::\n   :hidden:\n\n{entries}\n",
    )


def _write(path: Path, text: str) -> None:
    """Write a page that changed, so that Sphinx reads no other again."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _rows(names: list[str]) -> str:
    """Rows of the list of packages."""
    return "\n".join(
        f"   * - :doc:`equigeo.{name} <{name}>`\n"
        f"     - {_summary(import_module(f'equigeo.{name}'))}"
        for name in names
    )


def _package_page(package: Any, documented: dict[int, str]) -> str:
    """The page of a package: its docstring, a table of its names, and all of them."""
    own, rows = [], []
    for name in package.__all__:
        value = getattr(package, name)
        path = f"{package.__name__}.{name}"
        if inspect.ismodule(value):
            continue
        kind = "class" if inspect.isclass(value) else "func" if callable(value) else "data"
        shown = documented.setdefault(id(value), path) if kind != "data" else path
        role = "obj" if kind == "data" else kind
        rows.append(f"   * - :{role}:`{name} <{shown}>`\n     - {_summary(value)}")
        if shown == path:
            own.append(_directive(path, value, kind))
    table = ".. list-table::\n   :widths: 34 66\n   :class: names\n\n" + "\n".join(rows)
    return "\n\n".join(
        [
            _title(package.__name__),
            f".. automodule:: {package.__name__}\n   :no-members:",
            table,
            *own,
        ]
    )


def _directive(path: str, value: Any, kind: str) -> str:
    if kind == "func":
        return f".. autofunction:: {path}"
    if kind == "data":
        return f".. autodata:: {path}\n   :no-value:"
    if issubclass(value, BaseException):
        return f".. autoexception:: {path}\n   :show-inheritance:"
    return f".. autoclass:: {path}\n   :members:\n   :show-inheritance:"


LITERAL = re.compile(r"(``.*?``|:\w+:`[^`]*`)")
# A star of a shape, (B, C, *S) or (..., *, dim): none that opens *emphasis*, none of an argument.
STAR = re.compile(r"(?:^|(?<=[(, ]))\*(?=[\w,)])(?!\w[\w -]*\*(?!\w))(?!\w\*)")


def escape_stars(line: str) -> str:
    """Escape the stars of shapes outside of literals."""
    parts = LITERAL.split(line)
    parts[::2] = [STAR.sub(r"\\*", part) for part in parts[::2]]
    return "".join(parts)


def _summary(value: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.getdoc(value) or ""
    if not inspect.isclass(value) and not callable(value) and not inspect.ismodule(value):
        return ""
    return escape_stars(" ".join(text.split("\n\n")[0].split()))


def _title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
