import pytest
import torch

from tests.gpu.in_processes import check_rows, in_process

pytestmark = pytest.mark.full
CPU = torch.device("cpu")


def test_processes_find_what_one_process_finds():
    select = ["gather_sum | small", "gather_sum | one hub"]
    assert check_rows("ops", CPU, select, jobs=2) == check_rows("ops", CPU, select, jobs=1)


def test_process_that_ends_or_hangs_is_a_failure_of_its_rows(tmp_path):
    unknown = in_process("nothing", CPU, ["gather_sum"], tmp_path / "a.json", limit=600)
    assert unknown["rows"] == {}
    assert unknown["failures"][0].startswith("gather_sum: the process ended with 1: ")
    slow = in_process("ops", CPU, ["gather_sum", "radial"], tmp_path / "b.json", limit=0.01)
    assert slow["failures"] == ["gather_sum, radial: the process took more than 0.01 s"]
