"""Normalization of text files to plain bytes and one line ending."""

from __future__ import annotations

import codecs
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equigeo.mesh.errors import MeshError
from equigeo.mesh.geometry.connectivity import concatenate_ranges
from equigeo.mesh.io.file_mesh import MAX_NO_NUMBERS, scale_colors

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


_NEWLINE, _RETURN, _HASH, _BACKSLASH, _SPACE = (ord(c) for c in "\n\r#\\ ")
_IS_SPACE = np.isin(np.arange(256), np.frombuffer(b" \t\n\v\f\r", np.uint8))
_LONGEST = 64  # bytes; a longer word is no number, and would widen the whole string array
# What stands for a word that is no number, and words that are none: whatever is not a number of at
# most so many bytes. Integers of more than 18 digits count nothing that a file can hold.
_BAD = {np.float64: float("nan"), np.int64: int(np.iinfo(np.int64).min)}
_NO_DIGIT = re.compile(rb"[^\d+\- ]")
_NO_FLOAT, _NO_INTEGER = (
    re.compile(rb"(?<!\S)(?!(?=\S{1,%d}(?!\S))[+-]?(?:%s)(?!\S))\S+" % (_LONGEST, number))
    for number in (
        rb"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:nan|inf|infinity)",
        rb"0*\d{1,18}",
    )
)


