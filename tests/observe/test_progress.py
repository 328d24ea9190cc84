import pytest

from sevenfold.observe.progress import Pace, Progress, duration, eta_words, line


def test_rates_and_eta_from_counts_over_time() -> None:
    pace = Pace(0.0, done=0, tokens=0)
    pace.mark(10.0, done=100, failed=0, total=1000, tokens=20_000)
    progress = pace.mark(20.0, done=290, failed=10, total=1000, tokens=60_000)
    assert progress == Progress(290, 10, 1000, 15.0, 3000.0, 3000.0, (700 / 15, 700 / 15))


def test_the_eta_is_a_range_where_the_last_minute_differs_from_the_whole() -> None:
    pace = Pace(0.0, done=0, tokens=0)
    for second in range(0, 600, 10):
        pace.mark(float(second), done=second, failed=0, total=2000, tokens=0)
    for second in range(600, 670, 10):
        progress = pace.mark(float(second), done=600 + 2 * (second - 600), failed=0, total=2000, tokens=0)
    assert progress.rows_per_second == pytest.approx(2.0)
    assert progress.eta is not None
    assert progress.eta[0] == pytest.approx(1280 / 2.0)
    assert progress.eta[1] == pytest.approx(1280 / (720 / 660))


def test_rows_done_before_this_process_do_not_count_as_speed() -> None:
    pace = Pace(100.0, done=900_000, tokens=10**9)
    progress = pace.mark(110.0, done=900_010, failed=0, total=902_087, tokens=10**9 + 1000)
    assert (progress.rows_per_second, progress.tokens_per_second) == (1.0, 100.0)


def test_nothing_moved_means_no_eta() -> None:
    pace = Pace(0.0, done=0, tokens=0)
    assert pace.mark(5.0, done=0, failed=0, total=10, tokens=0).eta is None
    assert eta_words(None) == "ETA unknown"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (59.4, "59s"), (190, "3m10s"), (18_120, "5h02m"), (273_600, "3d04h")]
)
def test_duration(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_line_names_trouble_only_where_there_is_some() -> None:
    calm = Progress(50, 0, 100, 2.0, 400.0, 400.0, (25.0, 25.0))
    assert line(calm, 8, 2, 2, 0) == "50/100 rows · 2.0 rows/s · 400 tok/s · ETA 25s · 8 in flight · replicas 2/2"
    rough = Progress(50, 3, 0, 2.0, 400.0, 400.0, None)
    assert line(rough, 8, 1, 2, 4).startswith("53/? rows")
    assert line(rough, 8, 1, 2, 4).endswith("ETA unknown · 8 in flight · replicas 1/2 · 3 failed · 4 flagged")
