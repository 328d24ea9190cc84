"""Every error that sevenfold raises on purpose. The class says who must act.

    SevenfoldError
      ConfigError    the user changes something; nothing was started          exit 2
      NodeError      the machine is at fault; the remedy is in the message    exit 3
      FleetError     no replica could be started or kept                      exit 7
      LockedError    another driver holds the run                             exit 6
      GateError      the output is bad; the run stops before more is spent    exit 5
      ReplicaError   one replica is at fault; its work goes elsewhere and no row is charged
      AttemptError   row or replica is at fault, nobody can tell yet: the row is charged one attempt
      RowError       one row is at fault (400, too long, or charged too often); it becomes a Failure

Adding one: it needs an actor that none of these names; then a line here, an exit code, a test in tests/test_errors.py.
A message says what happened, where and why; `remedy` is the one command or change that helps.
"""


class SevenfoldError(Exception):
    """The root. `exit_code` is what the command returns when one of these ends it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.remedy}" if self.remedy else self.message


class ConfigError(SevenfoldError):
    exit_code = 2


class NodeError(SevenfoldError):
    exit_code = 3


class GateError(SevenfoldError):
    exit_code = 5


class LockedError(SevenfoldError):
    exit_code = 6


class FleetError(SevenfoldError):
    exit_code = 7


class RequestError(SevenfoldError):
    """One request did not bring a completion. `kind` is a short stable word for counting: 'busy', 'timeout', ..."""

    def __init__(self, message: str, kind: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.kind = kind


class ReplicaError(RequestError):
    """The row is innocent: 429, 503, refused or lost connections. `retry_after` in seconds, where the server says."""

    def __init__(self, message: str, kind: str, retry_after: float | None = None) -> None:
        super().__init__(message, kind)
        self.retry_after = retry_after


class AttemptError(RequestError):
    """Nobody can tell yet: 500, a deadline passed, a reply that is not one. The row is charged one attempt."""


class RowError(RequestError):
    """The row is at fault and asking again would bring the same."""
