import gzip
import hashlib
import struct
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage
from scipy.linalg import expm, logm
from torch.nn import functional as F

from equigeo.datasets import AffNIST, HomNIST, digit_canvas, load_digits, read_image
from equigeo.datasets.digits import transformed as module
from equigeo.datasets.digits.readers import IMAGE_FORMATS, load_mnist, read_idx
from equigeo.datasets.digits.transformed import (
    _SCALES,
    _algebra,
    _haar_density,
    centred,
    uniform_draws,
    warp_digits,
)
from equigeo.testing import tolerance
from tests.datasets.digits import synthetic_digits, write_idx, write_mnist
from tests.shared_data import on_data
from tests.tier import tier
from tests.wrong_inputs import refused


@given(shape=st.lists(st.integers(0, 4), min_size=1, max_size=4), compress=st.booleans())
def test_what_is_written_is_read(tmp_path_factory, shape, compress):
    array = np.arange(np.prod(shape)).reshape(shape) % 256
    path = write_idx(tmp_path_factory.mktemp("idx") / "file", array, compress)
    assert torch.equal(read_idx(path), torch.from_numpy(array).to(torch.uint8))


_GOOD = struct.pack(">4B2I", 0, 0, 8, 2, 2, 3) + bytes(6)


def test_a_broken_file_is_named_with_its_fault(tmp_path):
    for content, message in (
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
    ):
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


def test_files_that_do_not_fit_together_raise(tmp_path):
    for name, array, message in (
        ("train-images-idx3-ubyte", torch.zeros(60, 28, 27), r"28 x 28, got \(60"),
        ("train-images-idx3-ubyte", torch.zeros(0, 28, 28), r"28 x 28, got \(0"),
        ("train-images-idx3-ubyte", torch.zeros(60), r"28 x 28, got \(60,"),
        ("train-labels-idx1-ubyte", torch.zeros(59), r"each of the 60 .* got \(59,"),
        ("train-labels-idx1-ubyte", torch.full((60,), 10), "0 to 9, got 10"),
    ):
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


def test_a_damaged_file_is_one_error(tmp_path):
    for name, content, match in (
        ("a.gif", b"GIF89a", r"has the extension '\.gif'; expected \.bmp"),
        ("a.png", b"", "is no image"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(40), "is no image"),
        ("a.jpg", b"P5 1 1 255\n\x00", "is no image"),  # a PGM under another name
        ("a.pgm", b"P5 100000 100000 255\n\x00", "is no image"),
        ("a.pgm", b"P5 10000 10000 255\n\x00", "has 10000 x 10000 pixels, more than 33554432"),
        ("a.pgm", b"P5 9 9 255\n\x00", "is no image"),
    ):
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
    stripe = torch.zeros(41, 1, dtype=torch.uint8)
    stripe[20] = 200
    for image in (stripe, stripe.mT):  # its square would have the square of its pixels
        refused("too narrow for a digit", digit_canvas, image)
    assert digit_canvas(stripe[1:])[0].shape == (40, 40)
    for shape in ((0, 5), (5, 0), (1, 1), (28, 28)):
        refused("shows nothing", digit_canvas, torch.zeros(shape, dtype=torch.uint8))


# Statistics are specified with three digits; 40,000 draws have standard errors below 0.4 %.
SPECIFIED = {"rel": 0.01}
_KINDS = pytest.mark.parametrize("kind", [AffNIST, HomNIST])


def _data(kind, number=12, split="test", variants=range(3), seed=0):
    return kind(*synthetic_digits(number), split, variants, seed)


def _whole(data):
    return data.batch(torch.arange(len(data)))


@_KINDS
def test_pairs_are_in_the_order_of_indices_then_variants(kind):
    data = _data(kind, variants=(5, 2))
    indices, variants = data.pairs(torch.arange(len(data)))
    assert indices.tolist() == [i for i in range(12) for _ in range(2)]
    assert variants.tolist() == [5, 2] * 12
    assert torch.equal(_whole(data)[1], data.labels.repeat_interleave(2))


