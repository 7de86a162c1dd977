"""Images of every format and mode are grey values, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from equigeo.datasets import read_image
from equigeo.datasets.digits.read_image import IMAGE_FORMATS

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


def test_modes_become_grey(tmp_path):
    path = tmp_path / "a.png"
    for mode in ("1", "P", "L", "RGB"):
        Image.new(mode, (4, 3), 1 if mode != "RGB" else "white").save(path)
        assert read_image(path).shape == (3, 4)
    Image.fromarray(np.full((3, 4), 65535, np.uint16)).save(path)
    assert read_image(path).unique().tolist() == [255]
    Image.fromarray(np.full((3, 4), 32767, np.uint16)).save(path)
    assert read_image(path).unique().tolist() == [127]


def test_what_is_transparent_is_seen_before_white(tmp_path):
    image = Image.new("RGBA", (4, 3), (0, 0, 0, 0))
    image.putpixel((1, 2), (0, 0, 0, 255))
    image.save(tmp_path / "a.png")
    found = read_image(tmp_path / "a.png")
    assert (int(found[2, 1]), int(found.sum())) == (0, 11 * 255)


def test_the_turn_of_a_camera_is_undone(tmp_path):
    image = Image.fromarray(GREY)
    exif = image.getexif()
    exif[274] = 3  # upside down
    image.save(tmp_path / "a.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "a.png").numpy(), GREY[::-1, ::-1])


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
    with pytest.raises(ValueError, match=match) as caught:
        read_image(tmp_path / name)
    assert str(tmp_path) not in str(caught.value)


def test_limits_and_missing_files(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="does not exist"):
        read_image(tmp_path / "b.png")
    (tmp_path / "c.png").mkdir()
    with pytest.raises(ValueError, match="is no regular file"):
        read_image(tmp_path / "c.png")
    monkeypatch.setattr(f"{read_image.__module__}._MAX_PIXELS", 100)
    with pytest.raises(ValueError, match="has 9 x 12 pixels, more than 100"):
        read_image(tmp_path / "a.png")
    monkeypatch.setattr(f"{read_image.__module__}._MAX_BYTES", 10)
    with pytest.raises(ValueError, match="has more than 10 bytes"):
        read_image(tmp_path / "a.png")
