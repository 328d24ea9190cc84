import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sevenfold.drive import Answer, Dispatcher, Patience
from sevenfold.drive.dispatch import BATCH
from sevenfold.engines.fake_server import Rule, Script, digest, last_user, serving
from sevenfold.types import Ask, Failure, Message
from tests.drive.house import Kept, ask, asks, dispatcher, endpoint, prompt, server, until, user


def echoes(kept: Kept) -> bool:
    """Whether everyone got the answer to his own question."""
    return all(
        answer.completion.answer.split()[0] == digest(answer.ask.messages[-1].content or "") for answer in kept.answers
    )


def test_every_row_comes_out_once_with_its_own_answer_under_64_in_flight():
    kept = Kept()

    async def main() -> int:
        fake = server(script=Script(latency=0.005, sigma=1.0, tokens=4, echo=True), slots=64)
        async with serving(fake) as url:
            await dispatcher(kept, endpoint(url, slots=64)).run(asks(1000))
        return fake.peak

    assert asyncio.run(main()) == 64
    assert list(range(1000)) == kept.ids
    assert echoes(kept)
    assert max(kept.batches) <= BATCH
    assert {("0", 1)} == {(answer.replica, answer.attempts) for answer in kept.answers}


def test_every_replica_refuses_at_once():
    """All lanes and the feeder waiting for room at the same time was a deadlock once."""
    kept = Kept()

    async def main() -> tuple[Dispatcher, int]:
        fakes = [server(Rule(status=503, times=24)) for _ in range(3)]
        async with serving(fakes[0]) as a, serving(fakes[1]) as b, serving(fakes[2]) as c:
            pump = dispatcher(kept, endpoint(a, "0"), endpoint(b, "1"), endpoint(c, "2"))
            await pump.run(asks(600))
        return pump, sum(fake.used[0] for fake in fakes)

    pump, refused = asyncio.run(main())
    facts = pump.facts()
    assert refused >= 48, "every slot of the three"
    assert kept.ids == list(range(600))
    assert (facts.answered, facts.failed, facts.requeued, facts.charged) == (600, 0, refused, 0)
    assert (facts.in_flight, facts.waiting, facts.by_replica) == (0, 0, {"0": 0, "1": 0, "2": 0})


def test_four_bad_rows_among_3000_are_named_and_the_rest_goes_on():
    kept = Kept()
    rules = (
        Rule(match="question 400.", status=400),
        Rule(match="question 500.", status=500),
        Rule(match="question 600.", hang=True),
        Rule(match="question 700.", reply="", reasoning="", finish="length"),
    )

    async def main() -> Dispatcher:
        plain = Script(latency=0.0, tokens=4)
        async with serving(server(*rules, script=plain)) as a, serving(server(*rules, script=plain)) as b:
            pump = dispatcher(kept, endpoint(a, "0"), endpoint(b, "1"))
            await pump.run(asks(3000))
        return pump

    facts = asyncio.run(main()).facts()
    assert list(range(3000)) == kept.ids
    failures = {failure.id: (failure.kind, failure.permanent, failure.attempts) for failure in kept.failures}
    assert failures == {
        400: ("bad_request", True, 1),
        500: ("server_error", False, 3),
        600: ("timeout", False, 3),
    }
    (empty,) = [answer.completion for answer in kept.answers if answer.ask.prompt.id == 700]
    assert (empty.finish_reason, empty.answer, empty.reasoning) == ("length", "", "")
    assert (facts.answered, facts.failed, facts.charged) == (2997, 3, 4)


def test_an_attempt_goes_to_another_replica_and_is_counted():
    kept = Kept()

    async def main() -> None:
        async with serving(server(Rule(status=500))) as bad, serving(server()) as good:
            await dispatcher(kept, endpoint(bad, "bad", 1), endpoint(good, "good", 1)).run(asks(6))

    asyncio.run(main())
    assert {"good"} == {answer.replica for answer in kept.answers}
    assert {1, 2} == {answer.attempts for answer in kept.answers}
    assert list(range(6)) == kept.ids


