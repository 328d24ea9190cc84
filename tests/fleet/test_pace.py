from sevenfold.engines.base import Load
from sevenfold.fleet.pace import WINDOW, Pace

STEP = 2.0


def flagged(pace: Pace, speeds: dict[str, float], start: float, seconds: float) -> dict[str, str]:
    """What is flagged at last, where each runs sixteen requests at so many tokens a second each."""
    found: dict[str, str] = {}
    now = start
    while now <= start + seconds:
        found = pace.see(now, {name: Load(round(16 * speed * now), 16) for name, speed in speeds.items()})
        now += STEP
    return found


def test_half_as_fast_as_the_others_for_five_minutes_is_slow() -> None:
    pace = Pace()
    speeds = {"0": 40.0, "1": 42.0, "2": 19.0, "3": 41.0}
    assert flagged(pace, speeds, 0.0, WINDOW - STEP) == {}
    assert flagged(pace, speeds, WINDOW, 2 * STEP) == {
        "2": "slow: 19.0 tokens/s per request, the others 41.0: see its GPU's clocks"
    }
    assert flagged(Pace(), {**speeds, "2": 30.0}, 0.0, 2 * WINDOW) == {}


def test_one_alone_is_never_slow() -> None:
    assert flagged(Pace(), {"0": 0.1}, 0.0, 3 * WINDOW) == {}


def test_fewer_rows_are_not_slowness() -> None:
    pace, found = Pace(), {"": ""}
    for second in range(0, 900, 2):
        found = pace.see(second, {"0": Load(16 * 40 * second, 16), "1": Load(2 * 40 * second, 2)})
    assert found == {}


def test_idle_or_started_anew_begins_again() -> None:
    pace = Pace()
    speeds = {"0": 40.0, "1": 10.0}
    assert list(flagged(pace, speeds, 0.0, WINDOW)) == ["1"]
    assert pace.see(400.0, {"0": Load(0, 16), "1": Load(9_000_000, 0)}) == {}
    assert flagged(pace, speeds, 500.0, WINDOW / 2) == {}
    assert pace.see(1000.0, {}) == {}
