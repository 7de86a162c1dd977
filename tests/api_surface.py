"""Every public name of every package with its signature, as one flat table.

``python -m tests.api_surface --write`` brings ``tests/api_surface.json`` up to date.
"""

import enum
import inspect
import json
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ForwardRef

import equigeo

TABLE = Path(__file__).with_name("api_surface.json")
COMMAND = "python -m tests.api_surface --write"


def surface() -> dict[str, str]:
    """Signatures by dotted name; rendered alike by all supported versions of Python."""
    found = {f"equigeo.{name}": "package" for name in packages()}
    for name in packages():
        found |= described(import_module(f"equigeo.{name}"))
    return found | {"equigeo.kernels_info": signature(equigeo.kernels_info)}


def packages() -> list[str]:
    """Packages that users import, and the folder of each task."""
    tops = [name for name in equigeo.__all__ if isinstance(getattr(equigeo, name), ModuleType)]
    # An editable installation has two folders, of which one holds nothing but kernels.
    folders = [Path(folder, "tasks") for folder in equigeo.__path__]
    tasks = {path.parent.name for folder in folders for path in folder.glob("*/__init__.py")}
    return [*tops, *(f"tasks.{name}" for name in sorted(tasks))]


def described(package: ModuleType) -> dict[str, str]:
    """Table of one package, and of the packages that it lists."""
    rows: dict[str, str] = {}
    for name in getattr(package, "__all__", ()):
        thing, full = getattr(package, name), f"{package.__name__}.{name}"
        if isinstance(thing, ModuleType):
            rows |= {full: "package"} | described(thing)
        elif isinstance(thing, type):
            rows |= {full: constructor(thing)}
            rows |= {f"{full}.{key}": text for key, text in members(thing)}
        else:
            rows[full] = signature(thing) if callable(thing) else f"a {type(thing).__name__}"
    return rows


def constructor(cls: type) -> str:
    """How a class is made, or what an enumeration holds."""
    if issubclass(cls, enum.Enum):
        return f"enum {', '.join(f'{one.name}={one.value!r}' for one in cls)}"
    own = any("__init__" in vars(base) or "__new__" in vars(base) for base in ours(cls))
    return f"class {signature(cls)}" if own else "class"


def members(cls: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties, those of base classes of this library included."""
    names = {name for base in ours(cls) for name in vars(base) if not name.startswith("_")}
    for name in sorted(names):
        thing = inspect.getattr_static(cls, name)
        if isinstance(thing, property | cached_property):
            yield name, "property"
        elif isinstance(thing, staticmethod | classmethod):
            yield name, f"{type(thing).__name__} {signature(thing.__func__)}"
        elif inspect.isfunction(thing):
            yield name, signature(thing)


def ours(cls: type) -> list[type]:
    return [base for base in cls.__mro__ if base.__module__.split(".")[0] == "equigeo"]


def signature(thing: Any) -> str:
    """Parameters with annotations as they are written, defaults, and what is returned."""
    try:
        whole = inspect.signature(thing)
    except ValueError:  # builtins
        return "(...)"
    parts: list[str] = []
    for parameter in whole.parameters.values():
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        text = stars.get(parameter.kind, "") + parameter.name
        if parameter.annotation is not parameter.empty:
            text += f": {annotation(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {default(parameter.default)}"
        keyword = parameter.kind is parameter.KEYWORD_ONLY
        if keyword and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(text)
    returned = "" if whole.return_annotation is whole.empty else whole.return_annotation
    result = "" if returned == "" else f" -> {annotation(returned)}"
    return f"({', '.join(parts)}){result}"


def annotation(value: Any) -> str:
    if isinstance(value, ForwardRef):
        return value.__forward_arg__
    if value is None or value is type(None):
        return "None"
    return value if isinstance(value, str) else getattr(value, "__qualname__", str(value))


def default(value: Any) -> str:
    if isinstance(value, enum.Enum):  # their repr depends on the version of Python
        return f"{type(value).__name__}.{value.name}"
    if callable(value):  # its repr may hold an address
        return getattr(value, "__qualname__", type(value).__name__)
    text = repr(value)
    return f"a {type(value).__name__}" if " at 0x" in text else text


if __name__ == "__main__":
    text = json.dumps(surface(), indent=0, sort_keys=True, ensure_ascii=False) + "\n"
    if "--write" in sys.argv:
        TABLE.write_text(text)
    else:
        sys.stdout.write(text)
