import os
import socket

import pytest

from sevenfold.errors import NodeError
from sevenfold.node.ports import free_port, holder, require_free


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def test_any_free_port() -> None:
    assert free_port(0) > 0


def test_a_taken_port_is_passed_over() -> None:
    with listening() as server:
        taken = server.getsockname()[1]
        assert free_port(taken) > taken


def test_a_promised_port_is_passed_over() -> None:
    first = free_port(0)
    assert free_port(first, {first}) > first


def test_no_port_left() -> None:
    with pytest.raises(NodeError, match="no free port from 65530 on"):
        free_port(65530, range(65530, 65536))


def test_holder() -> None:
    with listening() as server:
        port = server.getsockname()[1]
        assert holder(port) == os.getpid()
    assert holder(port) is None


def test_a_port_that_was_asked_for_names_its_holder() -> None:
    with listening() as server:
        port = server.getsockname()[1]
        with pytest.raises(NodeError, match=f"port {port} is taken by process {os.getpid()} "):
            require_free(port)
    require_free(port)
