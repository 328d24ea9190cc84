"""The second pass over the inputs: Prompts of the rows that are still wanted, the others passed over unparsed.

Promises that a prompt carries its own key: a file that changed since it was indexed ends the pass with ConfigError.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from sevenfold.errors import ConfigError
from sevenfold.sources.formats import Turns, drafted
from sevenfold.sources.index import Entry
from sevenfold.sources.keys import content_key, twin_key
from sevenfold.sources.messages import Refused
from sevenfold.sources.read import Record, select
from sevenfold.types import Origin, Prompt


def prompts(inputs: Sequence[Path], turns: Turns, wanted: Iterator[Entry]) -> Iterator[Prompt]:
    """`wanted` in ascending order, pulled one at a time. `inputs` and `turns` as they were indexed."""
    for file, entries in itertools.groupby(wanted, key=lambda entry: entry.file):
        ahead, behind = itertools.tee(entries)
        for record in select(inputs[file], (entry.line for entry in ahead)):
            yield _prompt(inputs[file], next(behind), record, turns)


def _prompt(path: Path, entry: Entry, record: Record, turns: Turns) -> Prompt:
    draft = drafted(record, turns)
    if isinstance(draft, Refused) or twin_key(content_key(draft), entry.twin).hex() != entry.key:
        raise ConfigError(f"{path}: line {entry.line} changed after it was indexed", "start the run again")
    return Prompt(entry.key, draft.id, draft.turns, Origin(str(path), entry.line), draft.tools, draft.sampling)
