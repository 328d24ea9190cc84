"""Keeps one replica up: carries out what its Life decides and tells it what happened to the process.

A replica is ready when our own child has answered real completions under the model's name, not when a port is open;
it is hung when tokens stand still, not when /health says so.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sevenfold.engines import ENGINES
from sevenfold.engines.base import Diagnosis, Identity, Load, Serve
from sevenfold.engines.flags import given
from sevenfold.engines.sglang import nccl_port
from sevenfold.errors import AttemptError, ConfigError, NodeError, ReplicaError, RowError
from sevenfold.events import Journal
from sevenfold.fleet import guard
from sevenfold.fleet.canary import HOLD, Panel, listen
from sevenfold.fleet.death import cause_of, telling, undying
from sevenfold.fleet.http import is_up
from sevenfold.fleet.launch import Turns
from sevenfold.fleet.liveness import Verdict, Watch
from sevenfold.fleet.plan import GPU_ENGINES, FleetPlan, slots_of, supervisor_lock
from sevenfold.fleet.proof import BATCH, hello, introduced, warm
from sevenfold.fleet.pulse import POLL, Pulse, read_load, until_empty
from sevenfold.fleet.replica import Life, Next
from sevenfold.node import process
from sevenfold.node.gpus import VARIABLE
from sevenfold.node.ports import HOST, free_port, require_free
from sevenfold.types import ReplicaStatus

LOOK = 0.2
"""Seconds between looks at a replica that starts: its log, its port."""
GRACE = 10.0
"""Seconds between TERM and KILL: an engine frees its GPU, a hung one is not waited for."""
TAIL = 16384
"""Bytes of a log's end that a diagnosis reads: a Python traceback with its chain of causes."""
GUARD = Path(guard.__file__)


@dataclass(frozen=True, slots=True)
class Shared:
    """What the keepers of one fleet have in common."""

    turns: Turns
    panel: Panel
    journal: Journal
    taken: dict[str, int] = field(default_factory=dict[str, int])
    """Ports that the replicas use or are about to."""


