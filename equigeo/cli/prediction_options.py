"""Options of ``equigeo predict``, from the command line and from a file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from equigeo._text import message
from equigeo.tasks import TASKS
from equigeo.tasks.arguments import positive, threads
from equigeo.training.files.read_config import read_json

DEFAULTS: Final[dict[str, Any]] = {
    "checkpoint": None, "files": [], "top": 1, "view": False, "json": False, "output": ".",
    "results": None, "format": None, "device": "cpu", "threads": None, "quiet": False,
    "verbose": False,
}  # fmt: skip
"""What holds where neither says anything."""

_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "checkpoint": (str,), "files": (list,), "top": (int,), "view": (bool,), "json": (bool,),
    "output": (str,), "results": (str, type(None)), "format": (str, type(None)),
    "device": (str,), "threads": (int, type(None)), "quiet": (bool,), "verbose": (bool,),
}  # fmt: skip
_CHOICES: Final = {
    "device": ("auto", "cpu", "cuda"),
    "format": tuple(form for task in TASKS for form in task.formats),
}
_NUMBERS: Final[dict[str, Callable[[str], int]]] = {"top": positive, "threads": threads}


def complete_options(
    options: argparse.Namespace,  # None and empty lists are missing
) -> None:
    """Fill in missing options from ``--config`` and the defaults, in place."""
    given = {} if options.config is None else read_options(options.config)
    if options.quiet or options.verbose:
        given.pop("quiet", None), given.pop("verbose", None)
    for name, default in DEFAULTS.items():
        if getattr(options, name) in (None, [], ()):
            setattr(options, name, given.get(name, default))
    for name, what in (("checkpoint", "CHECKPOINT"), ("files", "FILE")):
        if not getattr(options, name):
            raise ValueError(f"{what} is missing; give it, or a --config that does")
    for name in ("checkpoint", "output", "results"):
        value = getattr(options, name)
        setattr(options, name, None if value is None else Path(value))
    options.files = [Path(file) for file in options.files]


def read_options(path: Path) -> dict[str, Any]:
    """Load a JSON file of options, such as ``{"files": ["scans"], "top": 3}``."""
    try:
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"must be a JSON object, got {type(content).__name__}")
        unknown = sorted(set(content) - set(DEFAULTS))
        if unknown:
            raise ValueError(f"has unknown options {message(unknown)}; there are {_known()}")
        return {name: _checked(name, value) for name, value in content.items()}
    except ValueError as error:
        raise ValueError(f"{path}: not a file of options of predict: {error}") from error


def _checked(name: str, value: Any) -> Any:
    kinds = _KINDS[name]
    is_fine = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if name == "files":
        is_fine = is_fine and all(isinstance(entry, str) for entry in value)
    if name in _CHOICES and value is not None:
        is_fine = is_fine and value in _CHOICES[name]
    if name in _NUMBERS and is_fine and value is not None:
        try:
            _NUMBERS[name](str(value))
        except argparse.ArgumentTypeError:
            is_fine = False
    if not is_fine:
        raise ValueError(f"{name} cannot be {message(json.dumps(value))}; {_expected(name)}")
    return value


def _expected(name: str) -> str:
    if name in _CHOICES:
        return f"expected one of {', '.join(_CHOICES[name])}"
    if name in _NUMBERS:
        return "expected a positive integer"
    names = {str: "a text", list: "a list of texts", bool: "true or false"}
    return f"expected {names[_KINDS[name][0]]}"


def _known() -> str:
    return ", ".join(DEFAULTS)
