"""Probes of the engine's interpreter and of the model."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from sevenfold.node import mounts, wholeness
from sevenfold.node.asked import ENGINE_PATIENCE_WITHOUT_GPU, Subject
from sevenfold.node.doctor import Finding, fail, note, ok, probe, warn
from sevenfold.node.interpreter import PACKAGES

SLOW = 20.0
"""Seconds for an import. On a local disk the largest engine takes 15; seven replicas that start at once take turns."""
GGUF = b"GGUF"


@probe("engine")
def engine(subject: Subject) -> Iterable[Finding]:
    """the engine, installed where its interpreter finds it"""
    wanted = subject.wanted
    if not wanted.starts:
        yield ok("the endpoints are somebody else's")
        return
    if wanted.engine not in PACKAGES:
        yield ok(f"{wanted.engine} is part of sevenfold")
        return
    found = subject.installed()
    if found is None:
        yield fail(f"{wanted.python}: no Python that answers", "name the engine's interpreter with fleet.python")
    elif not found.version:
        sentence = f"{PACKAGES[wanted.engine]} is not installed in {found.prefix}"
        yield fail(sentence, "install it there, or name the engine's interpreter with fleet.python")
    else:
        yield ok(f"{wanted.engine} {found.version}, Python {found.python}, in {found.prefix}")


@probe("engine import", seconds=lambda subject: subject.patience + 3.0)
def imported(subject: Subject) -> Iterable[Finding]:
    """seconds that the engine's import takes in its own environment"""
    wanted = subject.wanted
    if not wanted.starts or wanted.engine not in PACKAGES:
        return
    found = subject.installed()
    if found is None or not found.version:
        return
    mount = mounts.filesystem(Path(found.prefix))
    where = f"{found.prefix} lies on {mounts.in_words(mount)}, mounted on {mount.point}"
    build = subject.build()
    if build is None and subject.patience == ENGINE_PATIENCE_WITHOUT_GPU:
        yield note(f"import takes more than {subject.patience:.0f} s; {where}", "not waited for, as no GPU is here")
    elif build is None:
        yield fail(f"import does not end in {subject.patience:.0f} s; {where}", _nearer(mount.kind))
    elif build.error:
        yield fail(f"cannot be imported: {build.error}", "reinstall it, or name another fleet.python")
    elif build.seconds > SLOW:
        yield warn(f"import takes {build.seconds:.0f} s; {where}", _nearer(mount.kind))
    else:
        yield ok(f"import takes {build.seconds:.1f} s; {where}")


def _nearer(kind: str) -> str:
    if mounts.is_network(kind):
        return "copy the environment to a local disk (uv venv, uv pip sync) and name it in fleet.python"
    return "start it once by hand: the first import compiles byte code"


@probe("model")
def model(subject: Subject) -> Iterable[Finding]:
    """the model: whole, without code or pickle, without loading it"""
    wanted = subject.wanted
    path = wanted.model
    if not wanted.starts or wanted.engine == "fake":
        yield ok("none is read here")
    elif path is None:
        said = wanted.model_said or "the built-in model"
        yield note(f"{said} is not on this machine yet", "it is fetched when it is first used")
    elif not path.exists():
        yield fail(f"{path}: no such model file or folder", "name one, or hf:ORG/NAME@REVISION")
    elif path.is_file():
        yield from single(path)
    else:
        found = wholeness.defects(path)
        yield from judged(found, bool(wanted.flags.get("trust-remote-code")), pinned(wanted.model_said))
        if not found:
            yield ok(f"{path} is whole")


def single(path: Path) -> Iterator[Finding]:
    with path.open("rb") as file:
        head = file.read(len(wholeness.LFS))
    if head == wholeness.LFS:
        yield fail(f"{path}: git_lfs_pointer instead of weights", "git lfs pull")
    elif not head.startswith(GGUF):
        yield fail(f"{path}: not a GGUF file", "name a GGUF file or a model folder")
    else:
        yield ok(f"{path} is a GGUF file of {path.stat().st_size / 1e9:.2f} GB")


def judged(defects: Iterable[wholeness.Defect], trusted: bool, is_pinned: bool) -> Iterator[Finding]:
    """Pure. `trusted`: trust-remote-code is on."""
    for defect in defects:
        sentence = f"{defect.file}: {defect.kind}" + (f": {defect.detail}" if defect.detail else "")
        if defect.kind == "pickle":
            yield warn(sentence, "such weights run code when they are loaded: use safetensors")
        elif defect.kind == "custom_code" and not trusted:
            yield warn(sentence, "the engine will refuse it or load its own class; trust-remote-code runs it")
        elif defect.kind == "custom_code" and not is_pinned:
            yield fail(sentence + "; trust-remote-code is on", "pin what you have read: hf:ORG/NAME@40-DIGIT-REVISION")
        elif defect.kind == "custom_code":
            yield note(sentence + "; trust-remote-code is on, the revision is pinned")
        else:
            yield fail(sentence, "fetch the file again")


def pinned(model: str) -> bool:
    """Whether a name fixes the bytes: a local path does, of the hub's names only a whole commit."""
    if not model.startswith("hf:"):
        return True
    revision = model.rpartition("@")[2] if "@" in model else ""
    return len(revision) == 40 and all(digit in "0123456789abcdef" for digit in revision)
