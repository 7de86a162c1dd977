"""Text files to plain bytes with one kind of line end."""

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


def normalize_text(data: bytes, *, binary_is_text: bool = False) -> bytes:
    r"""Remove what encodings and editors add: byte order marks, wide characters, lone returns.

    Parameters
    ----------
    data : bytes
        A text file as read. Without a mark it may be in any encoding that extends ASCII.
    binary_is_text : bool, keyword-only
        Whether to let zero bytes pass.

    Returns
    -------
    bytes
        The same lines, in ASCII or an extension of it, separated by ``\n``.

    Raises
    ------
    MeshError
        If the file is empty, holds binary data or breaks the encoding that its mark announces.

    Examples
    --------
    >>> normalize_text("v 0 0 1\rf 1 1 1".encode("utf-16"))
    b'v 0 0 1\nf 1 1 1'
    """
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
