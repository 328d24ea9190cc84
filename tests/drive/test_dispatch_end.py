"""How a run ends: stopped, refused, cancelled, or by an error of the sink."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sevenfold.drive import Answer, Dispatcher, Patience
from sevenfold.engines.fake_server import Rule, Script, serving
from sevenfold.errors import ConfigError, FleetError, GateError
from sevenfold.types import Ask, Failure
from tests.drive.house import Kept, ask, asks, dispatcher, endpoint, server, until


def raised(group: BaseException) -> BaseException:
    assert isinstance(group, BaseExceptionGroup)
    (error,) = group.exceptions
    return error


def test_the_same_endpoints_again_change_nothing():
    """A supervisor repeats itself: a fleet that only refuses must be seen all the same."""

    async def main() -> None:
        async with serving(server(Rule(status=503))) as url, asyncio.TaskGroup() as tasks:
            pump = dispatcher(Kept(), endpoint(url), patience=Patience(pause=0.01, longest_pause=0.02, fleet=0.3))
            running = tasks.create_task(pump.run(asks(5)))
            while not running.done():
                pump.set_endpoints([endpoint(url)])
                await asyncio.sleep(0)

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(main())
    assert isinstance(raised(raised(caught.value)), FleetError)


def test_an_error_of_the_sink_ends_the_run_and_leaves_no_task():
    def gate(batch: list[Answer | Failure]) -> list[Ask]:
        raise GateError("100% of 20 rows are trivial")

    async def main() -> tuple[BaseException, set[asyncio.Task[None]]]:
        fake = server(Rule(match="question 9", hang=True))
        async with serving(fake) as url:
            with pytest.raises(ExceptionGroup) as caught:
                await dispatcher(Kept(gate), endpoint(url), patience=Patience()).run(asks(100_000))
            await until(lambda: fake.abandoned)
        return raised(caught.value), asyncio.all_tasks() - {asyncio.current_task()}

    error, left = asyncio.run(main())
    assert isinstance(error, GateError)
    assert set() == left


def test_a_commit_that_has_begun_ends_before_a_cancelled_run_returns():
    ended: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = asyncio.Event()
        cancelled = asyncio.Event()

        def commit(_batch: list[Answer | Failure]) -> list[Ask]:
            loop.call_soon_threadsafe(begun.set)
            asyncio.run_coroutine_threadsafe(cancelled.wait(), loop).result()
            ended.append("commit")
            return []

        async with serving(server()) as url:
            running = asyncio.create_task(dispatcher(Kept(commit), endpoint(url)).run(asks(3)))
            await begun.wait()
            running.cancel()
            loop.call_later(0, cancelled.set)
            with pytest.raises(asyncio.CancelledError):
                await running
            ended.append("run")

    asyncio.run(main())
    assert ended == ["commit", "run"]


def test_stop_lets_what_is_in_flight_come_home_and_takes_nothing_new():
    kept = Kept()

    async def main() -> tuple[Dispatcher, int]:
        slow = server(script=Script(latency=0.2, sigma=0.0, tokens=4, echo=True))
        async with serving(slow) as url:
            pump = dispatcher(kept, endpoint(url, slots=8))
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(pump.run(asks(100_000)))
                await until(lambda: slow.running == 8)
                pump.stop()
        return pump, slow.seen

    pump, seen = asyncio.run(main())
    assert seen == len(kept.answers)
    assert seen == 8
    assert (pump.facts().in_flight, pump.facts().waiting) == (0, 0)


def test_stop_ends_a_run_whose_source_is_silent():
    async def never() -> AsyncIterator[Ask]:
        await asyncio.Event().wait()
        yield ask(1)

    async def main() -> None:
        pump = dispatcher(Kept())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pump.run(never()))
            await asyncio.sleep(0)
            pump.stop()

    asyncio.run(main())


def test_a_model_that_is_not_there_ends_the_run():
    async def main() -> BaseException:
        async with serving(server(Rule(status=404, body='{"error": {"message": "no such model"}}'))) as url:
            with pytest.raises(ExceptionGroup) as caught:
                await dispatcher(Kept(), endpoint(url, slots=1)).run(asks(50))
        return raised(caught.value)

    error = asyncio.run(main())
    assert isinstance(error, ConfigError)
    assert "no such model" in error.message


@pytest.mark.parametrize("rule", [Rule(status=503), Rule(close=True, times=2)])
def test_a_fleet_that_only_refuses_ends_the_run(rule: Rule):
    async def main() -> BaseException:
        async with serving(server(rule, Rule(status=503))) as url:
            patience = Patience(pause=0.01, longest_pause=0.02, fleet=0.3)
            with pytest.raises(ExceptionGroup) as caught:
                await dispatcher(Kept(), endpoint(url), patience=patience).run(asks(50))
        return raised(caught.value)

    error = asyncio.run(main())
    assert isinstance(error, FleetError)
    assert "HTTP 503" in error.message
