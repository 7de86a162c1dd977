"""Files that would take long, or much memory, and what is said about them."""

from collections.abc import Callable

import numpy as np

from tests.mesh.io.mesh_texts import ply_header, ply_text

TRIANGLE = b"v 0 0 0\nv 1 0 0\nv 0 1 0\n"
MILLIONS = 5_000_000


def ply_with_comments(count: int) -> bytes:
    return ply_text().replace(b"element", b"comment nothing\n" * count + b"element", 1)


def ply_with_lists(count: int) -> bytes:
    lists = b"property list uchar int a%d\n"
    many = b"".join(lists % k for k in range(count))
    header = b"ply\nformat binary_little_endian 1.0\nelement face 1\n" + many
    return header + b"end_header\n" + bytes(10**5)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "comments.ply": (lambda: ply_with_comments(2_000_000), "no 'end_header' in its first 1048576"),
    "false_end.ply": (
        lambda: ply_text().replace(
            b"element", b"comment end_headers\n" * 2_000_000 + b"element", 1
        ),
        "no 'end_header' in its first 1048576",
    ),
    "blank.ply": (
        lambda: b"ply\n" + b"\n" * 10**6 + b"end_header\n",
        "has no faces|cannot be read",
    ),
    "blank_long.ply": (lambda: b"ply\n" + b"\n" * 10**7 + b"end_header\n", "no 'end_header'"),
    "lists.ply": (lambda: ply_with_lists(20_000), "20001 elements and properties, more than 256"),
    "corners.ply": (
        lambda: (
            ply_header("ascii", 3, 1) + b"0 0 0\n1 0 0\n0 1 0\n%d " % MILLIONS + b"1 " * MILLIONS
        ),
        "a line of 10000009 bytes, more than 1048576",
    ),
    "promise.ply": (lambda: ply_header("ascii", 10**17, 10**17) + b"0 0 0\n", "announces 1000000"),
    "list_length.ply": (
        lambda: (
            ply_header("binary_little_endian", 0, 3).replace(b"uchar", b"uint") + b"\xff" * 10**6
        ),
        "cannot be read|truncated|announces",
    ),
    "corners.obj": (lambda: TRIANGLE + b"f" + b" 1" * MILLIONS, "face 0 has 5000000 corners"),
    "continued.obj": (
        lambda: TRIANGLE + b"f" + b" 1 \\\n" * (MILLIONS // 2),
        "face 0 has 2500000 corners, more than 65536; cut it into triangles",
    ),
    "no_numbers.obj": (
        lambda: b"v x y z\n" * 600_000 + b"f 1 2 3\n",
        "more than 65536 coordinates that are no numbers",
    ),
    "no_indices.obj": (
        lambda: TRIANGLE + b"f 1 2 3\n" * 500_000 + b"f a b c\n",
        "line 500004: expected a vertex number, got 'a'",
    ),
    "slashes.obj": (lambda: TRIANGLE + b"f / // /1\n" * 200_000, "expected a vertex number, got"),
    "corners.off": (
        lambda: b"OFF 3 1 0\n0 0 0\n1 0 0\n0 1 0\n%d" % MILLIONS + b" 1" * MILLIONS,
        "face 0 has 5000000 corners, more than 65536",
    ),
    "promise.off": (lambda: b"OFF %d 1 0\n0 0 0\n" % 10**17, "announces 100000000000000000"),
    "words.off": (lambda: b"OFF 1000 1000 0\n" + b"a " * MILLIONS, "announces|expected"),
    "solids.stl": (lambda: b"solid\nendsolid\n" * 10**6, "1000000 solids, more than 8192"),
    "promise.stl": (lambda: bytes(80) + b"\xff" * 4 + bytes(500), "announces 4294967295 triangles"),
    "noise.stl": (lambda: b"solid" + np.random.default_rng(0).bytes(10**6), "announces|is not|can"),
}
