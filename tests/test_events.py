import json
from pathlib import Path

from sevenfold.events import SILENT, Journal


def test_a_line_for_each_thing_from_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    driver, supervisor = Journal(path, "driver"), Journal(path, "supervisor")
    driver.say("run started", pid=1)
    supervisor.say("ready", replica="0")
    driver.close()
    supervisor.close()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["process"], line["event"]) for line in lines] == [("driver", "run started"), ("supervisor", "ready")]
    assert lines[0]["pid"] == 1
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_line_that_cannot_be_written_is_counted_and_stops_nothing() -> None:
    journal = Journal(Path("/dev/full"), "driver")
    journal.say("lost")
    assert journal.lost == 1
    journal.close()


def test_without_a_file_it_is_silent() -> None:
    SILENT.say("nothing", fact=1)
    SILENT.close()
