"""An Audit as one screen of plain text: at most 100 columns, no colour, nothing of the model's text but its letters."""

import unicodedata

from sevenfold.audit.gate import percent
from sevenfold.audit.report import Audit, Bad, Lengths

WIDTH = 100
BAR = 24
"""Columns of a full bar; two histograms stand side by side."""


def render(audit: Audit) -> str:
    """Lines without a newline at the end."""
    if not audit.rows:
        return "no rows" + _failures(audit)
    parts = [_head(audit), *_flags(audit), "", *_lengths(audit), *_modal(audit), *_worst(audit)]
    return "\n".join(clip(line) for line in parts)


def plain(text: str) -> str:
    """One line; control and direction characters of the text cannot reach the terminal."""
    return "".join(each if each.isprintable() else " " for each in " ".join(text.split()))


def clip(text: str, columns: int = WIDTH) -> str:
    """Cut to so many columns of a terminal, where many scripts take two per character."""
    used = fitting = 0
    for at, each in enumerate(text):
        if used <= columns - 3:
            fitting = at
        used += 2 if unicodedata.east_asian_width(each) in "WF" else 1
        if used > columns:
            return text[:fitting] + "..."
    return text


def _head(audit: Audit) -> str:
    return f"{audit.rows:,} rows, {audit.ok:,} ok ({percent(audit.ok / audit.rows)})" + _failures(audit)


def _failures(audit: Audit) -> str:
    if not audit.failures:
        return ""
    kinds = ", ".join(f"{count:,} {plain(kind)}" for kind, count in audit.failure_kinds.items())
    return f", and {audit.failures:,} without a reply: {kinds}"


def _flags(audit: Audit) -> list[str]:
    seen = {name: flag for name, flag in audit.flags.items() if flag.count}
    if not seen:
        return ["no flags"]
    lines = ["", f"{'flag':<24}{'rows':>10}{'share':>9}{'limit':>8}  meaning"]
    for name, flag in seen.items():
        mark = "!" if flag.over else " "
        share, limit = percent(flag.share), percent(flag.limit)
        lines.append(f"{plain(name):<24}{flag.count:>10,}{share:>9}{limit:>8}{mark} {plain(flag.meaning)}")
    return lines


def _lengths(audit: Audit) -> list[str]:
    both = (audit.reasoning, audit.answer)
    lines = [f"{'tokens':<16}{'reasoning':<42}answer"]
    for name in audit.reasoning.quantiles:
        lines.append(f"{name:<16}{both[0].quantiles[name]:<42,}{both[1].quantiles[name]:,}")
    lines.append("")
    lows = [each.low for lengths in both for each in lengths.histogram]
    low = min(lows)
    while low <= max(lows):
        high = max(0, 2 * low - 1)
        span = f"{low:,}" if low == high else f"{low:,}-{high:,}"
        lines.append(f"{span:<16}{_bar(both[0], low):<42}{_bar(both[1], low)}".rstrip())
        low = max(1, 2 * low)
    if audit.estimated:
        lines.append(f"(tokens of {audit.estimated:,} rows are estimated from characters)")
    return lines


def _bar(lengths: Lengths, low: int) -> str:
    count = next((each.count for each in lengths.histogram if each.low == low), 0)
    most = max(each.count for each in lengths.histogram)
    # A single row among a million still shows.
    return f"{'#' * -(-count * BAR // most)} {count:,}" if count else ""


def _modal(audit: Audit) -> list[str]:
    if audit.modal is None:
        return []
    many = f"most frequent answer: {audit.modal.count:,} rows ({percent(audit.modal.share)}): "
    return ["", many + plain(audit.modal.text)]


def _worst(audit: Audit) -> list[str]:
    """One sample per flag; the JSON has more."""
    lines = [_bad(name, bad[0]) for name, bad in audit.worst.items() if bad]
    return ["", "the worst of each flag", *lines] if lines else []


def _bad(name: str, bad: Bad) -> str:
    who = plain(str(bad.id)) if bad.id is not None else bad.key[:12] or f"line {bad.line}"
    return f"{plain(name)}: {clip(who, 24)} ({bad.tokens:,} tokens): {plain(bad.excerpt)}"
