import asyncio
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold.errors import NodeError
from sevenfold.node import process
from sevenfold.node.process import Identity

DEAF = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    signal.pause()
os.write(1, b"deaf")
signal.pause()
"""
WAITS = "import os, signal; os.write(1, b'up'); signal.pause()"


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert process.stop(lambda: [p.process for p in process.marked(tmp_path)], 0.0) == []


def started(run: Path, code: str, name: str = "0") -> process.Child:
    """A running child that has written its first word."""
    log = run / f"{name}.log"
    os.mkfifo(log)
    # Both ends, so that the child's first line is neither refused nor taken for an end.
    pipe = os.open(log, os.O_RDWR)
    child = process.spawn((sys.executable, "-c", code), process.mark(run, name), log)
    assert select.select([pipe], [], [], 30)[0]
    os.read(pipe, 100)
    os.close(pipe)
    return child


def ended(of: Identity) -> bool:
    """Waits for its end, however it comes."""

    async def wait() -> None:
        async with asyncio.timeout(30):
            await process.gone(of)

    asyncio.run(wait())
    return not process.alive(of.pid, of.started)


def test_identity_is_pid_and_start_time() -> None:
    me = process.identity(os.getpid())
    assert process.alive(me.pid, me.started)
    assert not process.alive(me.pid, me.started + 1)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ProcessLookupError):
        process.identity(child.pid)
    child.wait()


def test_spawned_child_leads_a_session_and_carries_the_mark(run: Path) -> None:
    child = started(run, WAITS)
    assert os.getsid(child.identity.pid) == child.identity.pid
    assert process.marked(run) == [process.Marked(child.identity, "0")]
    assert process.marked(run / "other") == []
    assert process.stop_session(child.identity, 5.0) == []
    assert child.code() == -signal.SIGTERM


def test_a_deaf_session_is_killed_whole(run: Path) -> None:
    child = started(run, DEAF)
    assert len(process.session(child.identity)) == 2
    assert process.stop_session(child.identity, 0.1) == []
    assert process.marked(run) == []
    assert child.code() == -signal.SIGKILL


def test_children_of_a_dead_leader_are_stopped(run: Path) -> None:
    child = started(run, DEAF)
    process.send(child.identity, signal.SIGKILL)
    assert ended(child.identity)
    assert len(process.session(child.identity)) == 1
    assert process.stop_session(child.identity, 0.0) == []
    assert process.session(child.identity) == []
    child.code()


def test_a_reused_pid_is_left_alone(run: Path) -> None:
    child = started(run, WAITS)
    earlier = Identity(child.identity.pid, child.identity.started - 5)
    process.send(earlier, signal.SIGKILL)
    assert process.stop_session(earlier, 0.0) == []
    assert process.alive(child.identity.pid, child.identity.started)
    process.stop_session(child.identity, 5.0)
    child.code()


def test_a_child_dies_with_its_parent(run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from sevenfold.node import process\n"
        f"run = Path({str(run)!r})\n"
        f"child = process.spawn((sys.executable, '-c', {WAITS!r}), process.mark(run, '0'), run / '0.log')\n"
        "print(child.identity.pid, child.identity.started, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin
    assert parent.stdout
    pid, start = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    assert ended(Identity(int(pid), float(start)))


def test_a_detached_process_leads_its_own_session(run: Path) -> None:
    found = process.detach((sys.executable, "-c", WAITS), process.mark(run, process.SUPERVISOR), run / "s.log")
    assert process.session(found) == [found]
    assert process.stop_session(found, 5.0) == []
    process.reap(found.pid)
    process.reap(found.pid)


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no-such-python") as error:
        process.spawn((str(tmp_path / "no-such-python"),), {}, tmp_path / "log")
    assert "fleet.python" in error.value.remedy
    with pytest.raises(NodeError, match="no-such-python"):
        process.detach((str(tmp_path / "no-such-python"),), {}, tmp_path / "log")
    with pytest.raises(NodeError, match="no-such-python"):
        process.succeeds((str(tmp_path / "no-such-python"),))


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeError, match="log: cannot be written"):
        process.spawn((sys.executable, "-c", ""), {}, tmp_path / "file" / "log")


def test_output_of_a_command() -> None:
    assert process.output((sys.executable, "-c", "print(7)"), 30) == "7\n"
    assert process.output((sys.executable, "-c", "raise SystemExit(1)"), 30) == ""
    assert process.output(("no-such-command",), 30) == ""
