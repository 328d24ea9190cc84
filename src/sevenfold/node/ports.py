"""TCP ports of 127.0.0.1: which are free, and who listens on one."""

import socket
from collections.abc import Container, Iterable

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
    """The pid that listens on the port; None where nobody does or it cannot be seen.

    The oldest, where several do: a child that has not become its program yet still has its parent's sockets."""
    found = [
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port
    ]
    return min((pid for pid in found if pid), key=_born, default=None)


def _born(pid: int) -> float:
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return float("inf")


def busy(port: int) -> str | None:
    """Who holds the port, in words; None where it is free."""
    if _bindable(port):
        return None
    pid = holder(port)
    if pid is None:
        return "a process that cannot be seen"
    try:
        return f"pid {pid}: {' '.join(psutil.Process(pid).cmdline())[:120]}"
    except psutil.Error:
        return f"pid {pid}"


def require_free(ports: Iterable[int]) -> None:
    """NodeError that names the holder of the first one that is taken."""
    for port in ports:
        who = busy(port)
        if who is not None:
            raise NodeError(f"port {port} is in use: {who}", "end it, or set fleet.base_port to other ports")


def _bindable(port: int) -> int | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT of an earlier replica is no holder
        try:
            probe.bind((HOST, port))
        except OSError:
            return None
        return probe.getsockname()[1]
