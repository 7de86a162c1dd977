"""Normalisation of text files to plain bytes and one line ending."""

from __future__ import annotations

import codecs

from equigeo.mesh.errors import MeshError

_MARKS = (  # longest first: the mark of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)


def normalize_text(
    data: bytes,  # without a byte order mark, any extension of ASCII
    *,
    binary_is_text: bool = False,  # whether zero bytes are allowed
) -> bytes:
    """Decode marked text and convert old Macintosh line endings to newlines."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                data = data.decode(encoding).encode()
            except UnicodeDecodeError as error:
                raise MeshError(f"is not valid {encoding} text: {error.reason}") from None
            break
    if not data.strip():
        raise MeshError("is empty; export the mesh again")
    if b"\0" in data and not binary_is_text:
        raise MeshError("holds binary data where text was expected; check the file's extension")
    # Files of old Macintosh programs end their lines with a return alone.
    return data if b"\n" in data else data.replace(b"\r", b"\n")
