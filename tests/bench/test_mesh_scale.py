import pytest

from bench.mesh_scale import ALLOCATORS, CASES, growth, in_child, run_case


@pytest.mark.parametrize("case", list(CASES))
def test_every_case_runs_and_keeps_its_repetitions(case):
    row = run_case(case, side=6, repetitions=3)
    assert (row["case"], row["faces"]) == (case, 72)
    assert len(row["repetitions"]) == 3
    for run in row["repetitions"]:
        assert set(run) == ({"forward"} if case.startswith("pooling") else {"forward", "backward"})
        assert all(phase["seconds"] > 0 for phase in run.values())
    later = [sum(phase["seconds"] for phase in run.values()) for run in row["repetitions"][1:]]
    assert min(later) <= row["seconds, median"] <= max(later)
    assert 0 < row["GiB before"] <= row["peak GiB"]


def test_a_child_runs_under_the_setting_alone(monkeypatch):
    seen = {}

    def check_output(command, env):
        seen.update(env)
        return '{"case": "default block"}'

    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    monkeypatch.setattr("bench.mesh_scale.subprocess.check_output", check_output)
    row = in_child("default block", 6, 1, "huge pages")
    assert row == {"allocator": "huge pages", "case": "default block"}
    assert seen["THP_MEM_ALLOC_ENABLE"] == "1"
    assert not set(ALLOCATORS["kept"]) & set(seen)


def test_growth_compares_the_largest_mesh_with_the_smallest():
    rows = [
        {"case": "c", "allocator": a, "faces": faces, "microseconds a face": cost}
        for a, cost, faces in [("kept", 3.0, 100), ("kept", 9.0, 50), ("as is", 2.0, 7)]
    ]
    rows.append({"case": "c", "allocator": "kept", "faces": 10, "microseconds a face": 2.0})
    assert growth(rows) == [
        {"case": "c", "allocator": "kept", "largest over smallest": 1.5},
        {"case": "c", "allocator": "as is", "largest over smallest": 1.0},
    ]
