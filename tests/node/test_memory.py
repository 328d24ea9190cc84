from pathlib import Path

from sevenfold.node.memory import existing, least, room

MEMINFO = "MemTotal:       65760000 kB\nMemFree:  100 kB\nMemAvailable:   50000000 kB\n"


def test_the_less_of_machine_and_container() -> None:
    assert least(MEMINFO) == 50_000_000 * 1024
    assert least(MEMINFO, "max", "5") == 50_000_000 * 1024
    assert least(MEMINFO, "3000", "1000") == 2000
    assert least(MEMINFO, "1000", "3000") == 0


def test_the_folder_need_not_exist(tmp_path: Path) -> None:
    assert existing(tmp_path / "a" / "b") == tmp_path
    assert room(tmp_path / "a").free > 0


def test_unfinished_copies_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x-1.partial").mkdir()
    assert room(tmp_path).stale == ("x-1.partial",)
