from pathlib import Path

import pytest

from sevenfold.node.cpus import available, per_replica, quota


def test_available_is_within_the_affinity() -> None:
    assert available() >= 1


@pytest.mark.parametrize(("replicas", "cpus", "expected"), [(1, 8, 8), (2, 8, 4), (3, 8, 2), (7, 2, 1)])
def test_per_replica(replicas: int, cpus: int, expected: int) -> None:
    assert per_replica(replicas, cpus) == expected


def test_the_tightest_cgroup_above_us_counts(tmp_path: Path) -> None:
    inner = tmp_path / "jobs" / "ours"
    inner.mkdir(parents=True)
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("250000 100000\n")
    (tmp_path / "cpu.max").write_text("400000 100000\n")
    assert quota(tmp_path, "0::/jobs/ours\n") == 2.5


def test_a_container_sees_its_quota_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("200000 100000\n")
    assert quota(tmp_path, "0::/only/the/host/sees/this\n") == 2.0


def test_version_1(tmp_path: Path) -> None:
    group = tmp_path / "cpu" / "ours"
    group.mkdir(parents=True)
    (group / "cpu.cfs_quota_us").write_text("150000\n")
    (group / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert quota(tmp_path, "4:memory:/ours\n3:cpu,cpuacct:/ours\n") == 1.5


def test_nothing_limits_us(tmp_path: Path) -> None:
    assert quota(tmp_path, "0::/\n") is None
