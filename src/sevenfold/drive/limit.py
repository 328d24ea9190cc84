"""Who may be asked now, and for how long an answer is waited for. Pure: times come in as numbers, chance as a function.

An endpoint that refuses is left alone for a while: 1 s at first, doubling to a minute, with full jitter so that many
drivers do not come back at once. Then it gets one request on trial, and its whole load when that one is not refused.
"""

from collections.abc import Callable, Collection, Iterable

import msgspec

from sevenfold.types import Endpoint


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for what, in seconds."""

    first: float = 30.0
    """For any answer, before one was measured..."""
    per_token: float = 0.25
    """...and for each token asked, on top: slower than that, a large model on a CPU or a full batch is not."""
    least: float = 10.0
    """Never give up earlier: a queue or a long prefill takes that."""
    pause: float = 1.0
    """The first back-off of an endpoint; doubles."""
    longest_pause: float = 60.0
    rest: float = 5.0
    """Of an endpoint that answers with errors only, at most. Short, since the rows may be bad after all, and then they
    must get through their attempts."""
    fleet: float = 600.0
    """All endpoints refuse and nothing comes back for so long: the run ends. An engine restarts in less."""


TRIAL = 2.0
"""Seconds after which a request on trial counts as taken: refusals and cut connections come sooner."""

SICK = 8
"""Unclear errors in a row, without any answer between, after which an endpoint is rather sick than its rows bad."""


class Station:
    """One endpoint, what runs there, and how it behaves."""

    __slots__ = ("closed_at", "closed_until", "endpoint", "errors", "in_flight", "strikes", "trial")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.in_flight = 0
        self.strikes = 0
        self.errors = 0
        self.closed_at = 0.0
        self.closed_until = 0.0
        self.trial: float | None = None
        """When the request on trial left."""

    @property
    def is_failing(self) -> bool:
        return self.strikes > 0 or self.errors >= SICK

    def opens(self, now: float) -> float:
        """When it may be asked; a time that is past means now."""
        if self.strikes and self.trial is not None:
            return max(self.closed_until, self.trial + TRIAL)
        return self.closed_until


class Limit:
    """The endpoints, each with as many requests in flight as it has slots."""

    def __init__(self, patience: Patience, chance: Callable[[], float]) -> None:
        self._patience, self._chance = patience, chance
        self._stations: dict[str, Station] = {}

    def set(self, endpoints: Iterable[Endpoint]) -> None:
        """An endpoint that comes anew, or back under another URL, starts without a past."""
        stations: dict[str, Station] = {}
        for endpoint in endpoints:
            station = self._stations.get(endpoint.replica)
            if station is None or not _is_same(station.endpoint, endpoint):
                station = Station(endpoint)
            station.endpoint = endpoint
            stations[endpoint.replica] = station
        self._stations = stations

    @property
    def slots(self) -> int:
        return sum(station.endpoint.slots for station in self._stations.values())

    @property
    def in_flight(self) -> dict[str, int]:
        return {replica: station.in_flight for replica, station in self._stations.items()}

    @property
    def all_fail(self) -> bool:
        """False where there are none."""
        return bool(self._stations) and all(station.is_failing for station in self._stations.values())

    def holds(self, station: Station) -> bool:
        return self._stations.get(station.endpoint.replica) is station

    def take(self, now: float, tried: Collection[str] = ()) -> Station | None:
        """A slot of the open endpoint with the largest share of free ones, outside `tried` where any such is open."""
        station, others = self._freest(now, tried)
        if station is None and not others:
            station, _ = self._freest(now, ())
        if station is not None:
            station.in_flight += 1
            if station.strikes:
                station.trial = now
        return station

    def _freest(self, now: float, tried: Collection[str]) -> tuple[Station | None, bool]:
        """With whether any endpoint was open, full or not."""
        best, most, any_open = None, 0.0, False
        for station in self._stations.values():
            if not station.endpoint.slots or station.endpoint.replica in tried or station.opens(now) > now:
                continue
            any_open = True
            share = 1.0 - station.in_flight / station.endpoint.slots
            if share > most:
                best, most = station, share
        return best, any_open

    def answered(self, station: Station) -> None:
        """It brought a completion, or judged the row: it works. A pause that has begun holds: the answer may be to a
        request from before."""
        station.in_flight -= 1
        station.strikes = station.errors = 0
        station.trial = None

    def erred(self, station: Station, now: float) -> None:
        station.in_flight -= 1
        station.errors += 1
        if station.errors >= SICK:
            station.closed_until = max(station.closed_until, now + self._chance() * self._patience.rest)

    def refused(self, station: Station, sent: float, now: float, retry_after: float | None) -> None:
        """`sent`: when the refused request left. Those that left before the last pause began are of the same wave."""
        station.in_flight -= 1
        if not station.strikes or sent >= station.closed_at:
            ceiling = min(self._patience.longest_pause, self._patience.pause * 2**station.strikes)
            station.strikes += 1
            station.closed_at = now
            station.closed_until = now + self._chance() * ceiling
            station.trial = None
        if retry_after is not None:
            station.closed_until = max(station.closed_until, now + min(retry_after, self._patience.longest_pause))

    def dropped(self, station: Station) -> None:
        """The request was called back; nothing is known."""
        station.in_flight -= 1

    def next_opening(self, now: float) -> float | None:
        """Seconds until the next closed endpoint may be asked; None where none is closed."""
        waits = [opens - now for station in self._stations.values() if (opens := station.opens(now)) > now]
        return min(waits, default=None)


def _is_same(known: Endpoint, endpoint: Endpoint) -> bool:
    return (known.url, known.model, known.engine) == (endpoint.url, endpoint.model, endpoint.engine)


class Deadline:
    """How long a request may take, from how long others took per token."""

    WINDOW = 512
    """Completions that count: a few minutes of a replica, so that a batch that fills up is followed."""
    ENOUGH = 32
    """Measured before the measure is trusted."""
    FEWEST = 64
    """Tokens below which a reply tells of waiting in line and prefill more than of writing."""
    AMPLE = 4.0
    """Times the slowest in a hundred: who takes longer does not come."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._seen: list[float] = []
        self._count = 0
        self._slow = 0.0

    def observe(self, seconds: float, tokens: int) -> None:
        pace = seconds / max(tokens, self.FEWEST)
        if len(self._seen) < self.WINDOW:
            self._seen.append(pace)
        else:
            self._seen[self._count % self.WINDOW] = pace
        self._count += 1
        if self._count % self.ENOUGH == 0:
            self._slow = sorted(self._seen)[int(len(self._seen) * 0.99)]

    def seconds(self, max_tokens: int) -> float:
        patience = self._patience
        if not self._slow:
            return patience.first + patience.per_token * max_tokens
        return max(patience.least, self.AMPLE * self._slow * max_tokens)
