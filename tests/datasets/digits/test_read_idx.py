import gzip
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equigeo.datasets import read_idx
from tests.datasets.digits import write_idx


@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), compress=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, shape, compress):
    array = np.arange(np.prod(shape)).reshape(shape) % 256
    path = write_idx(tmp_path_factory.mktemp("idx") / "file", array, compress)
    assert torch.equal(read_idx(path), torch.from_numpy(array).to(torch.uint8))


def test_the_array_may_be_written_to(tmp_path):
    array = read_idx(write_idx(tmp_path / "file", [1, 2]))
    array += 1
    assert array.tolist() == [2, 3]


_GOOD = struct.pack(">4B2I", 0, 0, 8, 2, 2, 3) + bytes(6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with nothing"),
        (b"\0\0\x08", "starts with 000008"),
        (b"\1" + _GOOD[1:], "not with an IDX header"),
        (b"\0\0\x08\0", "not with an IDX header"),
        (b"\0\0\x0d\1" + bytes(8), "unsigned bytes .type 08., got type 0d"),
        (_GOOD[:9], "header is truncated"),
        (_GOOD[:-1], "announces 6 bytes of data and holds 5"),
        (_GOOD + b"\0", "goes on after the 6 bytes"),
        (struct.pack(">4B3I", 0, 0, 8, 3, *[1 << 31] * 3), "more than 1073741824"),
        (gzip.compress(_GOOD, mtime=0)[:-9], "ended before"),
        (gzip.compress(_GOOD, mtime=0)[:-5] + b"\0\0\0\0\0", "CRC"),
        (b"\x1f\x8b\x08nothing at all", "cannot be read"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(tmp_path, content, message):
    path = tmp_path / "broken-idx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(ValueError, match="none: cannot be read as an IDX file: No such file"):
        read_idx(tmp_path / "none")
    with pytest.raises(ValueError, match="directory"):
        read_idx(tmp_path)


def test_a_gzip_bomb_is_not_unpacked(tmp_path):
    # the header is honest about a little, and much more follows
    content = gzip.compress(_GOOD + bytes(50 << 20), mtime=0)
    (tmp_path / "bomb").write_bytes(content)
    with pytest.raises(ValueError, match="goes on after the 6 bytes"):
        read_idx(tmp_path / "bomb")