@given(number=st.integers(1, 36))
def test_a_spread_takes_one_variant_after_the_other_and_digits_evenly(number):
    data = _data(AffNIST, variants=(4, 7, 2))
    indices, variants = data.pairs(data.spread(number))
    whole, rest = divmod(number, 12)
    assert variants.tolist() == [v for v in (4, 7, 2) for _ in range(12)][:number]
    assert indices.tolist()[: 12 * whole] == list(range(12)) * whole
    last = indices[12 * whole :]
    assert len(last) == rest
    if rest > 1:
        assert int(last.diff().amax() - last.diff().amin()) <= 1
        assert 12 - int(last[-1]) <= 12 / rest + 1


@_KINDS
@given(positions=st.lists(st.integers(0, 35), max_size=90), size=st.integers(1, 40))
def test_any_order_and_any_chunking_give_the_same_bits(kind, positions, size):
    data = _data(kind)
    images, labels = _whole(data)
    chosen = torch.tensor(positions, dtype=torch.long)
    some, some_labels = data.batch(chosen)
    assert torch.equal(some, images[chosen])
    assert torch.equal(some_labels, labels[chosen])
    chunks = list(data.chunks(size))
    assert {len(x) for x, _ in chunks[:-1]} <= {size}
    assert torch.equal(torch.cat([x for x, _ in chunks]), images)
    assert torch.equal(torch.cat([y for _, y in chunks]), labels)


@_KINDS
def test_images_depend_on_every_part_of_their_name_alone(kind):
    data = _data(kind, number=12, variants=range(3))
    fewer = _data(kind, number=4, variants=(2,))
    assert torch.equal(_whole(fewer)[0], data.render(torch.arange(4), torch.full((4,), 2)))
    images = _whole(_data(kind))[0]
    for other in (_data(kind, seed=1), _data(kind, split="train"), _data(kind, variants=(3, 4, 5))):
        assert (_whole(other)[0] != images).flatten(1).any(1).all()
    maps = _data(kind).matrices(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]))
    assert len(maps.unique(dim=0)) == 3


