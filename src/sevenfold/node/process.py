"""The only place that starts and stops processes, and only such as carry a run's mark.

A process is known by pid and start time, so a reused pid is never taken for it. What is started here leads a session of
its own; stopping takes the whole session. Linux only: it reads /proc.
"""

import asyncio
import contextlib
import ctypes
import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from sevenfold.errors import NodeError

RUN, REPLICA = "SEVENFOLD_RUN", "SEVENFOLD_REPLICA"
"""Environment variables by which every process of a run is found again, whoever lost it."""

SUPERVISOR = "supervisor"
"""The REPLICA mark of the process that is none."""

PR_SET_PDEATHSIG = 1
LOOK = 0.02
"""Seconds between two looks at processes that are being stopped."""
KILL_WAIT = 5.0
"""Seconds for the kernel to end what was killed: freeing the memory of a large model takes one or two."""

_libc = ctypes.CDLL(None)


class Identity(msgspec.Struct, frozen=True):
    pid: int
    started: float
    """Seconds from boot to its start, as the kernel counts them: no change of the clock moves it."""

    @property
    def ticks(self) -> int:
        """`started` as /proc has it."""
        return round(self.started * os.sysconf("SC_CLK_TCK"))


@dataclass(frozen=True, slots=True)
class Child:
    """A process that we started and whose exit code we shall read."""

    identity: Identity
    _popen: subprocess.Popen[bytes]

    def code(self) -> int:
        """Blocks until it has ended; negative: the signal that ended it."""
        return self._popen.wait()


class Use(msgspec.Struct, frozen=True):
    """What a session is busy with."""

    names: frozenset[str]
    cpu_seconds: float
    has_gpu: bool
    """One of it holds a GPU's device file open."""


class Marked(msgspec.Struct, frozen=True):
    process: Identity
    replica: str
    """The replica's name, or SUPERVISOR."""


def identity(pid: int) -> Identity:
    """ProcessLookupError where no such process lives; a zombie does not."""
    process, living = _stat(pid)
    if not living:
        raise ProcessLookupError(pid)
    return process


def alive(pid: int, started: float) -> bool:
    try:
        return identity(pid).started == started
    except ProcessLookupError:
        return False


async def gone(process: Identity) -> None:
    """Returns when the process has ended."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        if alive(process.pid, process.started):
            await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def mark(run: Path, replica: str) -> dict[str, str]:
    """What to add to the environment of a run's process."""
    return {RUN: _run_mark(run), REPLICA: replica}


def spawn(argv: Sequence[str], env: Mapping[str, str], log: Path, outlives: bool = False) -> Child:
    """A child in a session of its own. Unless it `outlives` us, the kernel kills it when the calling *thread* ends:
    call it from the main one.

    `env` is added to ours; output is appended to `log`. NodeError where it cannot be started."""
    parent = os.getpid()

    def die_with_parent() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    with _appended(log) as output:
        try:
            popen = subprocess.Popen(
                argv,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=None if outlives else die_with_parent,  # noqa: PLW1509  only async-signal-safe calls, prepared before the fork
            )
        except OSError as error:
            raise _not_started(argv, error) from None
    return Child(_stat(popen.pid)[0], popen)


def detach(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Identity:
    """A process in a session of its own that outlives us, the terminal and its SIGHUP."""
    with _appended(log) as output, Path(os.devnull).open("rb") as nothing:
        actions = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), 0)]
        actions += [(os.POSIX_SPAWN_DUP2, output, target) for target in (1, 2)]
        try:
            pid = os.posix_spawn(argv[0], list(argv), {**os.environ, **env}, file_actions=actions, setsid=True)
        except OSError as error:
            raise _not_started(argv, error) from None
    return _stat(pid)[0]  # our child: even when it has ended already, nobody else got its pid


def require_command(argv: Sequence[str]) -> None:
    """NodeError where the program is not there or may not be run."""
    if shutil.which(argv[0]) is None:
        missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        raise _not_started(argv, missing)