class TokenTable:
    """Words of a text as byte offsets per line; comments are blanked and continued lines joined."""

    def __init__(
        self,
        text: bytes,  # lines separated by newlines
        *,
        comments: bool = True,  # whether "#" and a backslash before a line end have a meaning
    ) -> None:
        # `data`: bytes without comments; `start`, `stop` (words,): byte offsets; words of line i
        # are `line_ptr[i]` to `line_ptr[i + 1]`. Lines without words are skipped.
        data = np.frombuffer(text, np.uint8)
        self._newlines = np.flatnonzero(data == _NEWLINE)
        if comments and (b"#" in text or b"\\" in text):
            data = data.copy()
            hashes = np.flatnonzero(data == _HASH)
            _join_continued_lines(data, self._newlines, hashes)
            _blank_comments(data, hashes)
        word = np.zeros(len(data) + 2, bool)
        word[1:-1] = ~_IS_SPACE[data]
        changes = np.flatnonzero(word[1:] != word[:-1])
        self.data = data
        self.start, self.stop = changes[::2], changes[1::2]
        breaks = np.searchsorted(self.start, np.flatnonzero(data == _NEWLINE))
        ends = np.append(breaks, len(self.start))
        self.line_ptr = np.append(0, ends[np.diff(ends, prepend=0) > 0])

    @property
    def num_lines(self) -> int:
        """Number of lines with at least one word."""
        return len(self.line_ptr) - 1

    def line_number(self, word: Any) -> Any:
        """Return the line number in the file, from 1, of a word or of an array of words."""
        return np.searchsorted(self._newlines, self.start[word]) + 1

    def line_words(self, line: int) -> list[bytes]:
        """Return the words of one line."""
        if line >= self.num_lines:
            return []
        first, last = self.line_ptr[line], self.line_ptr[line + 1] - 1
        return self.data[self.start[first] : self.stop[last]].tobytes().split()

    def first_words_equal(self, word: str) -> NDArray[np.int64]:
        """Return the lines that start with a given word."""
        first = self.line_ptr[:-1]
        return np.flatnonzero(self.words_equal(word, first))

    def words_equal(
        self,
        word: str,
        words: NDArray[np.int64] | slice = slice(None),  # default: all
    ) -> NDArray[np.bool_]:
        """Return whether words are equal to a given one."""
        begin = self.start[words]
        equal = self.stop[words] - begin == len(word)
        found = np.flatnonzero(equal)
        for place, letter in enumerate(word):
            found = found[self.data[begin[found] + place] == ord(letter)]
        equal[:] = False
        equal[found] = True
        return equal

    def is_nan(self, words: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether words begin as a NaN does, after a sign."""
        start = self.start[words]
        start += np.isin(self.data[start], (ord("+"), ord("-")))
        return (self.data[np.minimum(start, len(self.data) - 1)] | 32) == ord("n")

    def between_slashes(
        self,
        words: NDArray[np.int64],  # (n,)
        number: int,  # of slashes before the text, which ends at the next one: 0, 1 or 2
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return start and stop of a text between slashes; empty where there is none."""
        slashes = np.append(np.flatnonzero(self.data == ord("/")), len(self.data))
        first = np.searchsorted(slashes, self.start[words])
        start, stop, last = self.start[words], self.stop[words], len(slashes) - 1
        if number:
            start = np.minimum(slashes[np.minimum(first + number - 1, last)] + 1, stop)
        if number < 2:
            stop = np.minimum(slashes[np.minimum(first + number, last)], stop)
        return np.minimum(start, stop), stop

    def numbers(
        self,
        words: NDArray[np.int64],  # (n,) ascending
        kind: type[float] | type[int],
        stop: NDArray[np.int64] | None = None,  # (n,) ends of the words, if cut
        start: NDArray[np.int64] | None = None,  # (n,) starts of the words, if cut
    ) -> NDArray[Any]:
        """Convert words to float64 or int64 (n,)."""
        # A malformed word is NaN or the smallest int64, as are all integers after it.
        stop = self.stop[words] if stop is None else stop
        start = self.start[words] if start is None else start
        dtype = np.float64 if kind is float else np.int64
        size = stop - start
        full = size > 0  # the part before a slash may be empty
        if not full.all():
            values = np.full(len(words), _BAD[dtype], dtype)
            values[full] = self.numbers(words[full], kind, stop[full], start[full])
            return values
        if not len(words):
            return np.zeros(0, dtype)
        text, is_short = self._joined(start, stop), bool(size.max() <= _LONGEST)
        if kind is float:
            return _coordinates(text, is_short)
        return _indices(text, is_short, len(words))

    def _joined(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> bytes:
        """Concatenate words, separated by spaces."""
        # Blanking all other bytes and splitting once is ten times faster than slicing.
        first, last = int(start[0]), int(stop[-1])
        edge = np.zeros(last - first + 1, np.int8)
        edge[start - first] = 1
        edge[stop - first] = -1
        inside = np.cumsum(edge, dtype=np.int8).view(bool)
        kept = inside.copy()
        kept[1:] |= inside[:-1]  # one byte more, to separate words
        data = np.append(self.data[first:last], np.uint8(_SPACE))
        return np.where(inside[kept], data[kept], np.uint8(_SPACE)).tobytes()


def _coordinates(text: bytes, is_short: bool) -> NDArray[np.float64]:
    """Convert words to float64, NaN if malformed."""
    if is_short and b"_" not in text:  # which NumPy would take for a part of a number
        try:
            return np.array(text.split(), np.bytes_).astype(np.float64)
        except ValueError:
            pass
    text, count = _NO_FLOAT.subn(b"nan", text, MAX_NO_NUMBERS + 1)
    if count > MAX_NO_NUMBERS:
        raise MeshError(f"has more than {MAX_NO_NUMBERS} coordinates that are no numbers")
    return np.array(text.split(), np.bytes_).astype(np.float64)


def _indices(text: bytes, is_short: bool, count: int) -> NDArray[np.int64]:
    """Convert words to int64 up to the first malformed one; no reader can continue after it."""
    values = np.full(count, _BAD[np.int64], np.int64)
    odd = _NO_DIGIT.search(text)  # faster than to look at words, of which most are digits alone
    text = text if odd is None else text[: text.rfind(b" ", 0, odd.start()) + 1]
    words = text.split()
    if is_short:
        try:
            values[: len(words)] = np.array(words, np.bytes_).astype(np.int64) if words else 0
            return values
        except (ValueError, OverflowError):
            pass
    bad = _NO_INTEGER.search(text)
    words = (text if bad is None else text[: bad.start()]).split()
    values[: len(words)] = np.array(words, np.bytes_).astype(np.int64) if words else 0
    return values


def _join_continued_lines(
    data: NDArray[np.uint8], newlines: NDArray[np.int64], hashes: NDArray[np.int64]
) -> None:
    """Blank each backslash before a line end, and that line end; not in comments."""
    before = newlines - 1
    before = before - ((before >= 0) & (data[before] == _RETURN))
    continued = (before >= 0) & (data[before] == _BACKSLASH)
    line_start = np.append(0, newlines[:-1] + 1)
    continued &= np.searchsorted(hashes, line_start) == np.searchsorted(hashes, newlines)
    data[before[continued]] = _SPACE
    data[newlines[continued]] = _SPACE


def _blank_comments(data: NDArray[np.uint8], hashes: NDArray[np.int64]) -> None:
    newlines = np.append(np.flatnonzero(data == _NEWLINE), len(data))
    ends = newlines[np.searchsorted(newlines, hashes)]
    first = np.append(True, ends[1:] != ends[:-1])[: len(hashes)]
    edge = np.zeros(len(data) + 1, np.int8)
    edge[hashes[first]] = 1
    edge[ends[first]] = -1
    data[np.cumsum(edge[:-1], dtype=np.int8).view(bool)] = _SPACE


_SHOWN = 80  # bytes of a line or a word that a message repeats


def read_rows(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) words per row, at most `width`
    width: int,
) -> NDArray[np.float64]:
    """Read rows of numbers (rows, width); NaN for missing or malformed words."""
    rows = np.full((len(first), width), np.nan)
    words = concatenate_ranges(first, counts)
    rows[np.arange(width) < counts[:, None]] = table.numbers(words, float)
    return rows


def read_values(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) words per row
    name: str,  # of the values, for the warning
    warnings: list[str],
) -> NDArray[np.float64]:
    """Read rows of numbers, NaN where missing, with a warning for words that are not numbers."""
    values = read_rows(table, first, counts, int(counts.max(initial=0)))
    wanted = np.arange(values.shape[1]) < counts[:, None]
    bad = int((np.isnan(values) & wanted).any(axis=1).sum())
    if bad:
        warnings.append(f"{bad} times the {name} is no number: NaN there")
    return values


