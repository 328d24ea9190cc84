from pathlib import Path

from sevenfold.node import kernels
from sevenfold.node.asked import Subject, Wanted
from sevenfold.node.doctor import Finding
from sevenfold.node.probes_storage import cache, ram_disk, slow, tried, where, writable
from sevenfold.node.trial import LOGS, RUN, attempt, faults


def test_a_real_folder_can_all_and_nothing_is_left(tmp_path: Path) -> None:
    assert set(attempt(tmp_path).values()) == {True}
    assert faults(attempt(tmp_path), RUN) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_none_can_nothing(tmp_path: Path) -> None:
    assert faults(attempt(tmp_path / "none"), RUN) == ("no_create", "no_append", "no_rename", "no_fsync")


def test_what_was_not_tried_is_no_fault() -> None:
    assert faults({"create": True, "append": True}, RUN) == ()


def test_a_file_that_cannot_be_read_while_open_is_a_warning() -> None:
    (found,) = tried(Path("/x"), {"create": True, "append": True, "read_while_open": False}, LOGS)
    assert found.level == "warn"


def test_this_machine(tmp_path: Path) -> None:
    subject = Subject(Wanted(engine="fake", output=tmp_path / "not" / "yet"), lambda: None)
    assert next(iter(writable(subject))) == Finding("ok", f"{tmp_path}: create, append, rename, fsync")
    assert [f.level for f in where(subject)] == ["ok"]
    assert all(f.level != "fail" for f in ram_disk(subject))
    assert not (tmp_path / "not").exists()


def test_only_the_places_that_are_far_are_named() -> None:
    mountinfo = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /net rw - nfs4 fs:/ rw\n3 1 8:2 / /scratch rw - xfs /d rw\n"
    )
    found = list(slow({"output": Path("/scratch/run"), "model": Path("/net/m")}, mountinfo))
    assert found == [
        Finding(
            "warn",
            "model /net/m lies on nfs4 (network), mounted on /net",
            "stage it to /scratch: sevenfold stage MODEL --to /scratch",
        )
    ]


def test_the_kernel_cache_says_how_the_replicas_start(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    subject = Subject(Wanted(engine="sglang", replicas=7, env=env), lambda: None, lambda _p, _e: None)
    (cold,) = cache(subject)
    kernels.mark_warm("sglang", "", env)
    (warm,) = cache(subject)
    assert cold.sentence == "one warms first, the others start when it is ready: the kernel cache is cold"
    assert warm.sentence == "all start at once: the kernel cache is warm"
