import gzip
import hashlib
import struct
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional as F

from equigeo.datasets import digit_canvas, load_digits, read_image
from equigeo.datasets.digits.readers import IMAGE_FORMATS, load_mnist, read_idx
from equigeo.datasets.digits.warp import centred
from tests.datasets.digits import synthetic_digits, write_idx, write_mnist
from tests.shared_data import on_data
from tests.wrong_inputs import refused


@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), compress=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, shape, compress):
    array = np.arange(np.prod(shape)).reshape(shape) % 256
    path = write_idx(tmp_path_factory.mktemp("idx") / "file", array, compress)
    assert torch.equal(read_idx(path), torch.from_numpy(array).to(torch.uint8))


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
    assert str(path) in refused(message, read_idx, path)


def test_missing_files_folders_and_gzip_bombs_are_named(tmp_path):
    refused("none: cannot be read as an IDX file: No such file", read_idx, tmp_path / "none")
    refused("directory", read_idx, tmp_path)
    array = read_idx(write_idx(tmp_path / "file", [1, 2]))
    array += 1
    assert array.tolist() == [2, 3]
    content = gzip.compress(_GOOD + bytes(50 << 20), mtime=0)
    (tmp_path / "bomb").write_bytes(content)
    refused("goes on after the 6 bytes", read_idx, tmp_path / "bomb")


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


def test_both_parts_are_read_and_a_sixth_is_for_validation(folder):
    for part, number, seed in (("train", 60, 0), ("test", 20, 1)):
        images, labels = load_mnist(folder, part)
        expected = synthetic_digits(number, seed)
        assert torch.equal(images, expected[0])
        assert torch.equal(labels, expected[1])
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
    images, labels = load_mnist(folder, "train")
    train, validation = load_digits(folder, "train"), load_digits(str(folder), "validation")
    assert (len(train[0]), len(validation[0])) == (50, 10)
    assert torch.equal(torch.cat([train[0], validation[0]]), images)
    assert torch.equal(torch.cat([train[1], validation[1]]), labels)
    assert torch.equal(load_digits(folder, "test")[0], load_mnist(folder, "test")[0])


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("train-images-idx3-ubyte", torch.zeros(60, 28, 27), r"28 x 28, got \(60"),
        ("train-images-idx3-ubyte", torch.zeros(0, 28, 28), r"28 x 28, got \(0"),
        ("train-images-idx3-ubyte", torch.zeros(60), r"28 x 28, got \(60,"),
        ("train-labels-idx1-ubyte", torch.zeros(59), r"each of the 60 .* got \(59,"),
        ("train-labels-idx1-ubyte", torch.full((60,), 10), "0 to 9, got 10"),
    ],
)
def test_files_that_do_not_fit_together_raise(tmp_path, name, array, message):
    folder = write_mnist(tmp_path / "mnist", *synthetic_digits(60), compress=False)
    write_idx(folder / name, array)
    assert str(folder) in refused(message, load_mnist, folder)


def test_a_missing_folder_file_or_part_is_named(tmp_path):
    folder = write_mnist(tmp_path / "mnist", *synthetic_digits(6))
    refused("none: no such folder; expected a folder with the four", load_mnist, tmp_path / "none")
    refused("is no folder", load_mnist, next(folder.iterdir()))
    refused("has no t10k-images-idx3-ubyte; expected", load_mnist, folder, "test")
    refused("part must be train or test, got 'dev'", load_mnist, folder, "dev")
    refused("split must be one of train, validation, test", load_digits, folder, "dev")


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


GREY = np.arange(12 * 9, dtype=np.uint8).reshape(12, 9) * 2


