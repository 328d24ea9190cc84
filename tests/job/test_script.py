"""The script is run for real, with fake engines behind it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sevenfold.capacity.roofline import Lengths
from sevenfold.job import profiles
from sevenfold.job.planning import Scenario, plan
from sevenfold.job.script import WIDTH, script

ASKED = Scenario(lengths=Lengths(prompt=180, output=2000, spread=0.8))
PATIENCE = 60.0


def two_free_ports() -> int:
    """The first of two neighbours that nobody listens on."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            first = int(one.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                two.bind(("127.0.0.1", first + 1))
                return first


def fake(home: Path, behaviour: dict[str, object], port: int) -> Path:
    """The bash file of two fake replicas, the second with a quote in its environment."""
    (home / "behaviour.json").write_text(json.dumps(behaviour))
    (home / "fake.toml").write_text(
        f'engine = "fake"\nengine_version = "1"\nmodel = "acme/tiny one"\ngpu = "B200"\nreplicas = 2\n'
        f'base_port = {port}\n[env]\nGREETING = "it\'s $HOME"\n'
        f"[flags]\nscript = {json.dumps(str(home / 'behaviour.json'))}\n"
    )
    path = home / "launch.sh"
    path.write_text(script(plan(profiles.load(str(home / "fake.toml")), ASKED)))
    return path


@contextlib.contextmanager
def bash(path: Path) -> Iterator[subprocess.Popen[str]]:
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "5,GPU-7", "PATIENCE": "60"}
    process = subprocess.Popen(
        ["bash", path, path.parent / "logs"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def environment(port: int) -> dict[str, str]:
    """Of the process whose command line names the port."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"sevenfold.engines.fake_server" in words and str(port).encode() in words:
                pairs = (folder / "environ").read_bytes().decode().split("\0")
                return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    return {}


def test_it_waits_for_real_answers_and_leaves_nothing_behind(home):
    port = two_free_ports()
    urls = [f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"]
    with bash(fake(home, {"load": 1.0, "lie_health": True, "latency": 0.0}, port)) as process:
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in urls] == urls
        for url in urls:
            with urllib.request.urlopen(f"{url}/stats", timeout=PATIENCE) as reply:
                assert json.load(reply)["served"] == 1
        one, two = environment(port), environment(port + 1)
        assert (one["CUDA_VISIBLE_DEVICES"], two["CUDA_VISIBLE_DEVICES"]) == ("5", "GPU-7")
        assert one["GREETING"] == "it's $HOME"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 143
    assert "serving tiny one at" in (home / "logs" / "replica-1.log").read_text()
    assert environment(port) == environment(port + 1) == {}


def test_a_replica_that_dies_at_its_start_ends_it_with_the_reason(home):
    port = two_free_ports()
    with bash(fake(home, {"no_such_field": 1}, port)) as process:
        out, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (7, "")
    assert "replica 0 ended while it started" in said
    assert "no_such_field" in said
    assert environment(port + 1) == {}


def test_a_replica_that_dies_later_is_named_and_the_others_are_stopped(home):
    port = two_free_ports()
    with bash(fake(home, {"die_after": 1, "latency": 0.0}, port)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
        assert process.stdout.readline().strip() == f"http://127.0.0.1:{port + 1}"
        body = json.dumps({"model": "tiny one", "messages": [{"role": "user", "content": "again"}]}).encode()
        with pytest.raises(OSError, match=r"without response|reset"):
            urllib.request.urlopen(f"http://127.0.0.1:{port + 1}/v1/chat/completions", body, timeout=PATIENCE)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 7
    assert "replica 1 ended" in said
    assert environment(port) == {}


def test_a_busy_port_is_never_up_already(home):
    port = two_free_ports()
    path = fake(home, {}, port)
    with socket.create_server(("127.0.0.1", port + 1)), bash(path) as process:
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 3
    assert f"port {port + 1} is taken: replica 1 cannot have it" in said
    assert environment(port) == {}


def test_too_few_visible_gpus_start_nothing(home):
    path = fake(home, {}, two_free_ports())
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "3"}
    done = subprocess.run(["bash", path, home / "logs"], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "2 GPUs are needed, CUDA_VISIBLE_DEVICES names 1\n")


@pytest.mark.parametrize("name", [one.name for one in profiles.listing() if one.where == "shipped"])
def test_every_shipped_profile_makes_bash_of_readable_width_with_the_whole_argv(name, home):
    found = plan(profiles.load(name), ASKED)
    text = script(found)
    assert max(map(len, text.splitlines())) <= WIDTH + 4
    checked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    printing = text.replace('setsid env "$@" >"$logs/replica-$name.log" 2>&1 </dev/null &', 'printf "%s\\n" "$@" "";')
    printing = printing.partition("# Ready is who")[0].replace("pids[name]=$! ports[name]=$port", "")
    env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable}
    done = subprocess.run(["bash", "-c", printing, "x", home / "logs"], env=env, capture_output=True, text=True)
    started = [words.splitlines() for words in done.stdout.split("\n\n") if words]
    for launch, words in zip(found.launches, started, strict=True):
        variables = [f"{key}={value}" for key, value in launch.command.env.items()]
        assert words == [*variables, *launch.command.argv]