def test_a_replica_that_dies_under_its_rows_costs_them_nothing():
    kept = Kept()

    async def main() -> Dispatcher:
        dying = server(Rule(close=True))
        async with serving(dying) as a, serving(server()) as b:
            pump = dispatcher(kept, endpoint(a, "0", 8), endpoint(b, "1", 8))
            await pump.run(asks(300))
        return pump

    facts = asyncio.run(main()).facts()
    assert list(range(300)) == kept.ids
    assert ([], {1}, 0) == (kept.failures, {answer.attempts for answer in kept.answers}, facts.charged)


def test_a_replica_killed_in_the_middle_of_the_run(tmp_path: Path):
    kept = Kept()
    script = tmp_path / "script.json"
    script.write_text('{"latency": 0.002, "tokens": 4, "echo": true, "die_after": 100}')
    argv = [sys.executable, "-m", "sevenfold.engines.fake_server", "--port", "0", "--script", str(script)]

    async def main(dying: str) -> Dispatcher:
        async with serving(server()) as url:
            pump = dispatcher(kept, endpoint(dying, "dying", 32), endpoint(url, "1", 8))
            await pump.run(asks(1000))
        return pump

    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        facts = asyncio.run(main(process.stdout.readline().rpartition(" ")[2].strip())).facts()
        assert process.wait(30) == 1
    assert kept.ids == list(range(1000))
    assert echoes(kept)
    assert (kept.failures, facts.charged) == ([], 0)
    assert {answer.replica for answer in kept.answers} == {"dying", "1"}


def test_a_row_that_kills_every_replica_is_set_aside():
    kept = Kept()

    async def main() -> None:
        async with serving(server(Rule(match="question 13.", close=True))) as url:
            await dispatcher(kept, endpoint(url)).run(asks(200))

    asyncio.run(main())
    assert [(failure.id, failure.kind, failure.permanent) for failure in kept.failures] == [(13, "poison", False)]
    assert list(range(200)) == kept.ids


def test_what_is_in_flight_on_a_replica_that_vanishes_is_asked_elsewhere():
    kept = Kept()

    async def main() -> tuple[Dispatcher, int]:
        silent = server(Rule(hang=True))
        async with serving(silent) as a, serving(server()) as b:
            pump = dispatcher(kept, endpoint(a, "0", 8), patience=Patience())
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pump.run(asks(100)))
                await until(lambda: silent.seen == 8)
                pump.set_endpoints([])
                assert pump.facts().by_replica == {}
                await until(lambda: silent.abandoned == 8)
                pump.set_endpoints([endpoint(b, "0", 8)])
        return pump, silent.seen

    pump, seen = asyncio.run(main())
    assert list(range(100)) == kept.ids
    assert (seen, pump.facts().requeued, pump.facts().charged) == (8, 8, 0)


def test_a_request_called_back_before_it_left_is_not_lost():
    kept = Kept()

    async def main() -> Dispatcher:
        async with serving(server()) as url, asyncio.TaskGroup() as tasks:
            pump = dispatcher(kept, endpoint(url, "0"))
            tasks.create_task(pump.run(asks(10)))
            while not pump.facts().in_flight:  # noqa: ASYNC110 - the very moment of take-off
                await asyncio.sleep(0)
            pump.set_endpoints([endpoint(url, "1")])
        return pump

    facts = asyncio.run(main()).facts()
    assert kept.ids == list(range(10))
    assert facts.requeued > 0
    assert {answer.replica for answer in kept.answers} == {"1"}


def test_without_endpoints_it_waits_for_some():
    kept = Kept()

    async def main() -> None:
        async with serving(server()) as url, asyncio.TaskGroup() as tasks:
            pump = dispatcher(kept)
            tasks.create_task(pump.run(asks(20)))
            await until(lambda: pump.facts().waiting)
            pump.set_endpoints([endpoint(url)])

    asyncio.run(main())
    assert list(range(20)) == kept.ids


