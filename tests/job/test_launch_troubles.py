"""Real troubles of people who launch servers, by id: launch/ID beside it holds what they had, and what is right."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.capacity.roofline import Lengths
from sevenfold.config import Fleet, RunSpec
from sevenfold.errors import ConfigError, NodeError
from sevenfold.fleet.plan import plan_for, serves
from sevenfold.job import profiles
from sevenfold.job.doctor import diagnose
from sevenfold.job.planning import Scenario, plan
from sevenfold.job.prepare import require_usable
from sevenfold.job.stage import staged
from sevenfold.node import kernels
from sevenfold.node.gpus import VARIABLE, chosen, visible_gpus
from sevenfold.node.models import Model, resolve
from sevenfold.node.mounts import in_words, mount_of
from sevenfold.node.probes_storage import slow, tried
from sevenfold.node.stage import Room, left_over, refusal, stage
from sevenfold.node.trial import LOGS, RUN
from sevenfold.node.wholeness import defects
from sevenfold.types import ReplicaStatus

LAUNCH = Path(__file__).parent / "launch"
MODEL = Model(Path("/models/m"), "m", {})
GB = 10**9
SCENARIO = Scenario(lengths=Lengths(prompt=180, output=2000, spread=0.8))


def read(trouble: str, file: str = "case.json") -> Any:
    return json.loads((LAUNCH / trouble / file).read_text())


def expected(trouble: str) -> Any:
    return read(trouble)["expect"]


def gpus_of(env: dict[str, str], physical: int) -> tuple[str, ...]:
    everything = tuple(str(number) for number in range(physical))
    return visible_gpus(env, needed=True) if VARIABLE in env else chosen(None, lambda: everything)


@pytest.mark.parametrize("number", range(5))
def test_l01_a_preset_list_of_gpus_is_the_users_word(number: int) -> None:
    given = read("L01", "env.json")
    right = expected("L01")["plans"][number]
    env, physical = given["cases"][number], given["physical_gpus"]
    errors = {"no_gpu_visible": "no GPU visible", "duplicate_gpu": "names a GPU twice"}
    if "error" in right:
        with pytest.raises(ConfigError, match=errors[right["error"]]):
            gpus_of(env, physical)
        return
    gpus = gpus_of(env, physical)
    plan = serves(Fleet(engine="sglang", replicas=len(gpus), base_port=30000), MODEL, gpus, 16)
    assert len(plan) == right["servers"]
    assert [serve.gpu for serve in plan] == right.get("gpus", [str(i) for i in range(physical)])
    assert [serve.port for serve in plan] == right.get("ports", [30000 + i for i in range(len(gpus))])


def test_l03_a_named_port_that_is_busy_starts_no_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        spec = RunSpec(fleet=Fleet(engine="fake", base_port=port))
        plan = plan_for(spec, Model(Path("fake"), "fake", {}), tmp_path)
        with pytest.raises(NodeError, match=f"port {port} is in use: pid {os.getpid()}: ") as refused:
            fleet.start(tmp_path, plan)
        reports = {report.probe: report for report in diagnose(spec, tmp_path)}
    assert refused.value.exit_code == 3
    assert fleet.status(tmp_path) is None  # servers_started 0
    assert reports["ports"].findings[0].sentence.startswith(f"port_in_use {port}: held by pid {os.getpid()}")


def mountinfo(mounts: str) -> str:
    """/proc/mounts, as the case has it, in the words of /proc/self/mountinfo."""
    lines = [line.split() for line in mounts.splitlines()]
    return "\n".join(f"{i} 1 0:{i} / {m[1]} {m[3]} - {m[2]} {m[0]} {m[3]}" for i, m in enumerate(lines, 2))


def test_l05_what_lies_on_a_network_mount_is_named() -> None:
    text = mountinfo((LAUNCH / "L05" / "mounts.txt").read_text())
    kinds = expected("L05")["filesystem_of"]
    assert {path: in_words(mount_of(Path(path), text)) for path in kinds} == kinds
    plan = read("L05", "plan.json")
    paths = (plan["model"], *plan["also"])
    places = dict(zip(("model", "environment", "logs"), map(Path, paths), strict=True))
    found = list(slow(places, text))
    assert [finding.level for finding in found] == ["warn"] * 3
    assert [path for path, finding in zip(paths, found, strict=True) if path in finding.sentence] == list(paths)
    assert "/dev/shm or /scratch" in found[0].remedy
    assert "/dev/shm or /scratch" in found[1].remedy
    assert "keep it local" in found[2].remedy


def verdict(case: dict[str, float]) -> str:
    total = int(case["shm_total_gb"] * GB)
    memory = int(case["mem_available_gb"] * GB) if "mem_available_gb" in case else None
    stale = ("old-model.partial",) if 0 < case.get("shm_free_gb", 0) < total / GB / 2 else ()
    room = Room(int(case["shm_free_gb"] * GB) if "shm_free_gb" in case else total, memory, stale)
    why = refusal(int(case["model_gb"] * GB), room)
    if why is None:
        return "ok"
    if "old-model.partial" in why:
        return "refuse (stale files listed)"
    return "refuse: RAM, not only tmpfs, must hold it" if "it lies in RAM" in why else "refuse"


def test_l06_a_ram_disk_that_cannot_hold_the_model_is_refused() -> None:
    assert [verdict(case) for case in read("L06", "cases.json")] == expected("L06")["verdicts"]


def test_l06_no_byte_is_copied_in_the_refused_cases(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(bytes(1000))
    for room in (Room(1049), Room(5000, 1049)):
        with pytest.raises(NodeError, match="does not fit"):
            stage(tmp_path / "model", tmp_path / "ram", room)
    assert [path for path in (tmp_path / "ram").iterdir() if not path.name.endswith(".lock")] == []
    assert left_over(tmp_path / "ram") == ()
    assert stage(tmp_path / "model", tmp_path / "ram", Room(1050, 1050)).is_dir()


def test_l07_a_broken_model_is_told_whole_and_starts_nothing(tmp_path: Path) -> None:
    right = expected("L07")
    folder = LAUNCH / "L07" / "model"
    assert {defect.file: defect.kind for defect in defects(folder)} == right["defects"]
    assert len(defects(folder)) == right["count"]
    reports = {report.probe: report for report in diagnose(RunSpec(model=str(folder)), tmp_path)}
    assert [finding.level for finding in reports["model"].findings] == ["fail"] * right["count"]
    with pytest.raises(NodeError, match="is not whole") as refused:
        resolve(str(folder), "sglang")  # before any server is started
    assert refused.value.exit_code == 3
    with pytest.raises(NodeError, match=r"is not whole: .*git_lfs_pointer.*header_longer_than_file.*missing.*shorter"):
        staged(str(folder), tmp_path / "ram", lambda _done, _total: None)


def test_l08_one_cold_server_compiles_and_the_others_wait(tmp_path: Path) -> None:
    plan = read("L08", "plan.json")
    env = {"HOME": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    cold = kernels.start_plan(plan["servers"], kernels.is_warm("sglang", "0.5.11", env))
    assert cold.groups == ((0,), (1, 2, 3, 4, 5, 6))
    assert cold.sentence.startswith("one warms first, the others start when it is ready")
    kernels.mark_warm("sglang", "0.5.11", env)
    warm = kernels.start_plan(plan["servers"], kernels.is_warm("sglang", "0.5.11", env))
    assert warm.groups == ((0, 1, 2, 3, 4, 5, 6),)
    assert not kernels.is_warm("sglang", "0.5.12", env)  # another version compiles anew


def test_l08_a_cache_on_a_network_mount_is_named() -> None:
    home = f"2 1 0:2 / /home rw - {read('L08', 'plan.json')['home_fs']} fs:/home rw\n1 0 8:1 / / rw - ext4 /dev/sda rw"
    found = list(slow({"cache triton": Path("/home/me/.triton/cache")}, home))
    assert [finding.level for finding in found] == ["warn"]
    assert found[0].sentence.startswith("cache triton /home/me/.triton/cache lies on nfs4 (network)")


def test_l09_a_run_folder_is_tried_before_servers_start(tmp_path: Path) -> None:
    require_usable(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NodeError, match="the run folder fails: no_create, no_append, no_rename, no_fsync"):
        require_usable(tmp_path / "none")


def test_l09_a_folder_that_cannot_append_or_rename_is_refused() -> None:
    right = expected("L09")
    needs: Callable[[str], tuple[str, ...]] = lambda path: LOGS if path.endswith("logs") else RUN  # noqa: E731
    for path, done in read("L09", "probe_results.json").items():
        (found,) = tried(Path(path), done, needs(path))
        said = found.level if found.level == "ok" else f"{found.level} {found.sentence.removeprefix(f'{path}: ')}"
        assert said == right[path]
        assert found.level == "ok" or right["advice"].split(",")[0] in found.remedy


def test_l11_eighty_is_slots_and_what_runs_is_shown_beside_what_is_sent() -> None:
    """Before the start by the plan, after it by the server's own account."""
    launch = read("L11", "launch.json")
    words = [word.removeprefix("--") for word in launch["args"]]
    flags = dict(zip(words[::2], words[1::2], strict=True))
    flags |= {"speculative-algorithm": "EAGLE", "speculative-eagle-topk": "1", "speculative-num-draft-tokens": "4"}
    planned = plan(msgspec.structs.replace(profiles.load(profiles.AS_FOUND), flags=flags), SCENARIO)
    assert planned.replica is not None
    assert planned.replica.max_running_requests == expected("L11")["effective_concurrency"]
    replica = ReplicaStatus("0", "ready", "", "", "sglang", launch["client_concurrency_per_server"], runs=16)
    assert replica.warning == "64 in flight, the server runs 16: 48 of 64 wait in its queue"
    assert msgspec.structs.replace(replica, slots=16).warning == ""
