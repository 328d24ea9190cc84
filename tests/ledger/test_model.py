"""The ledger against a dict: any sequence of commits, kills, reopenings and reads."""

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sevenfold.ledger import Reader, Standing, Writer, create
from sevenfold.types import Failure, Outcome, Sample
from tests.ledger.rows import failure, key_of, sample

TURNS = 3
KEYS = range(6)


@st.composite
def outcomes(draw: st.DrawFn) -> Outcome:
    place = draw(st.sampled_from(KEYS)), draw(st.integers(0, TURNS - 1)), TURNS, draw(st.integers(0, 1))
    if draw(st.booleans()):
        answer = draw(st.text(st.characters(codec="utf-8"), max_size=20))
        return sample(*place, answer=answer, flags=draw(st.sampled_from([(), ("trivial",)])))
    return failure(*place, kind=draw(st.sampled_from(["timeout", "malformed"])), permanent=draw(st.booleans()))


class LedgerAndDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model: dict[tuple[str, int, int], Outcome] = {}
        self.folder = tempfile.TemporaryDirectory()
        self.run = Path(self.folder.name)
        self.writers: list[Writer] = []

    @initialize(files=st.sampled_from([1, 3]))
    def begin(self, files: int) -> None:
        create(self.run, files)
        self.files = files
        self.open()
        self.reader = Reader(self.run)

    def open(self) -> None:
        self.writers = [Writer(self.run, file) for file in range(self.files)]

    @rule(batch=st.lists(outcomes(), max_size=8))
    def commit(self, batch: list[Outcome]) -> None:
        for file, writer in enumerate(self.writers):
            part = [outcome for outcome in batch if int(outcome.key[:8], 16) % self.files == file]
            assert writer.commit(part) == [self.enter(outcome) for outcome in part]

    def enter(self, outcome: Outcome) -> bool:
        place = outcome.key, outcome.sample, outcome.turn
        there = self.model.get(place)
        if there is not None and (isinstance(there, Sample) or there.permanent or there == outcome):
            return False
        self.model[place] = outcome
        return True

    @precondition(lambda self: self.writers)
    @rule()
    def reopen(self) -> None:
        for writer in self.writers:
            writer.close()
        self.open()

    @invariant()
    def reads_as_the_dict(self) -> None:
        if not self.writers:
            return
        for reader in (self.reader, Reader(self.run)):
            found = list(reader.outcomes())
            assert {(o.key, o.sample, o.turn): o for o in found} == self.model
            assert len(found) == len(self.model)
            tally = reader.tally()
            assert tally.samples == sum(isinstance(o, Sample) for o in found)
            failed = [o for o in found if isinstance(o, Failure)]
            assert tally.failures == len(failed)
            assert tally.rows_failed == len({(o.key, o.sample) for o in failed})
            assert tally.rows_done == sum(isinstance(o, Sample) and o.turn == TURNS - 1 for o in found)

    @invariant()
    def stands_as_the_dict(self) -> None:
        if not self.writers:
            return
        standing = self.reader.standing([key_of(number) for number in KEYS])
        assert standing.keys() == {place[:2] for place in self.model}
        for row, stands in standing.items():
            assert stands == self.expected(*row)
            assert len(self.reader.conversation(*row)) == stands.turns_done

    def expected(self, key: str, sample: int) -> Standing:
        turns = [self.model.get((key, sample, turn)) for turn in range(TURNS)]
        done = next((turn for turn, outcome in enumerate(turns) if not isinstance(outcome, Sample)), TURNS)
        failed = [outcome for outcome in turns if isinstance(outcome, Failure)]
        return Standing(done, bool(failed) or done == TURNS, bool(failed) and not failed[-1].permanent)

    def teardown(self) -> None:
        for writer in self.writers:
            writer.close()
        self.folder.cleanup()


# Every step writes with fsync: fewer and shorter sequences than usual keep this to a few seconds.
LedgerAndDict.TestCase.settings = settings(max_examples=15, stateful_step_count=12, deadline=None)
TestLedgerAndDict = LedgerAndDict.TestCase
