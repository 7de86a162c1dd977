from __future__ import annotations

import re

import pytest

from tests.mutants.redundant import REDUNDANT
from tests.mutants.sources import GUARDS, KERNELS, ROOT, SIZES, Mutant, mutants

ALL = mutants()


def test_every_barrier_of_the_sources_is_deleted_once():
    names = re.compile(r"__sync\w+\(|__pipeline_(?:commit|wait_prior)\(|wait_for_copies\(\);")
    lines = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / KERNELS).iterdir()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if names.search(line.split("//")[0]) and path.name != "warp.cuh"
    }
    barriers = [m for m in ALL if m.kind == "barrier" and KERNELS in m.file]
    deleted = [f"{m.file}:{m.line}" for m in barriers]
    assert sorted(deleted) == sorted(lines)
    assert len(deleted) > 30


def test_shuffles_and_calls_of_teams_are_no_business_of_other_files():
    others = [p for p in (ROOT / "csrc/math").iterdir() if "team.sync" in p.read_text("utf-8")]
    assert {p.name for p in others} == {"copy_rows.h", "mixing_rows.h"}


def test_every_mistake_changes_its_source_in_one_place():
    for mutant in ALL:
        text = (ROOT / mutant.file).read_text("utf-8")
        changed = mutant.apply(text)
        before, after = text.splitlines(), changed.splitlines()
        assert len(before) == len(after)
        assert {n for n, (x, y) in enumerate(zip(before, after, strict=True), 1) if x != y} <= {
            mutant.line,
            mutant.line + 1,
        }
        assert changed != text


def test_all_kinds_of_mistakes_are_made():
    counts = {
        kind: sum(m.kind == kind for m in ALL) for kind in ("barrier", "bound", "guard", "size")
    }
    assert counts["guard"] == len(GUARDS)
    assert counts["size"] == len(SIZES)
    assert counts["bound"] > 40


def test_a_mutant_is_what_it_says():
    mutant = Mutant("guard", "x.cu", 2, "  if (n < size) {", "  if (true) {")
    assert mutant.apply("f();\n  if (n < size) {\n") == "f();\n  if (true) {\n"
    with pytest.raises(AssertionError):
        mutant.apply("f();\n  if (n <= size) {\n")


def test_what_is_documented_as_redundant_is_a_mutant():
    names = [str(m) for m in ALL]
    assert len(names) == len(set(names))
    assert set(REDUNDANT) <= set(names)
