"""Files that change by commits: whatever ends their writer, readers see the last whole one.

HDF5's library changes a file in many places, and a process that ends in between would leave one that nobody can read.
So it writes into a `Transaction` in memory, whose commit

1. writes what lies beyond the old content, and then a *seal*: checksums of all pages, and a journal of the changes
   within the old content; the former seal stays as it is,
2. writes where the seal is to one of two slots in the user block, in one small piece: from now on the commit counts,
3. makes the changes of the journal.

Readers apply the journal in memory, so they don't depend on 3. While it is carried out, the signature of HDF5 is taken
away, so that programs that know nothing of journals refuse a file that is half changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Self, final

import google_crc32c
import numpy as np

from polhode.storage import commits
from polhode.storage.commits import MAGIC, Commit, State, open_regular, read_bytes, read_state, write_bytes
from polhode.storage.documents import digest
from polhode.storage.errors import DamageError, StoreError
from polhode.storage.paged_file import PAGE, SIGNATURE, SKIPPED, AbstractPagedFile, page_count

try:
    import fcntl
except ImportError:  # Windows: programs that don't know of journals are not kept out while a run is written.
    fcntl = None

_CACHE = 64
"""Pages that readers keep."""


def _checksum(page: bytes | bytearray) -> int:
    return google_crc32c.value(bytes(page))


@final
class VerifiedFile(AbstractPagedFile):
    """The content by the last commit, read page by page; each is compared with its checksum.

    Where a writer has made another commit since, pages are read by that one. `damage` is the first damage that was
    met, in words, since HDF5's library does not always pass on what goes wrong.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._handle = open_regular(path)
        self._cache: dict[int, bytes] = {}
        self.damage = ""
        try:
            self.state = read_state(self._handle)
        except BaseException:
            # As the finaliser does: a handle that is closed twice may be another file's by then.
            self.close()
            raise

    @property
    def size(self) -> int:
        return self.state.commit.size

    def close(self) -> None:
        if not self.closed:
            os.close(self._handle)
        super().close()

    def page(self, number: int) -> bytes:
        if number not in self._cache:
            page = self._verify(number)
            while len(self._cache) >= _CACHE:
                del self._cache[next(iter(self._cache))]
            self._cache[number] = page
        return self._cache[number]

    def _verify(self, number: int) -> bytes:
        while True:
            try:
                page = _page(self._handle, self.state, number)
                if _checksum(page) == self.state.checksums[number]:
                    return page
                problem = f"its bytes {number * PAGE} to {number * PAGE + len(page)} are not those that were written"
            except DamageError as error:
                problem = str(error)
            former, self.state = self.state.commit, read_state(self._handle)
            if self.state.commit == former:
                self.damage = self.damage or problem
                raise DamageError(problem)
            self._cache.clear()


def _page(handle: int, state: State, number: int) -> bytes:
    """A page with the changes of the journal, whether or not they are made in the file."""
    start, stop = number * PAGE, min((number + 1) * PAGE, state.commit.size)
    page = bytearray(read_bytes(handle, stop - start, start))
    for at, data in state.journal:
        low, high = max(at, start), min(at + len(data), stop)
        if low < high:
            page[low - start : high - start] = data[low - at : high - at]
    if number == 0:
        page[: SKIPPED + len(SIGNATURE)] = bytes(SKIPPED) + SIGNATURE
    return bytes(page)


@final
class Transaction(AbstractPagedFile):
    """The content with changes that are in memory only."""

    def __init__(self, former: VerifiedFile | None) -> None:
        super().__init__()
        self._former, self._size = former, 0 if former is None else former.size
        self.pages: dict[int, bytearray] = {}
        self.changes: dict[int, int] = {}
        """Places and lengths of what was written."""

    @property
    def size(self) -> int:
        return self._size

    def writable(self) -> bool:
        return True

    def page(self, number: int) -> bytes | bytearray:
        former, length = self._former, min(PAGE, self._size - number * PAGE)
        page = self.pages.get(number)
        if page is None:
            page = former.page(number)[:length] if former is not None and number * PAGE < former.size else b""
        page += bytes(max(0, length - len(page)))
        return page

    def write(self, data: bytes | memoryview, /) -> int:
        view, at = memoryview(data).cast("B"), self._position
        count = len(view)
        self._position += count
        self._size = max(self._size, self._position)
        self.changes[at] = max(count, self.changes.get(at, 0))
        while view:
            number, inside = divmod(at, PAGE)
            if number not in self.pages:
                self.pages[number] = bytearray(self.page(number))
            part = view[: PAGE - inside]
            # It may have been shorter before.
            self.page(number)
            self.pages[number][inside : inside + len(part)] = part
            view, at = view[len(part) :], at + len(part)
        return count

    def truncate(self, size: int | None = None, /) -> int:
        self._size = self._position if size is None else size
        for number in [k for k in self.pages if k >= page_count(self._size)]:
            del self.pages[number]
        last, length = divmod(self._size, PAGE)
        if last in self.pages:
            del self.pages[last][length:]
        return self._size

    def read_range(self, start: int, stop: int) -> bytes:
        """Some bytes of the content."""
        self.seek(start)
        return self.read(stop - start)


