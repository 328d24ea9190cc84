"""The job's own small parts, without processes; the whole of it is under tests/e2e."""

import asyncio
from pathlib import Path

import pytest

from sevenfold.config import Conversation, RunSpec
from sevenfold.errors import ConfigError
from sevenfold.job.counts import Counts
from sevenfold.job.feed import Feed
from sevenfold.job.folder import RunFolder, default_folder, existing, latest
from sevenfold.job.prepare import difference, prepare
from sevenfold.job.publish import DriveStatus, is_driven, publish, published
from sevenfold.job.thinking import decide
from sevenfold.ledger import Reader, Tally, Writer, create
from sevenfold.sources import Index
from sevenfold.types import Ask, Completion, Failure, Message, Origin, Sample, Usage

HERE = Origin("in.jsonl", 1)


def sample(key: str, *, turn: int = 0, turns: int = 1, index: int = 0, flags: tuple[str, ...] = ()) -> Sample:
    completion = Completion("An answer.", "A thought.", "stop", Usage(10, 20))
    messages = (Message("user", f"turn {turn}"),)
    return Sample(key, None, index, turn, turns, messages, completion, HERE, flags)


def failure(key: str, *, permanent: bool) -> Failure:
    return Failure(key, None, 0, 0, 1, "timeout", "no answer", HERE, permanent)


class Inputs:
    """An indexed input file of questions beside an empty ledger."""

    def __init__(self, folder: Path, lines: list[str]) -> None:
        self.path = folder / "in.jsonl"
        self.path.write_text("\n".join(lines))
        create(folder)
        self.index = Index(folder / "index.sqlite")
        self.index.build([self.path], "all")
        self.folder = folder
        self.keys = [entry.key for entry in self.index.chunk(0, 100)]

    def commit(self, *outcomes: Sample | Failure) -> None:
        with Writer(self.folder) as writer:
            writer.commit(outcomes)

    def asks(self, samples: int = 1) -> tuple[list[Ask], int]:
        """What is still to be asked, and how many failed rows are asked again."""
        reopened: list[None] = []

        async def collect() -> list[Ask]:
            conversation = Conversation(turns="all", samples=samples)
            with Reader(self.folder) as reader:
                feed = Feed(self.index, reader, [self.path], conversation, lambda: reopened.append(None))
                return [ask async for ask in feed.asks()]

        return asyncio.run(collect()), len(reopened)

    def is_over(self) -> bool:
        with Reader(self.folder) as reader:
            return Feed(self.index, reader, [self.path], Conversation(turns="all")).is_over()


def questions(count: int) -> list[str]:
    return [f'{{"id": {i}, "prompt": "Question {i}?"}}' for i in range(count)]


def test_only_what_the_ledger_does_not_hold_is_asked(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, questions(5))
    inputs.commit(sample(inputs.keys[0]), sample(inputs.keys[3]))
    asks, reopened = inputs.asks()
    assert [ask.prompt.id for ask in asks] == [1, 2, 4]
    assert reopened == 0
    assert not inputs.is_over()


def test_n08_failures_of_the_day_are_asked_again_and_permanent_ones_never(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, questions(3))
    inputs.commit(failure(inputs.keys[0], permanent=True), failure(inputs.keys[1], permanent=False))
    asks, reopened = inputs.asks()
    assert [ask.prompt.id for ask in asks] == [1, 2]
    assert reopened == 1


def test_a_conversation_goes_on_at_its_open_turn_with_the_new_answers_as_history(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, ['{"id": 1, "turns": ["One?", "Two?", "Three?"]}'])
    inputs.commit(sample(inputs.keys[0], turn=0, turns=3))
    (ask,), _ = inputs.asks()
    assert ask.turn == 1
    assert [message.role for message in ask.messages] == ["user", "assistant", "user"]
    assert [message.content for message in ask.messages] == ["turn 0", "An answer.", "Two?"]


def test_every_missing_sample_of_a_prompt_is_asked(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, questions(2))
    inputs.commit(sample(inputs.keys[0], index=1))
    asks, _ = inputs.asks(samples=3)
    assert [(ask.prompt.id, ask.sample) for ask in asks] == [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_nothing_is_left_where_all_is_done(tmp_path: Path) -> None:
    inputs = Inputs(tmp_path, questions(2))
    inputs.commit(*(sample(key) for key in inputs.keys))
    assert inputs.is_over()
    assert inputs.asks() == ([], 0)


def test_counts_follow_what_is_committed() -> None:
    counts = Counts(Tally(rows_done=3, rows_failed=1, completion_tokens=100, verdicts={"ok": 3}))
    counts.reopen()
    counts.see(sample("a"))
    counts.see(sample("b", turn=0, turns=2, flags=("truncated",)))
    counts.see(failure("c", permanent=True))
    assert (counts.done, counts.failed, counts.ended, counts.tokens, counts.flagged) == (4, 1, 5, 140, 1)


@pytest.mark.parametrize(
    ("wanted", "template", "thinks"),
    [
        (True, "plain", True),
        (False, "<think>", False),
        (None, "{% if enable_thinking %}", True),
        (None, "plain", False),
        (None, None, True),
    ],
)
def test_whether_replies_must_think(wanted: bool | None, template: str | None, thinks: bool) -> None:
    assert decide(wanted, template) is thinks


def test_the_difference_between_two_runs_is_named_by_setting() -> None:
    old = {"sampling": {"seed": None, "top_k": 20}, "engine": "fake"}
    new = {"sampling": {"seed": 1, "top_k": 20}, "engine": "openai"}
    assert difference(old, new) == "engine 'fake' -> 'openai', sampling.seed None -> 1"


def test_a_run_without_a_name_lies_under_runs_by_input_and_fingerprint() -> None:
    assert default_folder(("data/my prompts.v2.jsonl.gz",), "abc") == Path("runs/my-prompts-abc")
    assert default_folder(("../...",), "abc") == Path("runs/run-abc")


def test_a_folder_that_holds_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no run lies here"):
        existing(tmp_path)
    with pytest.raises(ConfigError, match="no run was named"):
        latest(tmp_path)


def test_the_latest_run_is_found(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "fleet").mkdir(parents=True)
        (tmp_path / name / "fleet" / "plan.json").touch()
    assert latest(tmp_path).name in ("a", "b")


def test_a_file_where_the_run_should_lie_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    prompts = tmp_path / "in.jsonl"
    prompts.write_text('{"prompt": "Hello?"}')
    spec = RunSpec(inputs=(str(prompts),), model="any")
    spec = type(spec)(inputs=spec.inputs, model="any", fleet=type(spec.fleet)(engine="fake"))
    with pytest.raises(ConfigError, match="cannot be made"):
        asyncio.run(prepare(spec, tmp_path / "run"))


def test_a_driver_that_died_is_not_taken_for_one_at_work(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert published(folder) is None
    publish(folder, DriveStatus(pid=2**22 + 1, started=1.0, at=0.0, phase="running"))
    status = published(folder)
    assert status is not None
    assert not is_driven(status)
