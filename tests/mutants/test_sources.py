import re
from collections import Counter

from tests.mutants.conditions import at_run_time, masked
from tests.mutants.redundant import REDUNDANT
from tests.mutants.sources import KERNELS, MATH, MOST_OF_FILE, ROOT, by_number, mutants
from tests.mutants.switches import MOST

ALL = mutants()


def test_every_barrier_of_the_sources_is_deleted_once():
    names = re.compile(r"__sync\w+\(|__pipeline_(?:commit|wait_prior)\(|wait_for_copies\(\);")
    lines = {
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / KERNELS).glob("*.*")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if names.search(line.split("//")[0]) and path.name != "warp.cuh"
    }
    barriers = [m for m in ALL if m.kind == "barrier" and KERNELS in m.file]
    deleted = [f"{m.file}:{m.line}" for m in barriers]
    assert sorted(deleted) == sorted(lines)
    assert len(deleted) > 30


def test_files_of_math_that_share_rows_or_check_indices_are_among_the_sources():
    others = [p for p in (ROOT / "csrc/math").iterdir() if "team.sync" in p.read_text("utf-8")]
    assert {p.name for p in others} <= {name.rsplit("/", 1)[1] for name in MATH}
    traps = [p for p in (ROOT / "csrc/math").iterdir() if "__trap" in p.read_text("utf-8")]
    assert [f"csrc/math/{p.name}" for p in traps] == ["csrc/math/edges.h"]


def test_every_loop_of_kernels_goes_on_for_too_long_once():
    for path in (ROOT / KERNELS).glob("*.cu*"):
        text = at_run_time(masked(path.read_text("utf-8")))
        loops = re.findall(r"\bfor \([^;]*;[^;]* <=? [^;]*;", text)
        found = [m for m in ALL if m.kind == "bound" and m.file.endswith(f"/{path.name}")]
        assert len(found) >= len(loops)


def test_every_array_in_shared_memory_is_made_smaller():
    sizes = {str(m) for m in ALL if m.kind == "size"}
    assert {name.split(":")[0] for name in sizes} == {
        "differentiate_products.cu",
        "fully_connected_product.cu",
        "grid_product.cu",
        "known_gradients.cuh",
        "known_sums.cuh",
        "linear_tiles.cuh",
        "matrix_products.cuh",
        "outside_components.cu",
        "plan.cu",
        "so2_turn.cuh",
        "so2_turn_back.cuh",
        "spherical_harmonics.cu",
        "sum_products.cu",
        "symmetric_contraction.cu",
    }
    for path in (ROOT / KERNELS).glob("*.cu*"):
        if re.search(r"static_shared<(?!T>\(\) \{|int>)", masked(path.read_text("utf-8"))):
            assert path.name == "launch.cuh" or any(path.name in name for name in sizes)


def test_mistakes_of_all_kinds_are_where_they_say():
    counts = Counter(m.kind for m in ALL)
    assert counts.keys() == {"barrier", "bound", "guard", "size"}
    assert min(counts["guard"], counts["bound"]) > 100
    for mutant in ALL:
        text = (ROOT / mutant.file).read_text("utf-8")
        assert text[mutant.start : mutant.end] == mutant.before
        assert text.count("\n", 0, mutant.start) + 1 == mutant.line
        assert mutant.after != mutant.before


def test_what_is_documented_as_redundant_is_a_mutant():
    names = [str(m) for m in ALL]
    assert len(names) == len(set(names))
    assert set(REDUNDANT) <= set(names)


def test_numbers_depend_on_the_own_file_alone():
    numbers = by_number(ALL)
    assert list(numbers.values()) == ALL
    assert max(numbers) < MOST
    first = [n for n, mutant in numbers.items() if mutant.file.endswith("/plan.cu")]
    assert first == list(range(first[0], first[0] + len(first)))
    assert first[0] % MOST_OF_FILE == 0
    assert len(first) <= MOST_OF_FILE