def test_no_more_rows_are_taken_in_than_there_are_places():
    taken: list[int] = []

    async def counted() -> AsyncIterator[Ask]:
        async for row in asks(10_000):
            taken.append(row.sample)
            yield row

    async def main() -> int:
        silent = server(Rule(hang=True))
        async with serving(silent) as url:
            running = asyncio.create_task(dispatcher(Kept(), endpoint(url, slots=40)).run(counted()))
            await until(lambda: silent.seen == 40)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        return silent.seen

    assert asyncio.run(main()) == 40
    assert len(taken) == 40 + 10 + BATCH + 1


def test_turns_are_asked_in_order_each_with_the_answers_before_it():
    order: list[tuple[int, int]] = []

    def next_turns(batch: list[Answer | Failure]) -> list[Ask]:
        follow_ups: list[Ask] = []
        for outcome in batch:
            assert isinstance(outcome, Answer)
            asked = outcome.ask
            order.append((asked.prompt.id, asked.turn))
            if asked.turn + 1 < len(asked.prompt.turns):
                history = (*asked.messages, Message("assistant", outcome.completion.answer))
                following = asked.prompt.turns[asked.turn + 1]
                follow_ups.append(Ask(asked.prompt, 0, asked.turn + 1, history + following))
        return follow_ups

    async def conversations() -> AsyncIterator[Ask]:
        for number in range(100):
            yield ask(number, f"a {number}.", f"b {number}.", f"c {number}.")

    kept = Kept(next_turns)

    async def main() -> None:
        async with serving(server()) as url:
            await dispatcher(kept, endpoint(url, slots=4)).run(conversations())

    asyncio.run(main())
    assert Counter({(number, turn): 1 for number in range(100) for turn in range(3)}) == Counter(order)
    assert echoes(kept)
    last = max(kept.answers, key=lambda answer: (answer.ask.prompt.id, answer.ask.turn)).ask
    assert [message.role for message in last.messages] == ["user", "assistant", "user", "assistant", "user"]


def test_the_next_turn_goes_to_the_head_of_the_line():
    def next_turn(batch: list[Answer | Failure]) -> list[Ask]:
        first = [outcome.ask.prompt for outcome in batch if isinstance(outcome, Answer) and outcome.ask.prompt.id == 0]
        return [Ask(row, 0, 1, user("next.")) for row in first if kept.ids == [0]]

    kept = Kept(next_turn)

    async def main() -> list[str]:
        fake = server()
        answer, second = fake.complete, asyncio.Event()

        async def held(body: dict[str, Any], rule: Rule) -> dict[str, Any]:
            if last_user(body) == "question 1.":
                await second.wait()
            return await answer(body, rule)

        fake.complete = held
        async with serving(fake) as url, asyncio.TaskGroup() as tasks:
            pump = dispatcher(kept, endpoint(url, slots=1))
            tasks.create_task(pump.run(asks(10)))
            await until(lambda: kept.answers and pump.facts().waiting == 9)
            second.set()
        return list(fake.prompts)

    assert asyncio.run(main()) == ["question 0.", "question 1.", "next.", *(f"question {n}." for n in range(2, 10))]


def test_rows_that_all_fail_on_one_replica_still_get_through_their_attempts():
    kept = Kept()

    async def main() -> None:
        async with serving(server(Rule(status=500))) as url:
            await dispatcher(kept, endpoint(url, slots=64)).run(asks(30))

    asyncio.run(main())
    assert {("server_error", 3)} == {(failure.kind, failure.attempts) for failure in kept.failures}
    assert list(range(30)) == kept.ids


def test_a_row_with_parameters_out_of_range_is_not_sent():
    kept = Kept()

    async def one() -> AsyncIterator[Ask]:
        row = prompt(1, sampling={"top_p": 7})
        yield Ask(row, 0, 0, row.turns[0])

    async def main() -> int:
        fake = server()
        async with serving(fake) as url:
            await dispatcher(kept, endpoint(url)).run(one())
        return fake.seen

    assert asyncio.run(main()) == 0
    assert [failure.kind for failure in kept.failures] == ["bad_request"]
