"""Whether files under ``bench/results/`` have the form that ``bench/schema.json`` describes.

Understood is as much of JSON Schema as that file uses, so that no package is needed for it; a
keyword that is not understood is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
SCHEMA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
    "boolean": bool, "null": type(None),
}  # fmt: skip
Rule = Callable[[Any, Any, str], Iterator[str]]
SAYS_NOTHING = {"$schema", "$defs", "title", "description"}


def problems(value: Any, schema: dict[str, Any] = SCHEMA, place: str = "") -> Iterator[str]:
    """Everything in which a value differs from a schema, each with its place."""
    for keyword, expected in schema.items():
        if keyword in SAYS_NOTHING:
            continue
        if keyword not in RULES:
            raise ValueError(f"{keyword!r} is no keyword of JSON Schema that is understood here")
        yield from RULES[keyword](value, expected, place)


def _ref(value: Any, expected: str, place: str) -> Iterator[str]:
    yield from problems(value, SCHEMA["$defs"][expected.removeprefix("#/$defs/")], place)


def _any_of(value: Any, expected: list[dict[str, Any]], place: str) -> Iterator[str]:
    found = [list(problems(value, schema, place)) for schema in expected]
    if all(found):
        yield from min(found, key=len)  # of the form that it resembles most


def _type(value: Any, expected: str | list[str], place: str) -> Iterator[str]:
    names = [expected] if isinstance(expected, str) else expected
    is_number = isinstance(value, bool) and "boolean" not in names  # to Python, True is a number
    if is_number or not any(isinstance(value, TYPES[name]) for name in names):
        yield f"{place}: expected {' or '.join(names)}, got {json.dumps(value)[:60]}"


def _leaf(of: type, holds: Callable[[Any, Any], object], text: str) -> Rule:
    def rule(value: Any, expected: Any, place: str) -> Iterator[str]:
        if isinstance(value, of) and not holds(value, expected):
            yield f"{place}: expected {text.format(expected)}, got {json.dumps(value)[:60]}"

    return rule


def _required(value: Any, expected: list[str], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{place}: lacks {name!r}" for name in expected if name not in value)


def _properties(value: Any, expected: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, schema in expected.items():
            if name in value:
                yield from problems(value[name], schema, f"{place}/{name}")


def _items(value: Any, expected: dict[str, Any], place: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(item, expected, f"{place}/{number}")


RULES: dict[str, Rule] = {
    "$ref": _ref, "anyOf": _any_of, "type": _type,
    "enum": _leaf(object, lambda value, expected: value in expected, "one of {}"),
    "pattern": _leaf(str, lambda value, expected: re.search(expected, value), "{}"),
    "required": _required, "properties": _properties, "items": _items,
    "minItems": _leaf(list, lambda value, expected: len(value) >= expected, "at least {} entries"),
}  # fmt: skip