def output(argv: Sequence[str], seconds: float) -> str:
    """What a short command prints; empty where it is not there, fails or takes longer.

    Never waits for one that cannot be killed: a process inside a hanging driver does not even end on SIGKILL."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    try:
        popen = subprocess.Popen(argv, stdin=nothing, stdout=pipe, stderr=nothing, text=True, errors="replace")
    except OSError:
        return ""
    try:
        said, _ = popen.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        popen.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            popen.wait(KILL_WAIT)
        if popen.stdout:
            popen.stdout.close()
        return ""
    return said if popen.returncode == 0 else ""


def succeeds(argv: Sequence[str]) -> bool:
    """Runs a command that speaks to the user on our stderr. NodeError where it cannot be started."""
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode == 0
    except OSError as error:
        raise _not_started(argv, error) from None


def session(leader: Identity) -> list[Identity]:
    """The living processes of the session that `leader` leads or led."""
    with contextlib.suppress(ProcessLookupError):
        if identity(leader.pid) != leader:
            return []  # the kernel gives a pid away again only when its session is empty
    return [process for process in _all() if _session_of(process.pid) == leader.pid]


def use(leader: Identity) -> Use:
    """Of the session that `leader` leads."""
    names: set[str] = set()
    ticks, has_gpu = 0, False
    for process in session(leader):
        folder = Path(f"/proc/{process.pid}")
        with contextlib.suppress(OSError):  # it may end between two looks
            stat = (folder / "stat").read_text(errors="replace")
            names.add(stat[stat.index("(") + 1 : stat.rindex(")")])
            fields = stat.rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            has_gpu = has_gpu or any(str(fd.readlink()).startswith("/dev/nvidia") for fd in (folder / "fd").iterdir())
    return Use(frozenset(names), ticks / os.sysconf("SC_CLK_TCK"), has_gpu)


def leads(leader: Identity, pid: int) -> bool:
    """Whether `pid` belongs to the session of `leader`."""
    return _session_of(pid) == leader.pid


def name(pid: int) -> str:
    """As the kernel has it, at most 15 bytes; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""


def descends(pid: int, leaders: Container[int]) -> bool:
    """Whether it is in the session of one of `leaders`, or a descendant of one."""
    leader = _session_of(pid)
    if leader is not None and leader in leaders:
        return True
    try:
        return any(parent.pid in leaders for parent in psutil.Process(pid).parents())
    except psutil.Error:
        return False


def marked(run: Path) -> list[Marked]:
    """Every living process that carries the run's mark."""
    marks = ((process, marked_as(process.pid, run)) for process in _all())
    return [Marked(process, replica) for process, replica in marks if replica is not None]


def marked_as(pid: int, run: Path) -> str | None:
    """The replica's name, or SUPERVISOR, in the mark of one living process; None where it carries none of this run."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # ended, or somebody else's
        return None
    if f"{RUN}={_run_mark(run)}".encode() not in variables:
        return None
    prefix = f"{REPLICA}=".encode()
    return next((v.removeprefix(prefix).decode() for v in variables if v.startswith(prefix)), "?")


def stop_session(leader: Identity, grace: float) -> list[Identity]:
    return stop(lambda: session(leader), grace)


def stop(find: Callable[[], Iterable[Identity]], grace: float) -> list[Identity]:
    """TERM, after `grace` seconds KILL, for all that `find` finds, until it finds nothing. Blocks.

    Returns what outlived even that: processes that wait for a device or a dead mount."""
    left: list[Identity] = []
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, KILL_WAIT)):
        deadline = time.monotonic() + seconds
        told: set[Identity] = set()
        while left := list(find()):
            for process in left:
                if process not in told:  # to some engines a second TERM means: drop everything
                    told.add(process)
                    send(process, number)
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK)
        if not left:
            break
    return left


def send(process: Identity, number: signal.Signals) -> None:
    """Signals this very process, or nobody."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(process.pid)
        try:
            if alive(process.pid, process.started):
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def reap(pid: int) -> None:
    """Takes a dead child off the process table, where it is one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _run_mark(run: Path) -> str:
    return hashlib.sha256(os.fsencode(run.resolve())).hexdigest()[:32]


def _stat(pid: int) -> tuple[Identity, bool]:
    """The process, and whether it is more than a zombie. ProcessLookupError where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold anything
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    # A dead main thread beside living ones still holds the memory and the ports.
    living = state not in "ZX" or threads > 1
    return Identity(pid, started / os.sysconf("SC_CLK_TCK")), living


def _all() -> Generator[Identity]:
    """Every living process but ourselves."""
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and int(path.name) != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                yield identity(int(path.name))


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


@contextlib.contextmanager
def _appended(log: Path) -> Generator[int]:
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NodeError(f"{log}: cannot be written: {error.strerror}", "see that the run folder is yours") from None
    try:
        yield file
    finally:
        os.close(file)


def _not_started(argv: Sequence[str], error: OSError) -> NodeError:
    remedy = "name the engine's interpreter with fleet.python" if argv[0] != sys.executable else "see the message"
    return NodeError(f"{argv[0]}: cannot be started: {error.strerror}", remedy)
