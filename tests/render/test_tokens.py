import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from sevenfold.errors import ConfigError, RowError
from sevenfold.render import load
from sevenfold.types import Message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A word-level tokenizer of seven words, with a template that writes its own <s>."""
    words = ["<s>", "user", "assistant", "hello", "world", ":", "[UNK]"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    settings = {
        "bos_token": {"content": "<s>"},
        "chat_template": (
            "{{ bos_token }} {% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}assistant :"
        ),
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    return tmp_path


def test_ids_of_the_rendered_prompt_with_one_bos(folder: Path) -> None:
    rendered = load(folder).render((Message("user", "hello world"),))
    assert rendered.text == "<s> user : hello world assistant :"
    assert rendered.ids == (0, 1, 5, 3, 4, 2, 5)


def test_the_template_file_wins(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("hello")
    assert load(folder).render((Message("user", "world"),)).ids == (3,)


def test_an_id_outside_the_embedding_is_refused_before_it_is_sent(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 4}}))
    with pytest.raises(RowError, match="token id 5 is outside the model's vocabulary of 4"):
        load(folder).render((Message("user", "hello"),))


def test_what_ends_a_completion_comes_from_both_files(folder: Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "eos_token": "<s>"}))
    assert load(folder).end_tokens == {2: "assistant", 5: ":", 0: "<s>"}


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(ConfigError, match=name):
        load(folder)


def test_a_model_without_a_template_is_named(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="no chat template"):
        load(folder)
