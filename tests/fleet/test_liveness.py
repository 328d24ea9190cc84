"""A replica under a watch of 30 seconds, looked at every two, as its metrics would tell it."""

from collections.abc import Callable

import pytest

from sevenfold.fleet.liveness import FIRST, LONGEST, PATIENCE, Facts, Verdict, Watch

STEP = 2.0
At = Callable[[float], Facts]


def watched(watch: Watch, facts: At, seconds: float, start: float = 0.0, answers: bool = False) -> dict[Verdict, float]:
    """When each verdict came first. Our own completion goes out when there is a doubt, and is answered or not."""
    found: dict[Verdict, float] = {}
    asked, answered, now = None, 0, start
    while now <= start + seconds:
        seen = facts(now)
        verdict = watch.see(
            Facts(
                now=now,
                tokens=seen.tokens,
                mute=seen.mute,
                running=seen.running,
                in_flight=seen.in_flight,
                lines=seen.lines,
                answered=answered,
                asked=asked,
                computes=seen.computes,
            )
        )
        found.setdefault(verdict, now)
        if verdict == "hung":
            break
        if watch.doubts and answers:
            answered += 1
        elif watch.doubts and asked is None:
            asked = now
        now += STEP
    return found


def stops_at(when: float, **facts: int) -> At:
    """A busy server that makes 100 tokens a second until then."""
    return lambda now: Facts(now, tokens=round(100 * min(now, when)), **{"running": 16, **facts})


def test_tokens_that_stand_still_with_requests_running_are_hung_after_the_patience() -> None:
    found = watched(Watch(), stops_at(100.0), 300.0)
    assert found["suspect"] == 100.0 + PATIENCE / 2 + 1
    assert found["hung"] == 100.0 + PATIENCE


def test_a_server_whose_metrics_stop_answering_too() -> None:
    def facts(now: float) -> Facts:
        return stops_at(100.0)(now) if now <= 100.0 else Facts(now, mute=True)

    assert watched(Watch(), facts, 300.0)["hung"] == 100.0 + PATIENCE


def test_one_whose_metrics_never_answered_since_it_was_adopted() -> None:
    assert watched(Watch(fresh=False), lambda now: Facts(now, mute=True), 300.0)["hung"] == PATIENCE


def test_a_gauge_of_zero_hides_no_wedge_from_the_drive() -> None:
    assert watched(Watch(), stops_at(100.0, running=0, in_flight=3), 300.0)["hung"] == 100.0 + PATIENCE


def test_a_gauge_that_stayed_up_after_the_run_is_no_hang() -> None:
    assert set(watched(Watch(), stops_at(100.0), 1000.0, answers=True)) == {"ok"}


def test_idle_is_no_hang() -> None:
    assert set(watched(Watch(), stops_at(100.0, running=0, in_flight=0), 1000.0)) == {"ok"}


def test_an_idle_server_that_nobody_vouches_for_is_asked_now_and_then() -> None:
    found = watched(Watch(fresh=False), stops_at(100.0, running=0), 1000.0)
    assert 100.0 + 3 * PATIENCE <= found["hung"] <= 100.0 + 3 * PATIENCE + 4 * STEP


def test_a_first_batch_may_compile_for_ninety_seconds() -> None:
    def facts(now: float) -> Facts:
        return Facts(now, tokens=50 if now < 91.0 else round(100 * now), running=32)

    assert "hung" not in watched(Watch(), facts, 110.0)
    never = watched(Watch(), lambda now: Facts(now, tokens=50, running=32), 1000.0)
    assert never["hung"] == FIRST * PATIENCE
    seasoned = watched(Watch(fresh=False), lambda now: Facts(now, tokens=50, running=32), 1000.0)
    assert seasoned["hung"] == PATIENCE


def test_a_long_prefill_that_reads_is_no_hang() -> None:
    def reading(now: float) -> Facts:
        return Facts(now, tokens=round(now), running=1)

    assert set(watched(Watch(), reading, 600.0)) == {"ok"}


def test_lines_of_work_count_where_tokens_are_counted_only_at_a_requests_end() -> None:
    def ends_late(now: float) -> Facts:
        return Facts(now, tokens=32_000 * (int(now) // 200), running=16, lines=int(now))

    assert set(watched(Watch(), ends_late, 1000.0)) == {"ok"}


def test_a_compiler_at_work_is_no_hang_but_not_for_ever() -> None:
    def compiling(now: float) -> Facts:
        return Facts(now, tokens=round(100 * min(now, 100.0)), running=1, computes=now > 100.0)

    assert watched(Watch(), compiling, 1000.0)["hung"] == 100.0 + LONGEST * PATIENCE


def test_usual_gaps_raise_the_patience() -> None:
    """Sixteen long answers in step: the counter moves every 40 seconds."""

    def steps(now: float) -> Facts:
        return Facts(now, tokens=int(now) // 40 if now < 900 else 22, running=16)

    found = watched(Watch(), steps, 2000.0)
    assert found["hung"] >= 880.0 + 3 * 40.0


def test_without_a_counter_only_an_unanswered_question_tells_and_late() -> None:
    assert set(watched(Watch(), Facts, 1000.0, answers=True)) == {"ok"}
    busy = watched(Watch(), lambda now: Facts(now, in_flight=4), 1000.0)
    assert busy["hung"] == LONGEST * PATIENCE


def test_one_refused_question_is_no_proof() -> None:
    watch = Watch()
    watch.see(Facts(0.0, tokens=0, running=1))
    watch.see(Facts(2.0, tokens=9, running=1))
    assert watch.see(Facts(200.0, tokens=9, running=1)) == "suspect"
    assert watch.see(Facts(202.0, tokens=9, running=1, asked=200.0)) == "suspect"
    assert watch.see(Facts(208.0, tokens=9, running=1, asked=200.0)) == "hung"


@pytest.mark.parametrize("watch", [Watch()])
def test_nothing_is_doubted_before_the_first_look(watch: Watch) -> None:
    assert (watch.doubts, watch.quiet) == (False, 0.0)


def test_a_replica_that_answered_its_warm_up_may_still_stall_at_its_first_full_batch() -> None:
    """Seen on an H200: single requests at once, then 91 to 150 s of compiling with eight in flight."""
    watch = Watch()
    for second in range(0, 30, 3):
        assert watch.see(Facts(float(second), tokens=second, in_flight=1)) == "ok"
    verdicts = {watch.see(Facts(float(s), tokens=27, in_flight=8, asked=60.0)) for s in range(30, 170, 3)}
    assert "hung" not in verdicts
    assert watch.see(Facts(27.0 + FIRST * PATIENCE, tokens=27, in_flight=8, asked=60.0)) == "hung"
