"""Size limit for decompressed streams."""

from __future__ import annotations

from typing import IO

_LARGEST_READ = 16 << 20


class BoundedStream:
    """View of a stream that raises past a number of bytes or for a single huge read."""

    def __init__(
        self,
        stream: IO[bytes],
        limit: int,  # largest position in bytes
    ) -> None:
        # Members are copied in small blocks; only the header data of an archive are read in one
        # piece, which must fit in memory.
        self._stream, self._limit = stream, limit
        self.tell = stream.tell

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        if size > _LARGEST_READ:
            raise ValueError(f"it wants {size} bytes in one piece")
        data = self._stream.read(size)
        self._check(self.tell())
        return data

    def seek(self, position: int) -> int:
        """Seek from the start."""
        self._check(position)
        return self._stream.seek(position)

    def _check(self, position: int) -> None:
        if position > self._limit:
            raise ValueError(f"it unpacks to more than {self._limit} bytes")
