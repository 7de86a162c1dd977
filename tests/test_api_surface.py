"""No public name vanishes or changes unnoticed."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

from tests.api_surface import COMMAND, TABLE, constructor, default, members, signature, surface


def changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """What differs between two tables, and what to do about it."""
    found = [f"{name} has vanished: {old[name]}" for name in sorted(old.keys() - new.keys())]
    found += [f"{name} is new: {new[name]}" for name in sorted(new.keys() - old.keys())]
    found += [
        f"{name} was {old[name]}\n{' ' * len(name)}  is {new[name]}"
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
    ]
    if found:
        found.append(f"If that is meant, say so in CHANGELOG.md and run `{COMMAND}`.")
    return found


def test_public_names_and_signatures_are_those_of_the_table():
    table = json.loads(TABLE.read_text())
    assert not (found := changes(table, surface())), "\n".join(found)
    assert {"equigeo.groups.GroupSamples.act", "equigeo.mds.embed"} <= table.keys()


def test_changes_are_reported():
    old = {"a": "(x)", "b": "(x)", "c": "(x)"}
    found = changes(old, {"a": "(x)", "b": "(x, y)", "d": "()"})
    assert [line.splitlines()[0] for line in found[:3]] == [
        "c has vanished: (x)",
        "d is new: ()",
        "b was (x)",
    ]
    assert COMMAND in found[-1]


class Kind(enum.IntEnum):
    FIRST = 1


@dataclass
class Point:
    x: float
    kind: Kind = Kind.FIRST

    @property
    def size(self) -> float: ...

    @classmethod
    def make(cls, x: float) -> Point: ...

    def _hidden(self) -> None: ...


Point.__module__ = "equigeo.example"  # only what is ours is described


def example(x: int, /, *rest: float, key: str = "a", **more: object) -> list[int]: ...


def test_classes_and_signatures_are_rendered():
    want = "(x: int, *rest: float, key: str = 'a', **more: object) -> list[int]"
    assert signature(example) == want
    assert constructor(Point) == "class (x: float, kind: Kind = Kind.FIRST) -> None"
    assert dict(members(Point)) == {
        "size": "property",
        "make": "classmethod (cls, x: float) -> Point",
    }
    assert constructor(Kind) == "enum FIRST=1"
    assert constructor(type("Error", (ValueError,), {})) == "class"
    assert default(object()) == "a object"  # no address