class Keeper:
    def __init__(self, plan: FleetPlan, number: int, shared: Shared) -> None:
        self.name = str(number)
        self.life = Life(plan.start_timeout, time.monotonic(), slow=plan.engine in GPU_ENGINES)
        self.log = Path(plan.run) / "logs" / f"replica-{number}.log"
        self.process: process.Identity | None = None
        self.progress = ""
        self.changed: Callable[[], None] = lambda: None
        self.stop_session: Callable[[process.Identity, float], list[process.Identity]] = process.stop_session
        """Blocks; returns what outlived it."""
        self.load = Load()
        """What its metrics said last, while it is ready."""
        self.slow = ""
        self._engine, self._serve = ENGINES[plan.engine], plan.replicas[number]
        self._mark = process.mark(Path(plan.run), self.name)
        self._named_ports, self._patience = plan.named_ports, plan.patience
        self._drive = Path(plan.run) / "drive.json"
        self._slots = self._serve.slots
        self._got, self._expected = Identity(""), plan.expected
        self._taken, self._turns, self._panel, self._journal = shared.taken, shared.turns, shared.panel, shared.journal
        owner = f"{plan.owner.pid}:{plan.owner.ticks}" if plan.owner else "-"
        lock = str(supervisor_lock(Path(plan.run)))
        self._guard = (sys.executable, "-S", "-E", str(GUARD), lock, owner, str(plan.unattended))
        self._log_start = 0
        """Where in the log this start began: an older death must not explain a new one."""
        self._request, self._called = "", asyncio.Event()
        self._verdict: Diagnosis | None = None
        """Why we killed it ourselves."""
        self._unfit = False
        """Another start would end the same way, however often it was ready before."""
        self._undying = asyncio.Event()

    @property
    def url(self) -> str:
        """Empty until it was started once."""
        return f"http://{HOST}:{self._taken[self.name]}" if self.name in self._taken else ""

    def status(self) -> ReplicaStatus:
        serve, life = self._serve, self.life
        return ReplicaStatus(
            name=self.name,
            phase=life.phase,
            url=self.url,
            model=serve.model_name,
            engine=self._engine.name,
            slots=self._slots,
            pid=self.process.pid if self.process else None,
            gpu=serve.gpu,
            since=round(time.time() - (time.monotonic() - life.since), 1),
            restarts=life.restarts,
            reason=life.reason,
            progress=self.progress,
            started=self.process.started if self.process else 0.0,
            runs=self._got.slots,
            kv_tokens=self._got.kv_tokens,
            planned_runs=self._expected.runs if self._expected else None,
            planned_kv_tokens=self._expected.kv_tokens if self._expected else None,
            slow=self.slow,
        )

    async def keep(self) -> None:
        """Until it has failed for good."""
        if self.process:
            await self._attend(self.process, None)
        while self.life.phase != "failed":
            if self.life.phase == "stopped":
                await self._called.wait()
                self._called.clear()
                self.life.left(time.monotonic(), self._request == "drain")
                continue
            await asyncio.sleep(max(0.0, self.life.start_at - time.monotonic()))
            if self.life.tick(time.monotonic()) is Next.START:
                await self._live()
        self._turns.gave_up(self.name)
        self._panel.forgets(self.name, for_good=True)

    def adopt(self, found: ReplicaStatus) -> None:
        """A replica that lives, of a supervisor that does not."""
        now = time.monotonic()
        self.process = process.Identity(found.pid or 0, found.started)
        self._taken[self.name] = int(found.url.rpartition(":")[2])
        self.life.restarts = found.restarts
        self.life.spawned(now)
        if found.phase in ("ready", "suspect"):
            self._slots = found.slots
            self._got = Identity(found.model, found.runs, kv_tokens=found.kv_tokens)
            self.life.answered_first_completion(now)
        self._journal.say("replica adopted", replica=self.name, pid=found.pid, phase=self.life.phase)

    def stopped(self) -> None:
        """Its process was stopped on purpose, by the supervisor."""
        self.life.stopped(time.monotonic())
        self.process, self.progress = None, ""

    async def _live(self) -> None:
        """One process from its start to its end."""
        self.progress = "waits for its turn to start"
        await self._turns.take(self.name)
        self.progress = ""
        try:
            child = self._spawn()
            self.process = child.identity
            self.life.spawned(time.monotonic())
            self._say("replica started", pid=self.process.pid, port=self._taken[self.name])
            await self._attend(child.identity, child)
        except NodeError as error:
            self._exited(Diagnosis(error.message, error.remedy, retry=False))
        finally:
            self._turns.give(self.name)

    async def _attend(self, leader: process.Identity, child: process.Child | None) -> None:
        """Until it has ended. `child`: None where another supervisor started it."""
        self._verdict = None
        async with asyncio.TaskGroup() as tasks:
            work = (self._watch_start(leader), self._serve_on(leader), self._obey(leader))
            watch = [tasks.create_task(part) for part in work]
            ends = [tasks.create_task(part) for part in (process.gone(leader), self._undying.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in (*watch, *ends):
                task.cancel()
        if not self._undying.is_set():
            await self._stop(leader, GRACE)  # what it started itself
        if self._undying.is_set():
            self._exited(self._verdict or Diagnosis("it does not die", ""))
            return
        self._exited(self._verdict or cause_of(self._engine, child.code() if child else None, self._tail()))

    def _spawn(self) -> process.Child:
        serve = self._placed()
        command = self._engine.command(serve)
        process.require_command(command.argv)
        env = {**command.env, **serve.env, **self._mark, **({VARIABLE: serve.gpu} if serve.gpu is not None else {})}
        self._log_start = self._logged()
        return process.spawn((*self._guard, *command.argv), env, self.log, outlives=True)

    def _placed(self) -> Serve:
        """With ports that are free now. NodeError where the user's own is not."""
        wish = self._taken.get(self.name, self._serve.port)
        if self._named_ports:
            require_free([wish])
        port = wish if self._named_ports else self._free(self.name, wish)
        self._taken[self.name] = port
        if self._serve.port and port != self._serve.port:
            self._journal.say("port moved", replica=self.name, wish=self._serve.port, port=port)
        flags = self._serve.flags
        if self._engine.name == "sglang" and "nccl-port" not in given(flags):
            # Left alone it draws one now and binds it many seconds later: replicas that start together can collide.
            inner = f"{self.name} nccl"
            self._taken[inner] = self._free(inner, self._taken.get(inner, nccl_port(port)))
            flags = {**flags, "nccl-port": self._taken[inner]}
        return msgspec.structs.replace(self._serve, port=port, flags=flags)

    def _free(self, user: str, first: int) -> int:
        return free_port(first, {port for name, port in self._taken.items() if name != user})

    async def _watch_start(self, leader: process.Identity) -> None:
        """Until it is ready: growth of log or counter is life, standing still for too long is death."""
        size, tokens, counted_at = -1, None, 0.0
        while self.life.phase in ("starting", "warming"):
            now = time.monotonic()
            grown = self._logged()
            if grown != size:
                size = grown
                self.life.moved(now)
                self.progress = telling(self._tail())
                self.changed()
            if self.life.phase == "warming" and now - counted_at > POLL:
                counted_at, before = now, tokens
                load = await read_load(self._engine, self.url)
                tokens = load.tokens if load else before
                if tokens != before:
                    self.life.moved(now)
            if self.life.tick(now) is Next.KILL:
                await self._kill(
                    leader,
                    Diagnosis(
                        f"its log stood still for {now - self.life.heard:.0f} s before it answered",
                        "see its log; a slow load needs a longer fleet.start_timeout",
                    ),
                )
                return
            await asyncio.sleep(LOOK)

    async def _serve_on(self, leader: process.Identity) -> None:
        """From the open port to the day it hangs."""
        try:
            while self.life.phase != "ready" and not await self._proves_ready(leader):  # noqa: ASYNC110  a port sends no events
                await asyncio.sleep(LOOK)
        except (ConfigError, RowError) as error:
            await self._kill(leader, Diagnosis(f"it is not fit for work: {error.message}", error.remedy, retry=False))
            return
        adopted = self.life.phase == "ready"  # that one has proved it
        if not adopted and not await self._passes(leader):
            return
        if not adopted:
            self.life.answered_first_completion(time.monotonic())
        watch = Watch(self._patience, fresh=self.life.slow and not adopted)
        self._turns.came_up()
        self.progress = ""
        self._say("replica ready", pid=leader.pid, url=self.url, slots=self._slots)
        if self.status().is_off_plan:
            self._say("replica not as planned", what=self.status().plan_and_got)
        pulse = Pulse(self._engine, self.url, hello(self._serve.model_name), leader, watch)
        pulse.read = self._loaded
        async with asyncio.TaskGroup() as tasks:
            comparing = tasks.create_task(self._compare(leader))
            why = await pulse.until_hung(self.log, self._drive, self.name, self._judged)
            comparing.cancel()
        self._say("replica hung", pid=leader.pid, why=why)
        # What hangs does not hear TERM, and its grace would be its rows' time.
        await self._kill(leader, Diagnosis(why, "if it comes again: sevenfold logs, and the GPU's Xid in dmesg"), 0.0)

    async def _proves_ready(self, leader: process.Identity) -> bool:
        """ConfigError where another program or another model answers on its port."""
        if not await is_up(self.url, self._engine.ready_path):
            return False
        wanted = self._serve.model_name
        found = await introduced(self.url, self._engine, leader, wanted)
        if isinstance(found, str):
            return False
        self._slots, self._got = slots_of(self._serve, found.slots), found
        self.life.warms(time.monotonic())
        self._turns.give(self.name)
        self.changed()
        try:
            await warm(self.url, self._engine, wanted, min(BATCH, self._slots) if self.life.slow else 0)
            await self._listen()
        except (ReplicaError, AttemptError) as error:
            self.progress = f"first requests: {error.message}"
            return False
        return True

    async def _listen(self) -> None:
        canary = self._panel.canary
        if canary.every:
            said = await listen(self.url, self._engine.name, self._serve.model_name, canary)
            self._panel.hears(self.name, said)

    async def _passes(self, leader: process.Identity) -> bool:
        """Whether it may be given rows, once most of the others can be compared with it."""
        if not self._panel.canary.every:
            return True
        self._turns.came_up()  # the others may wait for nothing but its kernels
        self.progress = "waits for the others' first answers, to compare"
        began = time.monotonic()
        while not self._panel.is_settled and time.monotonic() < began + HOLD:
            self.life.moved(time.monotonic())
            await asyncio.sleep(LOOK)
        why = self._panel.complaint(self.name)
        if why:
            self._unfit = True
            await self._part(leader, why)
        return not why

    async def _compare(self, leader: process.Identity) -> None:
        """Asks it again every hour, and judges it again when others have come. What was right before may be so after a
        new start; one that is not right then is not started any more."""
        every = self._panel.canary.every
        asked = time.monotonic()
        while every:
            await asyncio.sleep(min(every, 1.0))
            if time.monotonic() - asked >= every:
                asked = time.monotonic()
                try:
                    await self._listen()
                except (ReplicaError, AttemptError, ConfigError) as error:
                    self._say("canary not answered", why=error.message)  # whether it works is the pulse's to tell
            why = self._panel.complaint(self.name)
            if why and self._panel.is_settled:
                await self._part(leader, why)

    async def _part(self, leader: process.Identity, why: str) -> None:
        self._say("replica unlike the others", why=why)
        await self._kill(leader, Diagnosis(why, "compare its model folder, template and flags with the others'"))

    def request(self, what: str) -> None:
        """'restart', or 'drain': stop it and leave it down."""
        if self.life.phase == "backoff" and what == "restart":
            return  # it is about to start anyway
        self._request = what
        self._called.set()

    async def _obey(self, leader: process.Identity) -> None:
        await self._called.wait()
        self.life.drains(time.monotonic())
        self._say("replica drains", request=self._request)
        await until_empty(self._engine, self.url, self._drive, self.name, self._patience)
        await self._kill(leader, Diagnosis("stopped on request", ""))

    def _loaded(self, load: Load) -> None:
        self.load = load

    def _judged(self, verdict: Verdict) -> None:
        before = self.life.phase
        if verdict == "suspect":
            self.life.doubted(time.monotonic())
        elif verdict == "ok":
            self.life.trusted(time.monotonic())
        if self.life.phase != before:
            self._say(f"replica {self.life.phase}")

    async def _kill(self, leader: process.Identity, verdict: Diagnosis, grace: float = GRACE) -> None:
        self._verdict = verdict
        await self._stop(leader, grace)

    async def _stop(self, leader: process.Identity, grace: float) -> None:
        left = await asyncio.to_thread(self.stop_session, leader, grace)
        if left:  # they hold GPU and port: no other engine is started beside them
            self._verdict, self._unfit = undying([p.pid for p in left], self._serve.gpu), True
            self._undying.set()

    def _exited(self, diagnosis: Diagnosis) -> None:
        self._panel.forgets(self.name)
        self.load, self.slow = Load(), ""
        if self._unfit:
            self.life.condemned(time.monotonic(), diagnosis)
        elif self._called.is_set():
            self._called.clear()
            self.life.left(time.monotonic(), self._request == "drain")
        else:
            self.life.exited(time.monotonic(), diagnosis)
        self.process, self.progress = None, ""
        self._say("replica ended", phase=self.life.phase, cause=diagnosis.cause)

    def _logged(self) -> int:
        """Bytes in the log; 0 where somebody took it away."""
        return self.log.stat().st_size if self.log.exists() else 0

    def _tail(self) -> str:
        """The end of what this start has logged."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(self._log_start, self._logged() - TAIL))
                return file.read(TAIL).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _say(self, event: str, **facts: object) -> None:
        self._journal.say(event, replica=self.name, **facts)
        self.changed()
