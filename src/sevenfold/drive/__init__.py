"""Questions in, answers out. `dispatch` is where to begin reading."""

from sevenfold.drive.dispatch import Answer, Dispatcher, Facts
from sevenfold.drive.limit import Patience

__all__ = ["Answer", "Dispatcher", "Facts", "Patience"]
