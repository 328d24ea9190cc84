"""The command: verbs by name, errors as one sentence with its remedy, an exit code by the class of the error."""

import asyncio
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from sevenfold import __version__
from sevenfold.cli.talk import complain
from sevenfold.errors import ConfigError, SevenfoldError

EXIT_CODES = (
    "Exit codes: 0 every row good; 1 error, or rows left; 2 usage; 3 the machine is not fit; 4 finished with failed or "
    "refused rows; 5 stopped, or over a limit, for the quality of the output; 6 another driver holds the run; 7 no "
    "replica could be started or kept; 130 and 143 ended by SIGINT and SIGTERM."
)

HELP = "Turn a file of prompts and a machine of GPUs into training data."

VERBS = {
    "run": ("sevenfold.cli.run:run", "Regenerate every prompt of the input files."),
    "resume": ("sevenfold.cli.run:resume", "Go on with a run: asks only what has no answer yet."),
    "status": ("sevenfold.cli.status:status", "Say where a run stands, from any shell."),
    "rows": ("sevenfold.cli.rows:rows", "Print one JSON object per row and sample."),
    "audit": ("sevenfold.cli.audit:audit", "Judge a run or a file of rows: is it any good?"),
    "export": ("sevenfold.cli.export:export", "Write the good rows of a run, with a manifest beside them."),
    "inspect": ("sevenfold.cli.inspect:inspect", "Show what would be sent, without sending it."),
    "plan": (
        "sevenfold.cli.plan:plan",
        "Say what a launch really gives, what limits it and what it costs; no GPU needed.",
    ),
    "profile": ("sevenfold.cli.profile:profile", "List, show and make launch profiles."),
    "up": ("sevenfold.cli.fleet:up", "Start the replicas and wait until each answers; they stay until `down`."),
    "down": ("sevenfold.cli.fleet:down", "Stop the replicas of a run folder, and what a crash left of them."),
    "restart": ("sevenfold.cli.fleet:restart", "Stop one replica and start it again; its requests go to the others."),
    "drain": ("sevenfold.cli.fleet:drain", "Stop one replica and leave it down until `restart`."),
    "logs": ("sevenfold.cli.fleet:logs", "Print the end of the replicas' logs."),
    "doctor": (
        "sevenfold.cli.doctor:doctor",
        "Examine this machine before anything is started; every fault with its remedy.",
    ),
    "stage": (
        "sevenfold.cli.stage:stage",
        "Copy a model once to a local disk or RAM disk: whole, verified, resumable.",
    ),
    "demo": ("sevenfold.cli.demo:demo", "The whole job on this machine's CPU, in a few minutes."),
}
"""Where each verb lives, and its help line: a verb is imported only when it is called."""


def build() -> App:
    app = App(
        name="sevenfold",
        help=HELP,
        help_epilogue=EXIT_CODES,
        version=__version__,
        version_flags=["--version"],
        help_format="plaintext",
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
    )
    for place, (name, (where, line)) in enumerate(VERBS.items()):
        app.command(where, name=name, help=line, sort_key=place)
    app.register_install_completion_command()  # pyright: ignore[reportUnknownMemberType] the library leaves **kwargs bare
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code. Anything that is not ours keeps its traceback."""
    try:
        result = build()(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        complain(ConfigError(str(error), "sevenfold --help"))
        return 2
    except SevenfoldError as error:
        complain(error)
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except BrokenPipeError:  # `sevenfold rows RUN | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
