"""`demo`: the main job on this machine, for real, in a few minutes and without a GPU."""

from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sevenfold.audit import render
from sevenfold.cli.flags import SpecFlags
from sevenfold.cli.output import put
from sevenfold.cli.run import perform
from sevenfold.cli.status import screen
from sevenfold.cli.talk import say
from sevenfold.job.audit import audit
from sevenfold.job.export import export
from sevenfold.job.status import status


def demo(*, output: Annotated[Path, Parameter(name=["-o", "--output"])] = Path("runs/demo")) -> int:
    """Regenerate 60 prompts with two llama.cpp replicas of SmolLM2-135M on the CPU, audit and export them.

    Parameters
    ----------
    output
        Run folder.
    """
    shipped = files("sevenfold") / "examples"
    with as_file(shipped / "demo.toml") as config, as_file(shipped / "demo-prompts.jsonl") as prompts:
        spec = SpecFlags(config=config).spec((str(prompts),))
        say("two replicas of SmolLM2-135M-Instruct on the CPU; 60 prompts, 12 of them of two turns")
        code = perform(spec, output, None, quiet=False)
        if code:
            return code
        put(render(audit(output)))
        exported = output / "messages.jsonl"
        written = export(output, "messages", exported, force=True)
        put(screen(status(output)))
        put(f"\n  {written.rows} good rows   {exported}")
        put(f"  their origin   {exported}.manifest.json")
        put(f"  every row      sevenfold rows {output}")
        put(f"  the ledger     {output / 'ledger'}")
    return 0
