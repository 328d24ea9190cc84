from sevenfold.drive.retry import Row
from sevenfold.errors import AttemptError, ReplicaError, RowError
from tests.drive.house import ask


def test_a_bad_row_fails_for_good_at_once():
    failure = Row(ask(7)).fail(RowError("HTTP 400: no", "bad_request"), "0")
    assert failure is not None
    assert (
        failure.kind,
        failure.reason,
        failure.permanent,
        failure.attempts,
        failure.replica,
    ) == ("bad_request", "HTTP 400: no", True, 1, "0")
    assert (failure.id, failure.origin.line, failure.sample, failure.turn, failure.turns) == (7, 7, 0, 0, 1)


def test_three_attempts_then_a_failure_that_another_day_may_heal():
    row = Row(ask(1))
    assert row.fail(AttemptError("HTTP 500", "server_error"), "0") is None
    assert row.fail(AttemptError("no answer within 9 s", "timeout"), "1") is None
    assert frozenset("01") == row.tried
    failure = row.fail(AttemptError("HTTP 500", "server_error"), "2")
    assert failure is not None
    assert (
        failure.kind,
        failure.reason,
        failure.permanent,
        failure.attempts,
    ) == ("server_error", "3 attempts; last: HTTP 500", False, 3)


def test_a_busy_fleet_costs_a_row_nothing_however_often():
    row = Row(ask(1))
    assert [row.fail(ReplicaError("HTTP 503", "busy"), "0") for _ in range(100)] == [None] * 100
    assert (0, 0, frozenset()) == (row.attempts, row.losses, row.tried)


def test_a_row_under_which_three_replicas_died_is_set_aside():
    row = Row(ask(1))
    lost = ReplicaError("reset by peer", "lost")
    assert [row.fail(lost, "0"), row.fail(lost, "1")] == [None, None]
    failure = row.fail(lost, "2")
    assert failure is not None
    assert (failure.kind, failure.permanent) == ("poison", False)
