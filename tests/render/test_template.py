import pytest

from sevenfold.errors import ConfigError, RowError
from sevenfold.render import Template
from sevenfold.types import Message

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
HELLO = (Message("user", "Hello"),)


def test_a_conversation_up_to_where_the_model_goes_on() -> None:
    assert Template(CHATML).render(HELLO) == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"


def test_template_arguments_reach_it() -> None:
    text = Template(CHATML).render(HELLO, kwargs={"enable_thinking": False})
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_named_tokens_reach_it() -> None:
    assert Template("{{ bos_token }}{{ messages[0].content }}", {"bos_token": "<s>"}).render(HELLO) == "<s>Hello"


def test_null_content_never_prints_the_word_none() -> None:
    assert "None" not in Template(CHATML).render((Message("assistant", None, tool_calls=({"id": "1"},)),))


def test_arguments_in_string_and_object_form_render_alike() -> None:
    template = Template("{% for c in messages[0].tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}")
    as_text = Message("assistant", tool_calls=({"function": {"name": "f", "arguments": '{"a": 1}'}},))
    as_object = Message("assistant", tool_calls=({"function": {"name": "f", "arguments": {"a": 1}}},))
    assert template.render((as_text,)) == template.render((as_object,)) == '{"a": 1}'


def test_generation_tags_are_transparent() -> None:
    template = Template("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}")
    assert template.render(HELLO) == "Hello"


def test_a_template_that_refuses_a_row_refuses_only_the_row() -> None:
    template = Template("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(RowError, match="roles must alternate") as caught:
        template.render(HELLO)
    assert caught.value.kind == "template"


@pytest.mark.parametrize(
    "attack",
    [
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ messages.append(1) }}",
    ],
)
def test_the_sandbox_holds(attack: str) -> None:
    with pytest.raises(RowError):
        Template(attack).render(HELLO)


def test_a_broken_template_is_the_users_to_mend() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Template("{% for %}")


def test_a_template_that_prints_the_date_is_known() -> None:
    assert Template("{{ strftime_now('%Y') }}").uses_clock
    assert not Template(CHATML).uses_clock