@final
class JournaledFile:
    """The one writer of a file. Other programs that lock files, as HDF5's library does, don't open it meanwhile.

    - `path`: of the file.
    """

    def __init__(self, path: Path, handle: int, commit: Commit | None) -> None:
        self.path, self._handle = path, handle
        self._commit, self._status = commit, os.fstat(handle)
        try:
            self._lock()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, path: Path, run: str) -> JournaledFile:
        """A new file without content, of that run."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = cls(path, os.open(path, flags, 0o666), Commit(0, run, SKIPPED, SKIPPED, 0, ""))
        write_bytes(file._handle, 0, MAGIC + bytes(SKIPPED - len(MAGIC)))
        return file

    @classmethod
    def open(cls, path: Path) -> JournaledFile:
        """An existing file; changes that its last writer left in the journal are made."""
        file = cls(path, open_regular(path, os.O_RDWR), None)
        try:
            file._recover()
        except BaseException:
            file.close()
            raise
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_at(self, path: Path) -> bool:
        """Whether a path is that of this file, which others can remove or replace."""
        try:
            return os.path.samestat(os.stat(path), self._status)
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Closes the file; twice does no harm."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            os.close(handle)

    @contextlib.contextmanager
    def change(self) -> Generator[Transaction]:
        """A transaction, which is committed at the end if nothing failed. After an error it can be repeated."""
        if self._commit is None:
            self._recover()
        with contextlib.ExitStack() as stack:
            has_content = self._commit is not None and self._commit.number > 0
            former = stack.enter_context(VerifiedFile(self.path)) if has_content else None
            transaction = Transaction(former)
            yield transaction
            self._write_commit(transaction, None if former is None else former.state)

    def _write_commit(self, transaction: Transaction, former: State | None) -> None:
        assert self._commit is not None
        old, self._commit = self._commit, None
        size, common = transaction.size, min(transaction.size, old.size)
        spans = _merge((at, min(at + count, common)) for at, count in transaction.changes.items())
        # The former seal counts until the new one is in place, so what comes over it waits.
        waiting = (max(old.size, old.seal_at), min(size, old.end))
        spans += [waiting] if waiting[0] < waiting[1] else []
        for start, stop in ((old.size, min(size, old.seal_at)), (max(old.size, old.end), size)):
            if start < stop:
                write_bytes(self._handle, start, transaction.read_range(start, stop))
        journal = [(start, transaction.read_range(start, stop)) for start, stop in spans]
        checksums = np.zeros(page_count(size), "<u4")
        if former is not None:
            kept = min(len(checksums), len(former.checksums))
            checksums[:kept] = former.checksums[:kept]
        for number in {*transaction.pages, *range(common // PAGE, len(checksums))}:
            checksums[number] = _checksum(transaction.page(number))
        seal = commits.seal(checksums, journal)
        at = size if size + len(seal) <= old.seal_at else max(size, old.end)
        write_bytes(self._handle, at, seal)
        commit = Commit(old.number + 1, old.run, size, at, len(seal), digest(seal))
        write_bytes(self._handle, commits.SLOTS[commit.number % 2], commit.pack())
        with contextlib.suppress(OSError):
            # Readers don't need it, and the next transaction tries again.
            self._apply(State(commit, checksums, journal))

    def _recover(self) -> None:
        self._apply(read_state(self._handle))

    def _apply(self, state: State) -> None:
        """Make the changes of the journal."""
        write_bytes(self._handle, SKIPPED, bytes(len(SIGNATURE)))
        for at, data in state.journal:
            hidden = len(SIGNATURE) if at == SKIPPED else 0
            write_bytes(self._handle, at + hidden, data[hidden:])
        write_bytes(self._handle, SKIPPED, SIGNATURE)
        self._commit = state.commit

    def _lock(self) -> None:
        """Lock the file as HDF5's library does. Raises StoreError where another program has it open."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"`{self.path}` is open in another program, or in this one, by HDF5's library. Close it there first."
            ) from None
        except OSError:
            # Some network disks have no locks; the library reads without them there.
            return


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of spans, in order."""
    union: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if start >= stop:
            continue
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(stop, union[-1][1]))
        else:
            union.append((start, stop))
    return union