@pytest.mark.parametrize("kind", tier([AffNIST], [AffNIST, HomNIST]))
def test_another_process_gives_the_same_bits(kind):
    code = (
        f"import sys; from equigeo.datasets import {kind.__name__} as K;"
        "from tests.datasets.digits import synthetic_digits as d;"
        "x = [i for i, _ in K(*d(12), 'test', range(3)).chunks(5)];"
        "[sys.stdout.buffer.write(i.numpy().tobytes()) for i in x]"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert there == _whole(_data(kind))[0].numpy().tobytes()


def test_uniform_draws_are_those_of_seed_sequences():
    draws = uniform_draws(0, "affnist test", [(0, 0), (9999, 1)], 2)
    words = np.random.SeedSequence([0, 0x82762497, 9999, 1]).generate_state(2, np.uint64)
    np.testing.assert_array_equal(draws[1], ((words >> np.uint64(12)) + 0.5) / 2**52)
    assert ((draws > 0) & (draws < 1)).all()
    assert uniform_draws(0, "affnist test", [], 2).shape == (0, 2)


@_KINDS
def test_the_matrices_draw_the_images(kind):
    # An independent renderer: spline interpolation of order 1 in float64
    data = _data(kind)
    indices, variants = data.pairs(torch.arange(len(data)))
    canvas = centred(data.images).double().numpy()
    y, x = np.mgrid[:40, :40] - 19.5
    triples = zip(_whole(data)[0], indices, data.matrices(indices, variants), strict=True)
    for image, i, matrix in triples:
        u, v, w = np.linalg.inv(matrix.numpy()) @ np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
        # at the edge of the canvas, the published homNIST repeats pixels: all background here
        expected = ndimage.map_coordinates(
            canvas[i], [v / w + 19.5, u / w + 19.5], order=1, mode="nearest"
        ).reshape(40, 40)
        assert np.abs(image.numpy() - expected).max() < 0.501


def test_identity_integer_translations_and_quarter_turns_move_pixels():
    images, _ = synthetic_digits(5)
    shift, turn = np.eye(3), np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    shift[:2, 2] = 3, -2  # to the right and up
    moved = centred(images).roll((-2, 3), (1, 2))
    assert torch.equal(warp_digits(images, np.stack([shift] * 5)), moved)
    # x right and y down: from x to y is clockwise
    turned = centred(images).rot90(-1, (1, 2))
    assert torch.equal(warp_digits(images, np.stack([turn] * 5)), turned)
    images, _ = synthetic_digits(70)
    still = np.broadcast_to(np.eye(3), (70, 3, 3))
    assert torch.equal(warp_digits(images, still), centred(images))
    assert torch.equal(centred(images)[:, 6:34, 6:34], images)
    assert centred(images).sum() == images.sum()


def test_no_digit_pixel_leaves_the_canvas_of_affnist(monkeypatch):
    data = _data(AffNIST, number=50, variants=range(20))
    indices, variants = data.pairs(torch.arange(len(data)))
    matrices = data.matrices(indices, variants).numpy()

    def outside(matrices):
        """Largest value beyond the canvas, drawn on one that is 10 pixels larger on all sides."""
        monkeypatch.setattr(module, "CANVAS", 60)
        monkeypatch.setattr(module, "_CENTER", 29.5)
        large = warp_digits(data.images[indices], matrices)
        large[:, 10:50, 10:50] = 0
        monkeypatch.undo()
        return int(large.max())

    assert outside(matrices) == 0
    further = matrices.copy()
    further[:, 0, 2] += 2
    assert outside(further) > 0  # digits come close enough to the edge for that


def test_translations_of_affnist_are_even_over_what_is_left():
    # Where a digit lies between its extreme places, from its own bounding box
    data = _data(AffNIST, number=20, variants=range(100))
    images = _whole(data)[0] > 0
    places = []
    for axis in (1, 2):
        on = images.any(dim=axis).byte()
        first, last = on.argmax(1), 39 - on.flip(1).argmax(1)
        places.append(first / (first + 39 - last).clamp(min=1))
        assert (first == 0).any()
        assert (last == 39).any()
    # Even numbers have deviation 0.29: more than four standard errors of 2000, 0.0065 of the mean
    # and 0.0029 of the deviation.
    near = 0.03
    for place in places:
        assert place.mean().item() == pytest.approx(0.5, abs=near)
        assert place.std().item() == pytest.approx(12**-0.5, abs=near)


@pytest.fixture(scope="module")
def linear_parts():
    data = _data(AffNIST, number=1, variants=range(40_000))
    return data.matrices(*data.pairs(torch.arange(len(data))))[:, :2, :2].numpy()


@pytest.mark.full
def test_statistics_of_affnist(linear_parts):
    # Specification 4.2 and oracle 23, within 1 %
    left, stretch, right = np.linalg.svd(linear_parts)
    log = np.log(stretch)
    norm, trace = np.hypot(log[:, 0], log[:, 1]), log.sum(axis=1)
    assert norm.mean() == pytest.approx(0.176, **SPECIFIED)
    assert np.sqrt((norm**2).mean()) == pytest.approx(0.184, **SPECIFIED)
    assert np.quantile(norm, 0.95) == pytest.approx(0.262, **SPECIFIED)
    assert 0.3 < norm.max() < 0.34
    assert np.abs(log[:, 0] - log[:, 1]).mean() / 2**0.5 == pytest.approx(0.129, **SPECIFIED)
    assert trace.mean() == pytest.approx(-0.013, abs=0.165 * 3 / 200)
    assert trace.std() == pytest.approx(0.165, **SPECIFIED)
    assert -0.447 < trace.min() < -0.43
    assert 0.34 < trace.max() < 0.365
    rotation = left @ right
    angle = np.degrees(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]))
    assert angle.std() == pytest.approx(12.0, **SPECIFIED)
    assert 24 < np.abs(angle).max() < 26.4


def test_the_factors_of_affnist_are_where_they_should_be(linear_parts):
    # diag(ex, ey) shear rotation: rows are stretched, and the second row is not sheared
    c, s = linear_parts[:, 1, 1], linear_parts[:, 1, 0]
    high, angle = np.hypot(c, s), np.arctan2(s, c)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    first = np.einsum("nj,kjn->nk", linear_parts[:, 0], turn)  # (ex, ex s)
    for values, middle, half in (
        (high, 1, 0.2),
        (first[:, 0], 1, 0.2),
        (first[:, 1] / first[:, 0], 0, 0.2),
        (np.degrees(angle), 0, 20),
    ):
        # None of 40,000 draws is that near to an end with a chance of exp(-40).
        assert np.abs(values - middle).max() == pytest.approx(half, rel=1e-3)
        assert values.mean() == pytest.approx(middle, abs=3 * half / 340)
        # More than four standard errors of 40,000 even draws, 0.45 / 200 each.
        assert values.std() == pytest.approx(half / 3**0.5, rel=0.01)


