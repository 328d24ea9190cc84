import msgspec
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from sevenfold.config import Conversation, Sampling
from sevenfold.drive.question import question
from sevenfold.errors import RowError
from sevenfold.render import Renderer, Template
from sevenfold.types import Ask
from tests.drive.house import ask, prompt, spec


def test_the_runs_sampling_is_used_as_it_is():
    run = spec(temperature=0.3)
    asked = question(ask(1), run, "m")
    assert run.sampling is asked.sampling
    assert (asked.model, asked.thinking, len(asked.request_id)) == ("m", True, 32)


def test_every_attempt_has_an_id_of_its_own():
    assert question(ask(1), spec(), "m").request_id != question(ask(1), spec(), "m").request_id


def test_a_rows_own_parameters_go_over_the_runs():
    own = {"temperature": 1.5, "stop": ["END"]}
    asked = question(ask(1, sampling=own), spec(max_tokens=9, extra={"top_a": 1}), "m")
    assert Sampling(temperature=1.5, max_tokens=9, extra={"top_a": 1, "stop": ["END"]}) == asked.sampling


@pytest.mark.parametrize("own", [{"temperature": "hot"}, {"top_p": 7}, {"max_tokens": 0}])
def test_a_rows_own_parameters_out_of_range_fail_that_row(own: dict[str, object]):
    with pytest.raises(RowError) as caught:
        question(ask(1, sampling=own), spec(), "m")
    assert caught.value.kind == "bad_request"


def test_each_sample_has_a_seed_of_its_own():
    row = prompt(1)
    seeds = [question(Ask(row, i, 0, row.turns[0]), spec(seed=40), "m").sampling.seed for i in range(3)]
    assert seeds == [40, 41, 42]
    assert question(Ask(row, 2, 0, row.turns[0]), spec(), "m").sampling.seed is None


def test_with_a_renderer_the_prompt_goes_out_as_ids():
    """A tokenizer of whole words, so that the ids can be read off."""
    words = {word: i for i, word in enumerate(["question", "1", "no", "thoughts", "[UNK]"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    template = Template("{{ messages[0].content }}{% if not enable_thinking %} no thoughts{% endif %}")
    renderer = Renderer(template, tokenizer, 5, {2: "no"})
    run = spec()
    quiet = msgspec.structs.replace(run, conversation=Conversation(thinking=False))
    asked = question(ask(1, "question 1"), run, "m", renderer)
    assert (asked.rendered_prompt, asked.prompt_token_ids, asked.end_tokens) == ("question 1", (0, 1), {2: "no"})
    assert question(ask(1, "question 1"), quiet, "m", renderer).prompt_token_ids == (0, 1, 2, 3)
    assert question(ask(1), run, "m").prompt_token_ids is None
