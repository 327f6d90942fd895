"""The strings of an Arrow column one at a time, read from its buffers.

Arrow makes an object for a value before it makes a string of it, which takes twice as long; a
search and a row are a dozen of them, and that is most of what looking an id up takes.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["Texts"]


class Texts:
    """A column of type string, by position from 0; for ``bisect`` too."""

    __slots__ = ("_bytes", "_first", "_offsets", "_valid")

    def __init__(self, column: pa.Array) -> None:
        if column.type != pa.string():
            message = f"a column of strings is needed, not of {column.type}"
            raise TypeError(message)
        valid, offsets, content = column.buffers()
        #: Where this column begins in its buffers, which other slices may share.
        self._first = column.offset
        all_offsets = memoryview(offsets or bytes(4)).cast("B").cast("i")
        self._offsets = all_offsets[column.offset : column.offset + len(column) + 1]
        self._bytes = memoryview(content or b"").cast("B")
        self._valid = memoryview(valid).cast("B") if column.null_count else None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> str:
        """Return a string that is there: of a NULL it makes an empty one."""
        offsets = self._offsets
        return str(self._bytes[offsets[index] : offsets[index + 1]], "utf-8")

    def get(self, index: int) -> str | None:
        """Return a string, or None for a NULL."""
        if self._valid is not None:
            bit = self._first + index
            if not self._valid[bit >> 3] >> (bit & 7) & 1:
                return None
        return self[index]
