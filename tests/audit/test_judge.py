from sevenfold import config
from sevenfold.audit import Judge, rules
from sevenfold.audit.judge import RECENT
from sevenfold.types import Sample
from tests.audit.samples import prose, sample

RULES = rules(config.Judge())
LONG = prose(400)


def flags(judge: Judge, judged: Sample) -> tuple[str, ...]:
    return judge.judge(judged).flags


def test_a_good_reply_has_no_flags_and_old_ones_are_dropped() -> None:
    judged = Judge(RULES).judge(sample(flags=("trivial",)))
    assert (judged.flags, judged.verdict) == ((), "ok")


def test_several_flags_come_gravest_first() -> None:
    assert flags(Judge(RULES), sample("OK", "", finish="length", tokens=6)) == ("truncated", "no_reasoning", "trivial")


def test_the_same_long_reply_to_another_prompt_is_a_duplicate() -> None:
    judge = Judge(RULES)
    assert flags(judge, sample(LONG, key="a", question="one")) == ()
    assert flags(judge, sample(LONG, key="b", question="two")) == ("duplicate",)
    assert flags(judge, sample(LONG, "another thought", key="c", question="three")) == ()


def test_samples_of_one_prompt_and_twins_may_be_alike() -> None:
    judge = Judge(RULES)
    assert flags(judge, sample(LONG, key="a", question="one")) == ()
    assert flags(judge, sample(LONG, key="a", question="one")) == ()
    assert flags(judge, sample(LONG, key="b", question="one")) == ()


def test_many_prompts_may_have_the_same_short_answer() -> None:
    judge = Judge(RULES)
    assert [flags(judge, sample("42", key=key, question=key)) for key in "abc"] == [(), (), ()]


def test_the_memory_is_bounded() -> None:
    judge = Judge(RULES)
    for n in range(RECENT + 1):
        judge.judge(sample(LONG, f"thought {n}", key=str(n), question=str(n)))
    assert flags(judge, sample(LONG, "thought 0", key="new", question="new")) == ()
    assert flags(judge, sample(LONG, f"thought {RECENT}", key="new", question="new")) == ("duplicate",)
