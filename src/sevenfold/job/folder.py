"""Where everything of a run lies. One folder, mode 0700, because prompts are private."""

import re
from dataclasses import dataclass
from pathlib import Path

from sevenfold.errors import ConfigError

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths only; nothing is read here."""

    path: Path

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def index(self) -> Path:
        return self.path / "index.sqlite"

    @property
    def drive(self) -> Path:
        """What the driver publishes while it works, whole, about once a second."""
        return self.path / "drive.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def manifest(self) -> Path:
        return self.path / "manifest.json"

    def create(self) -> None:
        """Make the folder and its logs. ConfigError where that cannot be."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self.path}: the run folder cannot be made: {error}", "name another with -o") from None


def default_folder(inputs: tuple[str, ...], fingerprint: str) -> Path:
    """./runs/NAME-FINGERPRINT, NAME from the first input file."""
    stem = Path(inputs[0]).name.split(".")[0] if inputs else "run"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem)[:100].strip("-.") or "run"
    return Path("runs") / f"{name}-{fingerprint}"


def existing(path: Path) -> RunFolder:
    """The run at `path`. ConfigError where there is none."""
    folder = RunFolder(path)
    if not folder.manifest.is_file():
        what = "no run lies here (manifest.json is missing)" if path.is_dir() else "no such folder"
        raise ConfigError(f"{path}: {what}", "name a folder that `sevenfold run -o` made")
    return folder


def latest(root: Path = Path("runs")) -> Path:
    """The run folder under ./runs that was touched last. ConfigError where there is none."""
    found = [p.parent for pattern in ("*/manifest.json", "*/fleet/plan.json") for p in root.glob(pattern)]
    folders = {p if p.name != "fleet" else p.parent for p in found}
    if not folders:
        raise ConfigError("no run was named and none lies under ./runs", "name the run's folder")
    return max(folders, key=lambda p: p.stat().st_mtime)
