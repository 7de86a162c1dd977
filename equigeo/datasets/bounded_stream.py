"""Size limit for decompressed streams."""

from __future__ import annotations

import io
from typing import IO

_LARGEST_READ = 16 << 20


class BoundedStream(io.RawIOBase):
    """Seekable view of a stream that raises past a number of bytes or for a single huge read."""

    def __init__(
        self,
        stream: IO[bytes],
        limit: int,  # largest position in bytes
    ) -> None:
        super().__init__()
        # Members are copied in small blocks; only the header data of an archive are read in one
        # piece, which must fit in memory.
        self._stream = stream
        self._limit = limit

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True; a compressed stream restarts to seek backwards."""
        return True

    def tell(self) -> int:
        """Return the position in decompressed bytes."""
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
        """Seek relative to the start or the current position."""
        target = offset + (self.tell() if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            raise ValueError("the end of a compressed stream is not known")
        self._check(target)
        return self._stream.seek(target)

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise ValueError(f"it unpacks to more than {self._limit} bytes")
