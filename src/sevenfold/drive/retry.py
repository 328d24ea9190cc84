"""A row's life inside the house: what each ending of a request means for it. Pure.

Errors of a replica cost a row nothing, however many there are. Errors that may be the row's own cost one attempt each.
"""

from sevenfold.errors import AttemptError, ReplicaError, RequestError
from sevenfold.types import Ask, Failure

MAX_ATTEMPTS = 3
"""On distinct replicas where there are as many: a row that fails on three is more likely at fault than all three."""

MAX_LOSSES = 3
"""Connections lost under one row before it is set aside: a row may kill what it is sent to, and a fleet has few
replicas. Two deaths in a row happen to innocents when a host goes down and comes back."""


class Row:
    """An Ask on its way, and what happened to it so far."""

    __slots__ = ("ask", "attempts", "losses", "tried")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.attempts = 0
        """Charged to the row."""
        self.losses = 0
        self.tried: frozenset[str] = frozenset()
        """Replicas that failed it: others come first now."""

    def fail(self, error: RequestError, replica: str) -> Failure | None:
        """The Failure that this error makes of it; None where it is to be asked again."""
        if isinstance(error, ReplicaError):
            self.losses += error.kind == "lost"
            if self.losses < MAX_LOSSES:
                return None
            reason = f"{self.losses} replicas lost the connection while they had this row; last: {error.message}"
            return self._failure("poison", reason, replica, permanent=False)
        self.attempts += 1
        if not isinstance(error, AttemptError):
            return self._failure(error.kind, error.message, replica, permanent=True)
        self.tried |= {replica}
        if self.attempts < MAX_ATTEMPTS:
            return None
        return self._failure(error.kind, f"{self.attempts} attempts; last: {error.message}", replica, permanent=False)

    def _failure(self, kind: str, reason: str, replica: str, permanent: bool) -> Failure:
        prompt = self.ask.prompt
        return Failure(
            key=prompt.key,
            id=prompt.id,
            sample=self.ask.sample,
            turn=self.ask.turn,
            turns=len(prompt.turns),
            kind=kind,
            reason=reason,
            origin=prompt.origin,
            permanent=permanent,
            replica=replica,
            attempts=self.attempts,
        )
