import gzip
import hashlib

import pytest
import torch

from equigeo.datasets import load_digits, load_mnist
from tests.datasets.digits import synthetic_digits, write_idx, write_mnist
from tests.shared_data import on_data

# of the decompressed originals
_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


@pytest.fixture(params=[True, False], ids=["gzip", "plain"])
def folder(request, tmp_path):
    folder = tmp_path / "mnist"
    write_mnist(folder, *synthetic_digits(60), "train", request.param)
    return write_mnist(folder, *synthetic_digits(20, seed=1), "t10k", request.param)


def test_both_parts_are_read(folder):
    for part, number, seed in (("train", 60, 0), ("test", 20, 1)):
        images, labels = load_mnist(folder, part)
        expected = synthetic_digits(number, seed)
        assert torch.equal(images, expected[0])
        assert torch.equal(labels, expected[1])
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)


def test_the_last_sixth_of_the_training_file_is_for_validation(folder):
    images, labels = load_mnist(folder, "train")
    train, validation = load_digits(folder, "train"), load_digits(str(folder), "validation")
    assert (len(train[0]), len(validation[0])) == (50, 10)
    assert torch.equal(torch.cat([train[0], validation[0]]), images)
    assert torch.equal(torch.cat([train[1], validation[1]]), labels)
    assert torch.equal(load_digits(folder, "test")[0], load_mnist(folder, "test")[0])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda f: f("train-images-idx3-ubyte", torch.zeros(60, 28, 27)), r"28 x 28, got \(60"),
        (lambda f: f("train-images-idx3-ubyte", torch.zeros(0, 28, 28)), r"28 x 28, got \(0"),
        (lambda f: f("train-images-idx3-ubyte", torch.zeros(60)), r"28 x 28, got \(60,"),
        (lambda f: f("train-labels-idx1-ubyte", torch.zeros(59)), r"each of the 60 .* got \(59,"),
        (lambda f: f("train-labels-idx1-ubyte", torch.full((60,), 10)), "0 to 9, got 10"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path, write, message):
    folder = write_mnist(tmp_path / "mnist", *synthetic_digits(60), compress=False)
    write(lambda name, array: write_idx(folder / name, array))
    with pytest.raises(ValueError, match=message) as caught:
        load_mnist(folder)
    assert str(folder) in str(caught.value)


def test_a_missing_folder_file_or_part_is_named(tmp_path):
    folder = write_mnist(tmp_path / "mnist", *synthetic_digits(6))
    with pytest.raises(ValueError, match="none: no such folder; expected a folder with the four"):
        load_mnist(tmp_path / "none")
    with pytest.raises(ValueError, match="is no folder"):
        load_mnist(next(folder.iterdir()))
    with pytest.raises(ValueError, match="has no t10k-images-idx3-ubyte; expected"):
        load_mnist(folder, "test")
    with pytest.raises(ValueError, match="part must be train or test, got 'dev'"):
        load_mnist(folder, "dev")
    with pytest.raises(ValueError, match="split must be one of train, validation, test"):
        load_digits(folder, "dev")


@on_data("mnist")
def test_the_originals_are_read_to_the_byte(folder):
    is_whole = len(load_mnist(folder, "train")[0]) == 60_000
    numbers = (60_000, 10_000) if is_whole else (600, 300)
    for part, prefix, number in zip(("train", "test"), ("train", "t10k"), numbers, strict=True):
        images, labels = load_mnist(folder, part)
        assert images.shape == (number, 28, 28)
        for name, array in (("images-idx3", images), ("labels-idx1", labels.to(torch.uint8))):
            file = f"{prefix}-{name}-ubyte"
            with gzip.open(folder / f"{file}.gz") as stream:
                content = stream.read()
            assert hashlib.md5(content).hexdigest() == _MD5[file] or not is_whole
            assert content.endswith(array.numpy().tobytes())
    assert len(load_digits(folder, "train")[0]) == numbers[0] // 6 * 5
    assert len(load_digits(folder, "validation")[0]) == numbers[0] // 6
    assert labels[:5].tolist() == [7, 2, 1, 0, 4]  # as everybody knows them
