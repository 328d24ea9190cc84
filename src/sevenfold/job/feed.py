"""What is still to be asked: the index of the inputs, less what the ledger holds, as Asks in input order.

Reads in chunks, so memory does not grow with the input. Knows nothing of endpoints.
"""

import asyncio
import itertools
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from sevenfold.config import Conversation
from sevenfold.ledger import Reader, Standing
from sevenfold.sources import Entry, Index, prompts
from sevenfold.types import Ask, Message, Prompt, Sample

CHUNK = 4096
"""Rows looked up in the ledger at once: large enough that a finished prefix of 900,000 rows is passed in seconds."""
PAGE = 8_192
"""Keys compared at once when a run is gone on with: a megabyte or two."""
BATCH = 64
"""Prompts parsed at once in the worker thread: small enough that the first request leaves at once."""
FOLLOW = 0.02
"""Seconds between looks at an index that is still being built."""
UNASKED = Standing(turns_done=0, finished=False, retryable=False)


class Feed:
    def __init__(
        self,
        index: Index,
        reader: Reader,
        inputs: Sequence[Path],
        conversation: Conversation,
        reopened: Callable[[], None] = lambda: None,
    ) -> None:
        """`reopened` hears of every failed row that is asked again."""
        self._index, self._reader, self._reopened = index, reader, reopened
        self._inputs, self._conversation = inputs, conversation
        self._open_rows: array[int] | None = None
        self._open: dict[str, list[tuple[int, Standing]]] = {}
        self.stopped = False

    def stop(self) -> None:
        """Ends the asks, also where the index is still being built."""
        self.stopped = True

    def is_over(self) -> bool:
        """Whether a whole index holds nothing that is still to be asked. What it finds is where `asks` begins."""
        self._open_rows = array("Q", sorted(self._unsettled()))
        return not self._open_rows

    async def asks(self) -> AsyncIterator[Ask]:
        source = prompts(self._inputs, self._conversation.turns, self._wanted())
        while batch := await asyncio.to_thread(lambda: self._take(source)):
            for ask in batch:
                yield ask

    def _take(self, source: Iterator[Prompt]) -> list[Ask]:
        return [ask for prompt in itertools.islice(source, BATCH) for ask in self._asks_of(prompt)]

    def _asks_of(self, prompt: Prompt) -> Iterator[Ask]:
        for sample, stands in self._open.pop(prompt.key):
            turn = stands.turns_done
            history = so_far(self._reader.conversation(prompt.key, sample)[-1]) if turn else ()
            if stands.retryable:
                self._reopened()
            yield Ask(prompt, sample, turn, history + prompt.turns[turn])

    def _wanted(self) -> Iterator[Entry]:
        for chunk in self._growing() if self._open_rows is None else self._known(self._open_rows):
            if self.stopped:
                return
            yield from self._unfinished(chunk)

    def _known(self, ordinals: Sequence[int]) -> Iterator[list[Entry]]:
        for at in range(0, len(ordinals), CHUNK):
            yield self._index.entries(ordinals[at : at + CHUNK])

    def _growing(self) -> Iterator[list[Entry]]:
        """All rows, behind an index that is still being built."""
        after = 0
        while not self.stopped:
            complete = self._index.complete
            chunk = self._index.chunk(after, CHUNK)
            if chunk:
                after = chunk[-1].ordinal
                yield chunk
            elif complete:
                return
            else:
                time.sleep(FOLLOW)  # a worker thread; the builder is on its way

    def _unsettled(self) -> Iterator[int]:
        """Ordinals, in the order of the keys: both tables are read along their own order, page by page."""
        after = b""
        while page := self._index.keys(after, PAGE):
            settled = self._reader.settled(after, page[-1][0], self._conversation.samples)
            yield from (ordinal for key, ordinal in page if key not in settled)
            after = page[-1][0]

    def _unfinished(self, chunk: list[Entry]) -> Iterator[Entry]:
        standing = self._reader.standing([entry.key for entry in chunk])
        for entry in chunk:
            all_samples = ((i, standing.get((entry.key, i), UNASKED)) for i in range(self._conversation.samples))
            open_samples = [(i, stands) for i, stands in all_samples if not stands.finished or stands.retryable]
            if open_samples:
                self._open[entry.key] = open_samples
                yield entry


def so_far(sample: Sample) -> tuple[Message, ...]:
    """The conversation up to and with this sample's answer, as history for the next turn. Thoughts stay out of it."""
    completion = sample.completion
    return (*sample.messages, Message("assistant", completion.answer, tool_calls=completion.tool_calls))
