"""Reads inputs: sources, chunk by chunk, and what is done with each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from simhbase.corpus.given import GivenRows
from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import files_left_out
from simhbase.corpus.record import Chunk, InputOptions, Raw, ReadItems, size_of
from simhbase.corpus.rejects import Outcome
from simhbase.corpus.sources import Sources
from simhbase.process.machine import share_of_memory, usable_processes
from simhbase.process.parallel import map_in_threads

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs

AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)

NOTES = 10  # shown about sources
# Of processor time, for a page, and more for each MiB. Ordinary pages take a hundredth of a second, and large
# ones 0.3 s for each MiB.
PAGE_SECONDS, PAGE_SECONDS_PER_MIB = 5.0, 3.0
PAGE_MEMORY = 1 << 30  # bytes, for a page, at most: ordinary ones take 10 to 20 times their size
_NOT_WORTH_WORKERS = 2  # chunks, whose pages take less time than starting a worker process
# Bytes of a chunk whose pages cannot take much, whatever they hold: the memory of a page may grow with the
# square of its size, as <b a1><b a2>... is opened again in each paragraph. 8 KiB take 0.2 GB and 0.4 s.
_HARMLESS = 8 << 10


def read_each(
    inputs: Inputs,
    work: Callable[[ReadItems], AnyOutcome],
    left: Callable[[Iterator[Chunk]], Iterator[Chunk]] = iter,
    *,
    again: bool = False,
) -> Generator[AnyOutcome, None, None]:
    """The results of `work` for each chunk of records, in order, with progress; finally reports skipped
    files. left: selects the chunks to process. again: the inputs were read before, so skipped files are
    not reported again.

    Wrap it in `contextlib.closing`, which stops threads and worker processes in any case.
    """
    how = inputs.options
    found = inputs.sources or Sources(inputs.paths, how)
    sources = found if inputs.rows is None else GivenRows.of(inputs.rows, how)
    with (
        inputs.watcher.progress("documents", sources.total) as advance,
        closing(extracted(left(sources.chunks()), how, inputs.processes)) as chunks,
        closing(map_in_threads(work, chunks, inputs.threads, size=size_of)) as outcomes,
    ):
        for outcome in outcomes:
            yield outcome
            advance(outcome.parsed, sources.consumed)
    if again:
        return
    for note in sources.notes[:NOTES]:
        inputs.watcher.note(note)
    if more := sources.notes[NOTES:]:
        inputs.watcher.note(f"and the same of {len(more):,} more")
    if sources.left_out:
        for message in files_left_out(sources.left_out):
            inputs.watcher.note(message)


def extracted(
    chunks: Iterator[Chunk], options: InputOptions, processes: int | None = None, callers: int = 1
) -> Generator[ReadItems, None, None]:
    """Chunks of HTML pages parsed by worker processes, because the libraries for it hold the interpreter, and
    a page may crash them, or take more than PAGE_SECONDS (and more by its size) or PAGE_MEMORY: then it is a
    reject (`Parser.lost`). Other chunks, and a few small ones, as they are: these are parsed later, in this
    process. callers: processes on this machine that do the same, and share its memory.

    Close it, or wrap it in `contextlib.closing`, to stop the processes. Raises as `map_in_processes`.
    """
    first = deque(islice(chunks, _NOT_WORTH_WORKERS + 1))
    has_pages = partial(_has_pages, is_html=options.html)
    are_few = len(first) <= _NOT_WORTH_WORKERS and not any(
        size_of(chunk) > _HARMLESS and has_pages(chunk) for chunk in first
    )
    given_away = (first.popleft() for _ in range(len(first)))  # without keeping references to them
    rest: Iterator[ReadItems] = chain(given_away, chunks)
    if are_few:
        yield from rest
        return
    from simhbase.process.workers import Bounds, map_in_processes  # takes time to load

    number = usable_processes() if processes is None else processes
    memory = min(PAGE_MEMORY, share_of_memory(max(number, 1) * callers))
    parser, bounds = Parser(options), Bounds(PAGE_SECONDS, memory, PAGE_SECONDS_PER_MIB)
    with closing(
        map_in_processes(parser.parse, rest, number, parser.lost, bounds, size_of, has_pages)
    ) as results:
        yield from results


def _has_pages(items: ReadItems, *, is_html: bool) -> bool:
    return is_html or any(isinstance(item, Raw) and item.holds == "page" for item in items)
