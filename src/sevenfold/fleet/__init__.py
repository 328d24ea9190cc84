"""GPUs in, Endpoints out. A supervisor process owns the replicas; everybody else reads what it publishes."""

from sevenfold.fleet.fleet import ask, follow, start, status, stop
from sevenfold.fleet.http import describe, identify
from sevenfold.fleet.plan import FleetPlan, plan_for

__all__ = ["FleetPlan", "ask", "describe", "follow", "identify", "plan_for", "start", "status", "stop"]
