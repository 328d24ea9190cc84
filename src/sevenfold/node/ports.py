"""TCP ports of 127.0.0.1: which are free, and who listens on one."""

import socket
from collections.abc import Container

import psutil

from sevenfold.errors import NodeError

HOST = "127.0.0.1"
REACH = 1000
"""How many ports after the first are tried: more than a machine runs replicas, few enough to be done at once."""


def free_port(first: int, taken: Container[int] = ()) -> int:
    """The first free port from `first` on that is not in `taken`; any free one for 0. NodeError where there is none.

    Nothing holds it afterwards: whoever listens must fail when another was faster."""
    candidates = [0] * REACH if first == 0 else range(first, min(first + REACH, 65536))
    for candidate in candidates:
        port = _bindable(candidate)
        if port and port not in taken:
            return port
    raise NodeError(f"no free port from {first} on", "set fleet.base_port to another first port")


def holder(port: int) -> int | None:
    """The pid that listens on the port; None where nobody does or it cannot be seen."""
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port:
            return connection.pid
    return None


def require_free(port: int) -> None:
    """NodeError that names the holder of a port that was asked for by number."""
    if _bindable(port):
        return
    raise NodeError(f"port {port} is taken by {_words(holder(port))}", "stop it, or set fleet.base_port elsewhere")


def _words(pid: int | None) -> str:
    if pid is None:
        return "a process that is not ours to see"
    try:
        return f"process {pid} ({' '.join(psutil.Process(pid).cmdline())[:80]})"
    except psutil.Error:
        return f"process {pid}"


def _bindable(port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT of an earlier replica is no holder
        try:
            probe.bind((HOST, port))
        except OSError:
            return None
        return probe.getsockname()[1]
