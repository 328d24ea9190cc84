import os
import socket

from sevenfold.node.asked import Subject, Wanted
from sevenfold.node.doctor import Finding
from sevenfold.node.probes_machine import cores, free, limits, open_files, taken


def test_a_named_port_that_is_held_is_a_fault_with_its_holder() -> None:
    found = list(taken({30000: "pid 77: python -m http.server", 30001: None, 31000: None}, (30000, 30001)))
    assert found == [
        Finding(
            "fail",
            "port_in_use 30000: held by pid 77: python -m http.server",
            "end it, or set fleet.base_port to other ports",
        )
    ]


def test_the_engines_own_port_counts_too() -> None:
    found = list(taken({30000: None, 31000: "pid 9: x"}, (30000,)))
    assert [f.sentence for f in found] == ["port_in_use 31000, the engine's own for collectives: held by pid 9: x"]


def test_ports_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (held,) = free(Subject(Wanted(ports=(port,)), lambda: None))
    (open_again,) = free(Subject(Wanted(ports=(port,)), lambda: None))
    assert (held.level, f"pid {os.getpid()}" in held.sentence, open_again.level) == ("fail", True, "ok")
    assert [f.level for f in free(Subject(Wanted(), lambda: None))] == ["ok"]
    assert list(free(Subject(Wanted(starts=False), lambda: None))) == []


def test_open_files() -> None:
    assert next(open_files(1024, 4096, 7)).remedy == "raise the hard limit of 4096 to 8192"
    assert next(open_files(1024, 1048576, 7)).remedy == "ulimit -n 8192"
    assert next(open_files(-1, -1, 7)) == Finding("ok", "any number of open files")


def test_this_machine() -> None:
    subject = Subject(Wanted(replicas=1), lambda: None)
    assert all(f.level in ("ok", "warn") for f in (*limits(subject), *cores(subject)))
    assert next(iter(cores(Subject(Wanted(replicas=10**6), lambda: None)))).level == "warn"
