"""Is it any good: checks flag samples, the gate stops a run, the report says what came out. Pure."""

from sevenfold.audit.checks import CHECKS, Rules, rules
from sevenfold.audit.foreign import text_samples
from sevenfold.audit.gate import Gate
from sevenfold.audit.judge import Judge
from sevenfold.audit.report import Audit, Report
from sevenfold.audit.screen import render

__all__ = ["CHECKS", "Audit", "Gate", "Judge", "Report", "Rules", "render", "rules", "text_samples"]
