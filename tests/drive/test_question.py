import pytest

from sevenfold.config import Sampling
from sevenfold.drive.question import question
from sevenfold.errors import RowError
from sevenfold.types import Ask
from tests.drive.house import ask, prompt, spec


def test_the_runs_sampling_is_used_as_it_is():
    run = spec(temperature=0.3)
    asked = question(ask(1), run, True, "m")
    assert run.sampling is asked.sampling
    assert (asked.model, asked.thinking, len(asked.request_id)) == ("m", True, 32)


def test_every_attempt_has_an_id_of_its_own():
    assert question(ask(1), spec(), True, "m").request_id != question(ask(1), spec(), True, "m").request_id


def test_a_rows_own_parameters_go_over_the_runs():
    own = {"temperature": 1.5, "stop": ["END"]}
    asked = question(ask(1, sampling=own), spec(max_tokens=9, extra={"top_a": 1}), True, "m")
    assert Sampling(temperature=1.5, max_tokens=9, extra={"top_a": 1, "stop": ["END"]}) == asked.sampling


@pytest.mark.parametrize("own", [{"temperature": "hot"}, {"top_p": 7}, {"max_tokens": 0}])
def test_a_rows_own_parameters_out_of_range_fail_that_row(own: dict[str, object]):
    with pytest.raises(RowError) as caught:
        question(ask(1, sampling=own), spec(), True, "m")
    assert caught.value.kind == "bad_request"


def test_each_sample_has_a_seed_of_its_own():
    row = prompt(1)
    seeds = [question(Ask(row, i, 0, row.turns[0]), spec(seed=40), True, "m").sampling.seed for i in range(3)]
    assert seeds == [40, 41, 42]
    assert question(Ask(row, 2, 0, row.turns[0]), spec(), True, "m").sampling.seed is None
