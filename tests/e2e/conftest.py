import socket

import pytest


@pytest.fixture
def free_ports() -> list[int]:
    """Four ports that nobody holds now."""
    probes = [socket.socket() for _ in range(4)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
