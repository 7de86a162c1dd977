"""A decompressed stream that stops a decompression bomb."""

from __future__ import annotations

import io
from typing import IO

_LARGEST_READ = 16 << 20


class BoundedStream(io.RawIOBase):
    """A readable, seekable view of a stream that refuses to go past a number of bytes.

    Members of an archive are copied in small blocks; only an archive's own header data is read in
    one piece, so a single large read is refused as well: it would have to fit in memory.

    Parameters
    ----------
    stream : binary file
        What to read, such as an open gzip file.
    limit : int
        Largest position in bytes.

    Raises
    ------
    ValueError
        From ``read`` and ``seek``, when the position would pass ``limit`` or one read is larger
        than 16 MiB.

    Examples
    --------
    >>> BoundedStream(io.BytesIO(b"abc"), limit=2).read(3)
    Traceback (most recent call last):
        ...
    ValueError: it unpacks to more than 2 bytes
    """

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        super().__init__()
        self._stream = stream
        self._limit = limit

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can seek; backwards, a compressed stream starts over."""
        return True

    def tell(self) -> int:
        """Give the position in decompressed bytes."""
        return self._stream.tell()

    def read(self, size: int = -1) -> bytes:
        """Read ``size`` bytes, or all that remain within the limit."""
        if size < 0:
            size = self._limit + 1 - self.tell()
        if size > _LARGEST_READ:
            raise ValueError(f"it wants {size} bytes in one piece")
        data = self._stream.read(size)
        self._check(self.tell())
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position from the start or the present one."""
        target = offset + (self.tell() if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            raise ValueError("the end of a compressed stream is not known")
        self._check(target)
        return self._stream.seek(target)

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise ValueError(f"it unpacks to more than {self._limit} bytes")
