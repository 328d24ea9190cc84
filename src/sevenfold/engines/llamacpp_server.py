"""llama.cpp's own HTTP server as a program: `python llamacpp_server.py --model X.gguf --port 9000 --slots 4 ...`.

It imports xllamacpp and the standard library only, so the engine's interpreter needs no sevenfold. It listens on
127.0.0.1 at the port it was given or not at all, and dies with the process that started it.

Exit codes: 2 bad flags, 3 port taken, 4 model not loaded, 5 xllamacpp not installed.
"""

import argparse
import ctypes
import os
import signal
import sys
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
"""linux/prctl.h: the signal that the kernel sends us when our parent ends."""

OURS = {
    "model": "--model",
    "model.path": "--model",
    "port": "--port",
    "n_parallel": "--slots",
    "n_ctx": "--context",
    "model_alias": "--name",
    "endpoint_metrics": "nothing: it is on",
    "hostnames": "nothing: it listens on 127.0.0.1 only",
}
"""Parameters that have a flag of their own here."""


def main() -> NoReturn:
    args = arguments(sys.argv[1:])
    die_with_parent()
    if is_taken(args.port):
        refuse(3, f"port {args.port} is taken")
    try:
        xllamacpp: Any = import_module("xllamacpp")
    except ImportError as error:
        refuse(5, f"xllamacpp cannot be imported: {error}")
    params = xllamacpp.CommonParams()
    params.model_tags = {f"xllamacpp {xllamacpp.__version__}"}  # the one place in its API that can tell the version
    configure(params, args)
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        refuse(3 if is_taken(args.port) else 4, f"llama.cpp did not start: {error}")
    print(f"serving {args.name} at {server.listening_address}", flush=True)
    while True:
        signal.pause()


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="One llama.cpp replica.", allow_abbrev=False)
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--name", required=True, help="the name that replies carry")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True, help="requests decoded at once")
    parser.add_argument("--context", type=int, required=True, help="tokens of prompt and completion per request")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--flag", action="append", default=[], metavar="K=V", help="a field of xllamacpp.CommonParams")
    return parser.parse_args(argv)


def die_with_parent() -> None:
    """Ends at once, whatever C++ code is doing, on SIGTERM and when the parent is gone."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def is_taken(port: int) -> bool:
    """Whether somebody listens on the port, on any address (proc_pid_net(5): state 0A)."""
    wanted = f":{port:04X}"
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        lines = table.read_text().splitlines()[1:] if table.exists() else []
        if any(local.endswith(wanted) and state == "0A" for _, local, _, state, *_ in map(str.split, lines)):
            return True
    return False


def configure(params: Any, args: argparse.Namespace) -> None:
    params.model.path = args.model
    params.model_alias = {args.name}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_parallel = args.slots
    params.n_ctx = args.slots * args.context
    params.endpoint_metrics = True
    params.ui = False
    params.cache_ram_mib = 0  # up to 8 GiB by default, and only follow-up turns could find an old prompt
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    for flag in args.flag:
        name, equals, text = flag.partition("=")
        if not equals:
            refuse(2, f"--flag {flag}: not of the form NAME=VALUE")
        assign(params, name, text)


def assign(params: Any, name: str, text: str) -> None:
    """Sets a field, dotted where it is of an inner struct, from text of the field's own type."""
    if name in OURS:
        refuse(2, f"--flag {name}: use {OURS[name]}")
    *path, field = name.split(".")
    try:
        for part in path:
            params = getattr(params, part)
        setattr(params, field, parse(text, getattr(params, field)))
    except AttributeError:
        refuse(2, f"--flag {name}: xllamacpp has no such parameter")
    except (KeyError, TypeError, ValueError):
        refuse(2, f"--flag {name}={text}: not a value of this parameter")


def parse(text: str, now: Any) -> Any:
    """Text as a value of the type of `now`."""
    if isinstance(now, bool):
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    if isinstance(now, Enum):
        return type(now)[text]
    if isinstance(now, int | float | str):
        return type(now)(text)
    raise TypeError


def refuse(code: int, sentence: str) -> NoReturn:
    print(f"llamacpp_server: {sentence}", file=sys.stderr, flush=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