def read_colors(
    table: TokenTable,
    first: NDArray[np.int64],  # (rows,) first word of each row
    counts: NDArray[np.int64],  # (rows,) 0, 3 or 4 words per row
    owners: str,  # for the warning
    warnings: list[str],
) -> NDArray[np.float64] | None:
    """Read colors (rows, 3 or 4) in [0, 1]; None, with a warning, if any is out of range."""
    scaled = scale_colors(read_values(table, first, counts, "color", warnings))
    if scaled is None:
        warnings.append(f"colors of {owners} are neither from 0 to 1 nor from 0 to 255; left out")
        return None
    scaled[counts == 3, 3:] = 1.0  # opaque, where others have an opacity
    return scaled


def read_indices(
    table: TokenTable,
    words: NDArray[np.int64],  # (n,) ascending
    stop: NDArray[np.int64] | None = None,  # (n,) ends of the words, if cut
    *,
    start: NDArray[np.int64] | None = None,  # (n,) starts of the words, if cut
    what: str = "vertex number",  # description for the message
) -> NDArray[np.int64]:
    """Read integers (n,) as written in the file; raise ``MeshError`` for malformed words."""
    indices: NDArray[np.int64] = table.numbers(words, int, stop, start)
    bad = indices == np.iinfo(np.int64).min  # marks malformed words
    if bad.any():
        word = words[bad.argmax()]
        text = table.data[table.start[word] : table.stop[word]].tobytes()
        raise MeshError(
            f"line {table.line_number(word)}: expected a {what}, "
            f"got {text[:_SHOWN].decode(errors='replace')!r}; export the mesh again"
        )
    return indices


def warn_of_nonfinite(
    table: TokenTable,
    vertices: NDArray[np.float64],  # (vertices, 3)
    first: NDArray[np.int64],  # (vertices,) first word of each line
) -> tuple[str, ...]:
    """Return a warning about vertices that are not three finite numbers, or an empty tuple."""
    bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if not len(bad):
        return ()
    word = first[bad[0]]
    line = int(np.searchsorted(table.line_ptr, word, side="right")) - 1
    text = b" ".join(table.line_words(line))[:_SHOWN].decode(errors="replace")
    what = "1 vertex is" if len(bad) == 1 else f"{len(bad)} vertices are"
    return (f"{what} not three finite numbers, first in line {table.line_number(word)}: {text!r}",)
