"""Files in pages with checksums, as HDF5's library sees them: every byte that it reads has been compared before."""

from __future__ import annotations

import abc
import io
import os

SKIPPED = 4096
"""Bytes at the beginning that are not part of the content: HDF5's user block, which its library never reads."""

SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of the content. They are missing on disk while a file is changed in place."""

PAGE = 64 * 1024


class AbstractPagedFile(io.RawIOBase, abc.ABC):
    """A file object whose content comes in pages; the skipped bytes read as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Bytes of the content, with those that are skipped."""

    @abc.abstractmethod
    def page(self, number: int) -> bytes | bytearray:
        """One page, the last one as long as the size says."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        return self._position

    def readinto(self, buffer: memoryview | bytearray, /) -> int:
        view = memoryview(buffer).cast("B")
        view = view[: max(0, self.size - self._position)]
        done = 0
        while done < len(view):
            number, at = divmod(self._position + done, PAGE)
            part = memoryview(self.page(number))[at : at + len(view) - done]
            view[done : done + len(part)] = part
            done += len(part)
        self._position += done
        return done


def page_count(size: int) -> int:
    """The number of pages of a content of that size."""
    return -(-size // PAGE)
