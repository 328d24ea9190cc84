from collections.abc import Callable

import pytest

from sevenfold.engines.base import Diagnosis
from sevenfold.fleet.replica import FIRST_TRIES, GOOD, LONGEST, RESTARTS, SLOW_LONGEST, STILL, WARM, WINDOW, Life, Next

CRASH = Diagnosis("it crashed", "")


@pytest.fixture
def life() -> Life:
    return Life(start_timeout=30.0, now=100.0)


def bring_up(life: Life, now: float) -> float:
    """Starts it as soon as it may; ready one second later. The time then."""
    now = max(now, life.start_at)
    assert life.tick(now) is Next.START
    life.spawned(now)
    life.answered_first_completion(now + 1)
    return now + 1


def test_it_starts_at_once(life: Life) -> None:
    assert life.tick(100.0) is Next.START
    life.spawned(100.0)
    assert (life.phase, life.since) == ("starting", 100.0)
    assert life.tick(100.1) is Next.WAIT
    life.answered_first_completion(105.0)
    assert (life.phase, life.since, life.restarts) == ("ready", 105.0, 0)


def test_a_slow_load_whose_log_grows_is_not_dead(life: Life) -> None:
    life.spawned(100.0)
    for now in range(110, 3600, 25):
        life.moved(float(now))
        assert life.tick(now + 24.0) is Next.WAIT


def test_a_load_whose_log_stands_still_is(life: Life) -> None:
    life.spawned(100.0)
    assert life.tick(130.0) is Next.WAIT
    assert life.tick(130.1) is Next.KILL


def test_warming_may_stall_but_not_for_ever(life: Life) -> None:
    life.start_timeout = 1800.0
    life.spawned(100.0)
    life.warms(200.0)
    life.warms(201.0)
    assert (life.phase, life.since) == ("warming", 200.0)
    assert life.tick(200.0 + STILL) is Next.WAIT
    assert life.tick(200.1 + STILL) is Next.KILL
    for now in range(200, 200 + int(WARM), 50):
        life.moved(float(now))
        assert life.tick(float(now)) is Next.WAIT
    life.moved(201.0 + WARM)
    assert life.tick(201.0 + WARM) is Next.KILL


def test_a_suspect_is_trusted_again_and_keeps_its_good_name(life: Life) -> None:
    now = bring_up(life, 100.0)
    life.exited(now, CRASH)
    now = bring_up(life, now)
    life.doubted(now + GOOD)
    assert life.phase == "suspect"
    life.trusted(now + GOOD + 1)
    life.trusted(now + GOOD + 2)
    assert (life.phase, life.since) == ("ready", now + GOOD + 1)
    life.doubted(now + GOOD + 3)
    life.exited(now + GOOD + 4, CRASH)
    assert life.start_at - life.now == 1.0


def test_only_what_serves_is_doubted_or_drained(life: Life) -> None:
    life.spawned(100.0)
    life.doubted(101.0)
    life.trusted(101.0)
    life.drains(101.0)
    assert (life.phase, life.ever_ready) == ("starting", False)
    life.answered_first_completion(102.0)
    life.drains(103.0)
    assert (life.phase, life.ever_ready) == ("draining", True)


def test_a_costly_start_is_tried_again_after_ten_seconds_up_to_five_minutes() -> None:
    life, now, waits = Life(start_timeout=30.0, now=0.0, slow=True), 0.0, []
    for _ in range(7):
        now = bring_up(life, now) + WINDOW / RESTARTS
        life.exited(now, CRASH)
        waits.append(life.start_at - now)
    assert waits == [10.0, 20.0, 40.0, 80.0, 160.0, SLOW_LONGEST, SLOW_LONGEST]


def test_nothing_is_killed_once_it_is_ready(life: Life) -> None:
    now = bring_up(life, 100.0)
    assert life.tick(now + 1e6) is Next.WAIT


def test_a_replica_that_was_never_ready_fails_after_three_deaths(life: Life) -> None:
    now, waits = 100.0, []
    for _ in range(FIRST_TRIES - 1):
        life.spawned(now)
        life.exited(now + 1, CRASH)
        assert life.phase == "backoff"
        waits.append(life.start_at - now - 1)
        now = life.start_at
    life.spawned(now)
    life.exited(now + 1, CRASH)
    assert (life.phase, waits, life.restarts) == ("failed", [1.0, 2.0], 2)
    assert life.tick(now + 1e6) is Next.WAIT


def test_what_would_end_the_same_way_is_not_tried_again(life: Life) -> None:
    life.spawned(100.0)
    life.exited(101.0, Diagnosis("the engine is not installed", "pip install it", retry=False))
    assert (life.phase, life.reason) == ("failed", "the engine is not installed; pip install it")


def test_once_it_was_ready_every_death_is_worth_another_try(life: Life) -> None:
    now = bring_up(life, 100.0)
    life.exited(now, Diagnosis("the engine is not installed", "", retry=False))
    assert life.phase == "backoff"


def test_no_start_before_the_back_off_is_over(life: Life) -> None:
    now = bring_up(life, 100.0)
    life.exited(now, CRASH)
    assert life.tick(now + 0.9) is Next.WAIT
    assert life.tick(now + 1.0) is Next.START


def test_the_reason_goes_when_it_answers_again(life: Life) -> None:
    now = bring_up(life, 100.0)
    life.exited(now, CRASH)
    assert life.reason == "it crashed"
    bring_up(life, now)
    assert life.reason == ""


def test_more_than_five_restarts_within_ten_minutes_are_too_many(life: Life) -> None:
    now = 100.0
    for restart in range(RESTARTS):
        now = bring_up(life, now)
        life.exited(now, CRASH)
        assert (life.phase, life.restarts) == ("backoff", restart + 1)
    now = bring_up(life, now)
    life.exited(now, CRASH)
    assert (life.phase, life.restarts) == ("failed", RESTARTS)


def test_rare_deaths_wait_longer_and_longer_but_never_fail(life: Life) -> None:
    now, waits = 100.0, []
    for _ in range(8):
        now = bring_up(life, now) + WINDOW / RESTARTS
        life.exited(now, CRASH)
        waits.append(life.start_at - now)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST, LONGEST]


def test_ten_good_minutes_forget_earlier_deaths(life: Life) -> None:
    now = 100.0
    for _ in range(4):
        now = bring_up(life, now)
        life.exited(now, CRASH)
    now = bring_up(life, now) + GOOD
    life.exited(now, CRASH)
    assert life.start_at - now == 1.0


@pytest.mark.parametrize(
    ("enter", "expected"),
    [
        (lambda life: life.spawned(1.0), "stopped"),
        (lambda life: life.answered_first_completion(1.0), "stopped"),
        (lambda life: life.exited(1.0, Diagnosis("no model", "", retry=False)), "failed"),
    ],
)
def test_stopped(life: Life, enter: Callable[[Life], None], expected: str) -> None:
    enter(life)
    life.stopped(200.0)
    assert life.phase == expected


def test_leaving_on_request_is_no_death(life: Life) -> None:
    now = bring_up(life, 100.0)
    life.left(now, stays_down=True)
    assert (life.phase, life.restarts, life.tick(now + 1e6)) == ("stopped", 0, Next.WAIT)
    life.left(now, stays_down=False)
    assert (life.phase, life.restarts, life.tick(now)) == ("backoff", 1, Next.START)
    now = bring_up(life, now)
    life.exited(now, CRASH)
    assert life.start_at - now == 1.0