@pytest.mark.full
def test_homographies_have_determinant_one_and_the_published_spread():
    data = _data(HomNIST, number=1, variants=range(4000))
    maps = data.matrices(*data.pairs(torch.arange(len(data)))).numpy()
    assert np.abs(np.linalg.det(maps) - 1).max() < tolerance(torch.float64, terms=9)["atol"] * 10
    square = np.array([19.5, 19.5, 1.0])
    unit = maps / square[:, None] * square
    found = np.array([np.real(logm(m)) for m in unit[:500]])
    expected = _SCALES * 2**0.5  # a start and one step, almost always taken
    entries = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    for (i, j), scale in zip(entries, expected[[1, 2, 3, 5, 6, 7]], strict=True):
        # Four standard errors, as below.
        assert found[:, i, j].std() == pytest.approx(scale, rel=4 / (2 * 500) ** 0.5)
        assert abs(found[:, i, j].mean()) < 4 * scale / 500**0.5


def test_the_haar_density_of_homographies_is_the_jacobian_of_the_exponential():
    rng = np.random.default_rng(0)
    basis = [_algebra(e[None])[0] for e in np.eye(8)]
    flat = np.array([b.reshape(-1) for b in basis]).T
    step = 1e-6
    for v in rng.normal(size=(3, 8)) * 0.5:
        inverse = expm(-_algebra(v[None])[0])
        ahead, behind = (expm(_algebra(v + sign * step * np.eye(8))) for sign in (1, -1))
        moved = inverse @ (ahead - behind) / (2 * step)
        columns = np.linalg.lstsq(flat, moved.reshape(8, 9).T, rcond=None)[0]
        jacobian = abs(np.linalg.det(columns))
        # Differences of matrices round by 2e-16 / 1e-6 in each of eight columns.
        assert _haar_density(_algebra(v[None]))[0] == pytest.approx(jacobian, rel=1e-7)
    assert _haar_density(np.zeros((1, 3, 3))).tolist() == [1.0]


def test_unfitting_arguments_raise():
    images, labels = synthetic_digits(3)
    for changes, message in (
        ({"images": images[..., :27]}, r"uint8 \(digits, 28, 28\), got"),
        ({"images": torch.zeros(3, 28, 28)}, "got torch.float32"),
        ({"images": 0 * images}, "image 0 is blank"),
        ({"labels": labels[:2]}, r"labels must be \(3,\), got \(2,\)"),
        ({"split": "dev"}, "split must be one of"),
        ({"variants": ()}, "variants must be different"),
        ({"variants": (1, 1)}, "variants must be different"),
        ({"variants": (-1,)}, "not negative"),
        ({"seed": -1}, "seed must not be negative"),
    ):
        refused(message, AffNIST, **{"images": images, "labels": labels, "split": "test"} | changes)


def test_positions_outside_empty_chunks_and_digits_without_space_are_refused():
    data = _data(AffNIST)
    for number in (0, 37):
        refused(f"number must be 1 to 36, got {number}", data.spread, number)
    for position in (-1, 36):
        refused("positions must be 0 to 35", data.batch, torch.tensor([0, position]))
    refused("size must be at least 1", next, data.chunks(0))
    refused(r"28, 28\), got", centred, torch.zeros(40, 40))
    images = torch.full((1, 28, 28), 255, dtype=torch.uint8)
    data = AffNIST(images, torch.zeros(1, dtype=torch.long), "test")
    refused("image 0 is too large: transformed, it spans 4", _whole, data)


@_KINDS
@on_data("mnist")
def test_every_test_digit_of_mnist_has_a_place(kind, folder):
    data = kind(*load_digits(folder, "test"), "test", range(2))
    assert len(data) in (600, 20_000)
    images, labels = data.batch(torch.arange(0, len(data), len(data) // 500))
    assert (images.flatten(1).amax(1) > 100).all()
    assert len(labels.unique()) == 10
