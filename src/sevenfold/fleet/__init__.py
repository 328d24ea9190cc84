"""GPUs in, Endpoints out. A supervisor process owns the replicas; everybody else reads what it publishes."""

from sevenfold.fleet.canary import Canary, Panel, listen
from sevenfold.fleet.fleet import What, ask, follow, start, status, stop
from sevenfold.fleet.http import describe, identify
from sevenfold.fleet.plan import Expected, FleetPlan, canary_for, plan_for

__all__ = [
    "Canary",
    "Expected",
    "FleetPlan",
    "Panel",
    "What",
    "ask",
    "canary_for",
    "describe",
    "follow",
    "identify",
    "listen",
    "plan_for",
    "start",
    "status",
    "stop",
]
