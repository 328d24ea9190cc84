import pytest

from sevenfold.drive.limit import SICK, TRIAL, Deadline, Limit, Patience, Station
from sevenfold.types import Endpoint

WORST_LUCK = 1.0


def limit(*slots: int, chance: float = WORST_LUCK, patience: Patience | None = None) -> Limit:
    made = Limit(patience or Patience(), lambda: chance)
    made.set(endpoint(str(place), count) for place, count in enumerate(slots))
    return made


def endpoint(replica: str, slots: int = 4, url: str = "") -> Endpoint:
    return Endpoint(replica, url or f"http://{replica}", "m", "openai", slots)


def take(limit: Limit, now: float = 0.0, tried: frozenset[str] = frozenset()) -> Station:
    station = limit.take(now, tried)
    assert station is not None
    return station


def name(station: Station | None) -> str | None:
    return station.endpoint.replica if station else None


def test_load_goes_where_the_largest_share_of_slots_is_free():
    small_and_large = limit(2, 6)
    assert [name(small_and_large.take(0.0)) for _ in range(9)] == ["0", "1", "1", "1", "0", "1", "1", "1", None]
    assert small_and_large.in_flight == {"0": 2, "1": 6}


def test_an_answer_gives_the_slot_back():
    one = limit(1)
    station = take(one)
    assert one.take(0.0) is None
    one.answered(station)
    assert station is one.take(0.0)


def test_without_endpoints_nobody_is_asked_and_nobody_is_to_blame():
    none = limit()
    assert (none.take(0.0), none.slots, none.all_fail, none.next_opening(0.0)) == (None, 0, False, None)


def test_a_replica_that_failed_the_row_comes_last():
    two = limit(4, 1)
    assert name(two.take(0.0, {"0"})) == "1"
    assert two.take(0.0, {"0"}) is None, "the other one is full, and will have a slot"
    assert name(two.take(0.0, {"0", "1"})) == "0"


def test_a_replica_that_failed_the_row_is_asked_again_where_the_others_are_closed():
    two = limit(4, 1)
    two.refused(take(two, tried=frozenset("0")), 0.0, 0.0, None)
    assert name(two.take(0.0, {"0"})) == "0"


def test_back_off_doubles_to_its_cap():
    one = limit(1)
    now, waits = 0.0, []
    for _ in range(8):
        one.refused(take(one, now), now, now, None)
        assert one.take(now) is None
        wait = one.next_opening(now)
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert one.all_fail


def test_jitter_is_full():
    one = limit(1, chance=0.25)
    one.refused(take(one), 0.0, 0.0, None)
    assert one.next_opening(0.0) == 0.25


def test_refusals_of_one_wave_count_once():
    one = limit(8)
    wave = [take(one) for _ in range(8)]
    for station in wave:
        one.refused(station, 0.0, 0.5, None)
    assert (one.next_opening(0.5), one.in_flight["0"]) == (1.0, 0)


def test_retry_after_is_honoured_up_to_the_cap():
    two = limit(1, 1)
    two.refused(take(two), 0.0, 0.0, 7.5)
    two.refused(take(two), 0.0, 0.0, 86400.0)
    assert two.take(7.4) is None
    assert name(two.take(7.5)) == "0"
    assert two.take(59.9) is None
    assert name(two.take(60.0)) == "1"


def test_an_answer_from_before_does_not_end_a_pause():
    one = limit(2)
    before, refused = take(one), take(one)
    one.refused(refused, 0.0, 0.0, 30.0)
    one.answered(before)
    assert (one.take(29.9), name(one.take(30.0))) == (None, "0")


def test_after_a_pause_one_request_goes_on_trial_then_all():
    one = limit(4)
    one.refused(take(one), 0.0, 0.0, None)
    trial = take(one, 1.0)
    assert (one.take(1.0), one.next_opening(1.0)) == (None, TRIAL)
    one.answered(trial)
    assert [name(one.take(1.1)) for _ in range(5)] == ["0", "0", "0", "0", None]


def test_a_trial_that_was_not_refused_soon_was_taken():
    one = limit(4)
    one.refused(take(one), 0.0, 0.0, None)
    take(one, 1.0)
    assert name(one.take(1.0 + TRIAL)) == "0"


def test_a_sick_endpoint_rests_but_stays_in_use():
    one = limit(SICK)
    stations = [take(one) for _ in range(SICK)]
    for station in stations[:-1]:
        one.erred(station, 0.0)
    assert (one.next_opening(0.0), one.all_fail) == (None, False)
    one.erred(stations[-1], 0.0)
    assert (one.next_opening(0.0), one.all_fail) == (5.0, True)
    one.answered(take(one, 5.0))
    assert (one.next_opening(5.0), one.all_fail) == (None, False)


def test_a_replica_that_comes_back_elsewhere_has_no_past():
    one = limit(4)
    old = take(one)
    one.refused(old, 0.0, 0.0, None)
    one.set([endpoint("0", url="http://127.0.0.1:9")])
    assert not one.holds(old)
    assert take(one).endpoint.url == "http://127.0.0.1:9"


def test_a_replica_that_stays_keeps_its_work_and_takes_new_slots():
    one = limit(1)
    station = take(one)
    one.set([endpoint("0", slots=2)])
    assert one.holds(station)
    assert [name(one.take(0.0)), name(one.take(0.0))] == ["0", None]
    one.dropped(station)
    assert one.in_flight == {"0": 1}


def test_deadline_before_anything_was_measured():
    assert Deadline(Patience()).seconds(1000) == 30.0 + 0.25 * 1000


@pytest.mark.parametrize(("pace", "tokens", "expected"), [(0.02, 1000, 80.0), (0.001, 64, 10.0)])
def test_deadline_follows_the_measured_pace(pace: float, tokens: int, expected: float):
    deadline = Deadline(Patience())
    for _ in range(32):
        deadline.observe(pace * 500, 500)
    assert pytest.approx(expected) == deadline.seconds(tokens)


def test_deadline_forgets_the_pace_of_an_emptier_batch():
    deadline = Deadline(Patience())
    for pace in (0.001, 0.1):
        for _ in range(512):
            deadline.observe(pace * 500, 500)
    assert pytest.approx(4 * 0.1 * 1000) == deadline.seconds(1000)


def test_short_replies_do_not_stretch_the_deadline():
    deadline = Deadline(Patience())
    for _ in range(32):
        deadline.observe(6.4, 1)
    assert pytest.approx(4 * 0.1 * 1000) == deadline.seconds(1000)
