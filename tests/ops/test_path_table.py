import pytest
import torch

from equigeo.ops import Path, PathTable, Segment
from equigeo.ops.path_table import read_paths
from tests.wrong_inputs import refused

X, Y = Segment.block(1, mul=2, d=3), Segment.block(0, mul=2, d=3, ir_mul=True)


def path(offset: int, weight: int | None) -> Path:
    coefficients = torch.arange(9.0).view(3, 3, 1) + offset
    return Path(X, Y, Segment.block(offset, mul=2, d=1), weight, coefficients)


def test_blocks_lie_side_by_side():
    assert X.index().tolist() == [[1, 2, 3], [4, 5, 6]]
    assert Y.index().tolist() == [[0, 2, 4], [1, 3, 5]]


@pytest.mark.parametrize("weights", [(None, None), (4, 0)])
@pytest.mark.parametrize("by_output", [False, True])
def test_a_table_is_read_as_it_was_written(weights, by_output):
    paths = [path(2, weights[0]), path(0, weights[1])]
    table = PathTable.from_paths(paths, (7, 6, 8, 4), by_output=by_output)
    found = list(read_paths(table.paths, table.entries, table.values))
    for mine, theirs in zip(found, reversed(paths) if by_output else paths, strict=True):
        assert (mine.x, mine.y, mine.out) == (theirs.x, theirs.y, theirs.out)
        assert mine.weight == theirs.weight
        assert torch.equal(mine.coefficients, theirs.coefficients.double())


def test_coefficients_that_are_zero_are_left_out():
    table = PathTable.from_paths([path(0, None)], (7, 6, 0, 2))
    assert len(table.values) == 8  # of nine
    assert [0, 0, 0] not in table.entries.tolist()


def test_components_outside_are_noticed():
    assert PathTable.from_paths([path(0, None)], (7, 6, 0, 2)).ir_mul
    inside = Path(X, X, Segment.block(0, 2, 1), None, torch.ones(3, 3, 1))
    assert not PathTable.from_paths([inside], (7, 7, 0, 2)).ir_mul


def test_wrong_arguments_raise():
    refused(
        "either all paths have weights or none",
        PathTable.from_paths,
        [path(0, None), path(2, 0)],
        (7, 6, 4, 4),
    )
    wrong = Path(X, Y, Segment.block(0, 2, 3), None, torch.ones(3, 3, 1))
    refused(
        r"must have shape \(3, 3, 3\), got \(3, 3, 1\)", PathTable.from_paths, [wrong], (7, 6, 0, 6)
    )
