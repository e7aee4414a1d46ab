"""Paths, patterns and `-` -> sources: each input is opened, looked at, and taken apart if it is an archive."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import FileIO
from pathlib import Path
from typing import Final, cast

from necropsy_parsers.issues import Issues
from necropsy_parsers.source.archive import Archive, Turn
from necropsy_parsers.source.content import HEAD, is_tar, is_zip, unpack
from necropsy_parsers.source.limits import DEFAULT, UNLIMITED, Budget, Limits
from necropsy_parsers.source.model import Source
from necropsy_parsers.source.notes import Notes, ignore
from necropsy_parsers.source.stream import BLOCK, ByteStream, Readable, blocks_of, file_stream, reason
from necropsy_parsers.source.tar import tar_sources
from necropsy_parsers.source.walk import Input, find_inputs
from necropsy_parsers.source.zipdirectory import directory_sources, read_directory
from necropsy_parsers.source.zipwalk import walked_sources

_HEADERS: Final = 16 << 10  # bytes read at once on the way from one tar header to the next


def open_sources(paths: Sequence[str], issues: Issues, limits: Limits = DEFAULT) -> Iterator[Source]:
    """Yield what `paths` hold, in order: see `Source` for when to read it.

    A path is a file, a folder (walked), a pattern (where no such file exists), or `-`. Archives
    (tar, zip) yield a source per member, compressed data is decompressed: the bytes decide, not the
    name. In folders, hidden entries, caches and virtual environments are passed over, and only
    regular files are opened; a pipe is read when it is named. Nothing here raises on content:
    missing, unreadable, cut or damaged inputs are `source/...` issues.
    """
    for entry in find_inputs(paths, issues, limits):
        notes = Notes(issues, entry.name)
        if entry.path is None or entry.pipe:
            yield from _from_pipe(entry, notes, issues, limits)
        else:
            yield from _from_file(entry.path, entry.size, notes, issues, limits)


def _from_file(path: Path, size: int, notes: Notes, issues: Issues, limits: Limits) -> Iterator[Source]:
    with closing(file_stream(path, notes)) as stream:
        raw = stream.peek(HEAD)
        head = unpack(stream, ignore, Budget(UNLIMITED), resume=False).peek(HEAD)
    if notes.kinds:
        return
    archive = Archive(notes, path, lambda: size, issues, limits)
    if is_zip(raw):
        yield from _zip_file(archive, path)
    elif is_tar(head):
        yield from _tar_file(archive, path, plain=is_tar(raw))
    else:

        def start(block: int) -> ByteStream:
            return unpack(file_stream(path, notes, block=block), notes, Budget(limits), replay=replay)

        def replay(position: int) -> ByteStream:
            return file_stream(path, ignore, offset=position)

        yield Source(notes.name, path, size, start, notes)


def _zip_file(archive: Archive, path: Path) -> Iterator[Source]:
    directory = read_directory(path, archive.limits.members)
    if directory is not None:
        if not directory:
            archive.notes("source/empty", "an archive without members")
        yield from directory_sources(archive, path, directory)
        return
    with closing(file_stream(path, archive.notes)) as stream:
        yield from walked_sources(archive, stream, lambda offset: file_stream(path, ignore, offset=offset))
    if not archive.notes.kinds:
        archive.notes("source/corrupt", "its directory is damaged or too long; the members were read one by one")


def _tar_file(archive: Archive, path: Path, *, plain: bool) -> Iterator[Source]:
    def reopen(offset: int) -> ByteStream:
        stream = unpack(file_stream(path, ignore), ignore, Budget(UNLIMITED), replay=replay, resume=False)
        stream.skip(offset)
        return stream

    def replay(position: int) -> ByteStream:
        return file_stream(path, ignore, offset=position)

    notes = archive.notes
    block = _HEADERS if plain else BLOCK  # the members of a plain file are read elsewhere
    with closing(file_stream(path, notes, block=block)) as file:
        stream = unpack(file, notes, archive.budget, replay=replay, resume=False)
        yield from tar_sources(archive, stream, reopen, plain=plain)
        if not plain:
            _drain(stream)


def _drain(stream: ByteStream) -> None:
    """Read on to the end: the compressed data's checksum comes last."""
    while stream.read(BLOCK):
        pass


def _from_pipe(entry: Input, notes: Notes, issues: Issues, limits: Limits) -> Iterator[Source]:
    pipe = _open_pipe(entry, notes)
    if pipe is None:
        return
    archive = Archive(notes, None, pipe.consumed, issues, limits)
    raw = pipe.peek(HEAD)
    stream = unpack(pipe, notes, archive.budget)
    if is_zip(raw):
        yield from walked_sources(archive, pipe, None)
    elif is_tar(stream.peek(HEAD)):
        yield from tar_sources(archive, stream, None, plain=False)
        _drain(stream)
    else:
        turn = Turn(stream, 0, None)

        def start(_: int) -> ByteStream:
            taken = turn.take(notes)
            return taken[0] if taken else ByteStream(())

        yield Source(notes.name, None, None, start, notes, lasting=False)


def _open_pipe(entry: Input, notes: Notes) -> ByteStream | None:
    """Standard input, or the named pipe; None with an issue where there is none."""
    if entry.path is None:
        buffer = getattr(sys.stdin, "buffer", None)
        if buffer is None:
            notes("source/unreadable", "there is no standard input")
            return None
        # The raw file gives what is there; the buffered one would wait for a full block.
        return ByteStream(blocks_of(cast(Readable, getattr(buffer, "raw", buffer)), BLOCK, notes))
    try:
        file = FileIO(entry.path)
    except OSError as error:
        notes("source/unreadable", reason(error))
        return None
    return ByteStream(blocks_of(file, BLOCK, notes), close=file.close)
