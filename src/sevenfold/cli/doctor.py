"""`doctor`: is this machine fit, before anything is started."""

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sevenfold.cli.flags import SpecFlags
from sevenfold.cli.output import put, put_json
from sevenfold.cli.talk import say
from sevenfold.errors import NodeError
from sevenfold.job.doctor import diagnose
from sevenfold.node.doctor import Report, worst

NO_FLAGS = SpecFlags()


def doctor(
    *,
    output: Annotated[Path, Parameter(name=["-o", "--output"])] = Path("runs"),
    json: bool = False,
    flags: SpecFlags = NO_FLAGS,
) -> int:
    """Examine this machine for a run: GPUs, driver, engine, model, mounts, output folder, ports, limits.

    Nothing is started, downloaded or changed. Exit code 3 where the machine is not fit.

    Parameters
    ----------
    output
        Run folder to examine; it need not exist.
    json
        One JSON object on stdout.
    """
    began = time.monotonic()
    reports = diagnose(flags.spec(), output)
    seconds = round(time.monotonic() - began, 2)
    fit = worst(reports) != "fail"
    if json:
        put_json({"fit": fit, "seconds": seconds, "probes": reports})
    else:
        put(screen(reports))
    count = {level: sum(f.level == level for r in reports for f in r.findings) for level in ("fail", "warn", "note")}
    verdict = "the machine is fit" if fit else "the machine is not fit"
    say(f"{verdict}: {len(reports)} probes in {seconds:.1f} s, {count['fail']} failed, {count['warn']} warnings")
    return 0 if fit else NodeError.exit_code


def screen(reports: tuple[Report, ...]) -> str:
    lines: list[str] = []
    for report in reports:
        for finding in report.findings:
            lines.append(f"{finding.level:<5} {report.probe:<13} {finding.sentence}")
            if finding.remedy:
                lines.append(f"{'':<19} -> {finding.remedy}")
    return "\n".join(lines)
