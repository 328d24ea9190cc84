"""How a run ended, in one sentence and one exit code, read back from the ledger rather than from counters."""

from typing import TYPE_CHECKING

import msgspec

from sevenfold.audit import Gate
from sevenfold.ledger import Tally

if TYPE_CHECKING:
    from sevenfold.job.run import Regeneration


class Ending(msgspec.Struct, frozen=True):
    """`exit_code`: 0 every row good; 1 rows left; 4 some failed or were refused; 5 a share is over its limit."""

    exit_code: int
    sentence: str
    remedy: str
    tally: Tally
    refused: int
    total: int


def ending(run: "Regeneration", gate: Gate | None) -> Ending:
    tally, refused, total = run.reader.tally(), run.index.counts().refused, run.total
    code, sentence, remedy = 0, f"all {total:,} rows have an answer", ""
    over = gate.verdict_at_end() if gate else None
    left = total - tally.rows_done - tally.rows_failed
    if left > 0 or not run.index.complete:
        code, sentence = 1, f"{left:,} of {total:,} rows were not asked"
        remedy = f"sevenfold resume {run.folder.path}"
    elif over:
        code, sentence, remedy = over.exit_code, over.message, over.remedy
    elif tally.rows_failed or refused:
        code = 4
        answered = total - tally.rows_failed
        sentence = f"{answered:,} rows have an answer, {tally.rows_failed:,} failed, {refused:,} were refused"
        remedy = f"sevenfold rows {run.folder.path} --state {'failed' if tally.rows_failed else 'refused'}"
    return Ending(code, sentence, remedy, tally, refused, total)