@pytest.mark.parametrize("suffix", [*IMAGE_FORMATS, ".PNG"])
def test_every_format_is_read(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    Image.fromarray(GREY).save(path)
    found = read_image(path)
    assert found.dtype == torch.uint8
    # JPEG rounds its waves; the others keep every value
    lossy = suffix in (".jpg", ".jpeg")
    assert np.abs(found.numpy().astype(int) - GREY).max() <= (16 if lossy else 0)


def test_modes_transparency_and_turns_become_grey_pixels(tmp_path):
    path = tmp_path / "a.png"
    for mode in ("1", "P", "L", "RGB"):
        Image.fromarray(GREY).convert(mode).save(path)
        assert read_image(path).shape == (12, 9)
    deep = np.full((3, 4), 65535, np.uint16)
    deep[2, 1] = 32767
    Image.fromarray(deep).save(path)
    assert read_image(path).unique().tolist() == [127, 255]
    image = Image.new("RGBA", (4, 3), (0, 0, 0, 0))
    image.putpixel((1, 2), (0, 0, 0, 255))
    image.save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    assert (int(found[2, 1]), int(found.sum())) == (0, 11 * 255)
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[274] = 3  # upside down
    image.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png").numpy(), GREY[::-1, ::-1])


def test_white_strokes_before_nothing_are_seen_and_images_of_nothing_raise(tmp_path):
    path = tmp_path / "a.png"
    strokes = np.full((28, 28, 4), 255, np.uint8)
    strokes[..., 3] = 0
    strokes[8:20, 13:15, 3] = 255
    Image.fromarray(strokes).save(path)
    assert np.array_equal(read_image(path).numpy(), strokes[..., 3])
    for grey, alpha in product([0, 128, 255], [0, 100, 255]):
        for mode, color in (("RGBA", (grey, grey, grey, alpha)), ("L", grey)):
            Image.new(mode, (4, 3), color).save(path)
            refused("shows nothing: all of its pixels are equal", read_image, path)


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.gif", b"GIF89a", r"has the extension '\.gif'; expected \.bmp"),
        ("a.png", b"", "is no image"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(40), "is no image"),
        ("a.jpg", b"P5 1 1 255\n\x00", "is no image"),  # a PGM under another name
        ("a.pgm", b"P5 100000 100000 255\n\x00", "is no image"),
        ("a.pgm", b"P5 10000 10000 255\n\x00", "has 10000 x 10000 pixels, more than 33554432"),
        ("a.pgm", b"P5 9 9 255\n\x00", "is no image"),
    ],
)
def test_a_damaged_file_is_one_error(tmp_path, name, content, match):
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path) not in refused(match, read_image, tmp_path / name)


def test_limits_and_missing_files(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    refused("does not exist", read_image, tmp_path / "b.png")
    (tmp_path / "c.png").mkdir()
    refused("is no regular file", read_image, tmp_path / "c.png")
    monkeypatch.setattr(f"{read_image.__module__}._MAX_PIXELS", 100)
    refused("has 9 x 12 pixels, more than 100", read_image, tmp_path / "a.png")
    monkeypatch.setattr(f"{read_image.__module__}._MAX_BYTES", 10)
    refused("has more than 10 bytes", read_image, tmp_path / "a.png")


DIGIT = synthetic_digits(1)[0][0]


def test_sizes_of_data_sets_are_taken_larger_ones_scaled_and_bright_ones_inverted():
    canvas = centred(DIGIT)
    for image in (DIGIT, canvas):
        found, note = digit_canvas(image)
        assert torch.equal(found, canvas)
        assert note == ""
    found, note = digit_canvas(255 - DIGIT)
    assert torch.equal(found, centred(DIGIT))
    assert note == "inverted, for its border is bright"
    large = F.interpolate(canvas[None, None], scale_factor=5, mode="nearest")[0, 0]
    found, note = digit_canvas(large)
    assert note == "scaled from 200 x 200"
    # the filter reaches over a pixel of the canvas to each side; mass stays
    assert float(found.sum()) == pytest.approx(float(canvas.sum()), rel=1e-2)
    far = F.max_pool2d(canvas[None].float(), 3, 1, 1)[0] == 0
    assert int(found[far].max()) == 0


def test_an_oblong_image_keeps_its_proportions_and_an_image_of_nothing_raises():
    for shape in ((28, 100), (100, 28)):
        image = torch.zeros(shape, dtype=torch.uint8)
        image[tuple(slice(n // 2 - 10, n // 2 + 10) for n in shape)] = 200
        found, _ = digit_canvas(image)
        rows, columns = (int((found > 100).any(axis).sum()) for axis in (1, 0))
        assert rows == columns == 8  # 20 of 100 pixels
    for shape in ((0, 5), (5, 0), (1, 1), (28, 28)):
        refused("shows nothing", digit_canvas, torch.zeros(shape, dtype=torch.uint8))
