"""One server of seven renders, serves or thinks unlike the others; what is held against whom."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sevenfold import fleet
from sevenfold.config import Fleet, RunSpec
from sevenfold.fleet.canary import BUDGET, Canary, Heard, Panel, complaint, heard, question
from sevenfold.fleet.plan import FleetPlan, plan_for
from sevenfold.node.models import Model
from sevenfold.types import Completion, FleetStatus, Message, Usage
from tests.fleet.scan import until

FINE = Heard("m", 31, None, "yes")
CANARY = Canary()
NAMES = tuple("0123456")


def said(*odd: Heard, canary: Canary = CANARY) -> list[str]:
    """The complaints about the odd ones at the head of seven."""
    everyone = dict(zip(NAMES, (*odd, *[FINE] * (7 - len(odd))), strict=True))
    return [complaint(name, everyone, "m", canary) for name in NAMES[: len(odd)]]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (Heard("other"), "it serves 'other', not 'm'"),
        (Heard("m", 23, None, "yes"), "renders the first prompt to 23 tokens, the others to 31: another chat template"),
        (Heard("m", 31, None, "no"), "lost its thinking switch"),
        (Heard("m", 31, None, "unseen"), f"no thought within {BUDGET} tokens, the others do: it lost its thinking"),
        (FINE, ""),
    ],
)
def test_one_of_seven_is_named_and_the_others_are_not(odd: Heard, why: str) -> None:
    (found,) = said(odd)
    assert why in found
    assert bool(found) == bool(why)
    assert said(FINE, FINE) == ["", ""]


def test_ids_tell_templates_of_the_same_length_apart() -> None:
    everyone = {"0": Heard("m", 2, (5, 7)), "1": Heard("m", 2, (5, 6)), "2": Heard("m", 2, (5, 6))}
    assert "to other tokens than the others" in complaint("0", everyone, "m", CANARY)
    assert complaint("1", everyone, "m", CANARY) == ""


def test_our_own_rendering_convicts_them_all() -> None:
    ours = Canary(ids=tuple(range(23)))
    assert complaint("3", dict.fromkeys(NAMES, FINE), "m", ours) == (
        "it renders the first prompt to 31 tokens, the model's own template to 23: another chat template"
    )


def test_of_two_the_first_stays_and_the_one_that_changed_goes() -> None:
    panel = Panel("01", "m", CANARY)
    panel.hears("0", Heard("m", 31))
    assert not panel.is_settled
    panel.hears("1", Heard("m", 23))
    assert panel.is_settled
    assert [bool(panel.complaint(name)) for name in "01"] == [False, True]
    panel.hears("1", Heard("m", 31))
    panel.hears("0", Heard("m", 23))
    assert [bool(panel.complaint(name)) for name in "01"] == [True, False]
    panel.forgets("0", for_good=True)
    assert (panel.complaint("0"), panel.is_settled) == ("", True)


def test_of_two_the_one_that_thinks_stays() -> None:
    everyone = {"0": Heard("m", 31, None, "no"), "1": FINE}
    assert "lost its thinking switch" in complaint("0", everyone, "m", CANARY)
    assert complaint("1", everyone, "m", CANARY) == ""


def test_thinking_that_was_asked_for_is_needed_and_that_was_not_is_refused() -> None:
    silent = dict.fromkeys(NAMES, Heard("m", 31, None, "no"))
    assert complaint("0", silent, "m", CANARY) == ""
    assert "thinking is on" in complaint("0", silent, "m", Canary(thinking=True))
    assert "ignores the switch" in complaint("0", dict.fromkeys(NAMES, FINE), "m", Canary(thinking=False))


def test_more_than_half_must_agree_before_anybody_is_judged() -> None:
    panel = Panel(NAMES, "m", CANARY)
    for name in "013":
        panel.hears(name, FINE)
    assert not panel.is_settled
    panel.hears("4", FINE)
    assert panel.is_settled


@pytest.mark.parametrize(
    ("reasoning", "finish", "thought"), [("Well.", "length", "yes"), ("\n", "stop", "no"), ("", "length", "unseen")]
)
def test_what_an_answer_shows(reasoning: str, finish: Any, thought: str) -> None:
    answer = Completion("Hello", reasoning, finish, Usage(9, 4), prompt_token_ids=(4, 5))
    assert heard("m", answer) == Heard("m", 2, (4, 5), thought)  # type: ignore[arg-type]


def test_a_prompt_that_was_rendered_here_goes_out_as_ids_only_where_the_engine_takes_them() -> None:
    ours = Canary((Message("user", "Hi"),), ids=(1, 2), text="Hi")
    assert question(ours, "m").prompt_token_ids is None
    asked = question(msgspec.structs.replace(ours, sends_ids=True), "m")
    assert (asked.prompt_token_ids, asked.rendered_prompt, asked.sampling.max_tokens) == ((1, 2), "Hi", BUDGET)


def seven(run: Path, model: Model, odd: dict[str, Any], every: float = 3600.0) -> FleetPlan:
    """Fake engines, the fourth of which follows a script of its own."""
    spec = RunSpec(fleet=Fleet(engine="fake", replicas=7, canary_every=every))
    plan = plan_for(spec, model, run)
    usual = {"latency": 0.0, "template": 8}
    replicas = list(plan.replicas)
    for number, serve in enumerate(replicas):
        script = run / f"script-{number}.json"
        script.write_text(json.dumps({**usual, **(odd if number == 3 else {})}))
        replicas[number] = msgspec.structs.replace(serve, flags={"script": str(script)})
    return msgspec.structs.replace(plan, replicas=tuple(replicas))


def settled(status: FleetStatus) -> bool:
    return all(replica.phase in ("ready", "failed") for replica in status.replicas)


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"template": 0}, "it renders the first prompt to 2 tokens, the others to 10: another chat template"),
        ({"thinking": False}, "it lost its thinking switch"),
        ({"serves": "stale"}, "serves 'stale', not 'stub'"),
    ],
)
def test_a_server_unlike_the_others_never_gets_a_row(run: Path, model: Model, odd: dict[str, Any], why: str) -> None:
    fleet.start(run, seven(run, model, odd))
    given: set[str] = set()
    status = until(run, lambda s: given.update(e.replica for e in s.endpoints) or settled(s))
    assert [r.name for r in status.replicas if r.phase == "failed"] == ["3"]
    assert why in status.replicas[3].reason
    assert [r.restarts for r in status.replicas] == [0] * 7
    assert "3" not in given


def test_a_server_that_loses_its_thinking_is_found_at_the_next_check(run: Path, model: Model) -> None:
    """Its first two requests are the greeting and the first check. A new start helps, for a while."""
    fleet.start(run, seven(run, model, {"forgets_after": 2}, every=1.0))
    status = until(run, lambda s: s.replicas[3].restarts > 0)
    assert "lost its thinking switch" in status.replicas[3].reason
    assert [r.restarts for r in status.replicas if r.name != "3"] == [0] * 6
