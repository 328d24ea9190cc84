"""A model folder's template and tokenizer together: conversations in, exact prompt ids out.

The template already writes the special tokens it wants, so the tokenizer adds none of its own: no second BOS.
"""

from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer

from sevenfold.errors import ConfigError, RowError
from sevenfold.render.template import Template
from sevenfold.types import JSON, Message, is_array, is_object


class Rendered(msgspec.Struct, frozen=True):
    text: str
    ids: tuple[int, ...]


class Renderer:
    def __init__(
        self, template: Template, tokenizer: Tokenizer, vocabulary: int, end_tokens: dict[int, str] | None = None
    ) -> None:
        """`vocabulary`: how many ids the model's embedding holds; ids at or above it kill a server.
        `end_tokens`: ids that end a completion, and their text."""
        self.template, self._tokenizer, self.vocabulary = template, tokenizer, vocabulary
        self.end_tokens = end_tokens or {}

    def render(
        self, messages: tuple[Message, ...], tools: tuple[JSON, ...] | None = None, kwargs: JSON | None = None
    ) -> Rendered:
        """The next completion's prompt. RowError where the template refuses it or an id lies outside the vocabulary."""
        text = self.template.render(messages, tools=tools, kwargs=kwargs)
        ids = self.encode(text)
        wrong = next((i for i in ids if i >= self.vocabulary), None)
        if wrong is not None:
            raise RowError(f"token id {wrong} is outside the model's vocabulary of {self.vocabulary}", "vocabulary")
        return Rendered(text, ids)

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: tuple[int, ...]) -> str:
        """With special tokens, so that what was generated is seen as it was."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)


def load(folder: Path) -> Renderer:
    """ConfigError names the file of the folder that is missing or broken."""
    settings = _json(folder / "tokenizer_config.json")
    path = folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 (the library raises plain Exception for every fault)
        raise ConfigError(f"{path}: no tokenizer: {error}", "stage the model with its tokenizer.json") from None
    template = Template(_template(folder, settings), _special(settings))
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    return Renderer(template, tokenizer, _vocabulary(folder) or size, _end_tokens(folder, settings, tokenizer))


def _json(path: Path) -> JSON:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}", "stage the model whole") from None


def _template(folder: Path, settings: JSON) -> str:
    """chat_template.jinja wins over the one in tokenizer_config.json, as in transformers."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    text = settings.get("chat_template")
    if is_array(text):  # several named templates: [{"name": "default", "template": ...}, ...]
        text = next((one["template"] for one in text if one.get("name") == "default"), None)
    if not isinstance(text, str):
        raise ConfigError(f"{folder}: the model has no chat template", "name one, or use the engine's chat mode")
    return text


def _special(settings: JSON) -> dict[str, str]:
    """Named tokens; older files write them as objects with a `content`."""
    named = {name: value for name, value in settings.items() if name.endswith("_token") and value is not None}
    texts = {name: value.get("content") if is_object(value) else value for name, value in named.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _end_tokens(folder: Path, settings: JSON, tokenizer: Tokenizer) -> dict[int, str]:
    """What the model ends with: eos_token_id of generation_config.json, one or several, and the tokenizer's own."""
    path = folder / "generation_config.json"
    named = _json(path).get("eos_token_id") if path.is_file() else None
    ids = [i for i in (named if is_array(named) else [named]) if isinstance(i, int)]
    text = _special(settings).get("eos_token")
    own = tokenizer.token_to_id(text) if text else None
    texts = {i: tokenizer.id_to_token(i) for i in (*ids, own) if i is not None}
    return {i: text for i, text in texts.items() if text is not None}


def _vocabulary(folder: Path) -> int | None:
    """Rows of the embedding, from config.json, of the text part where the model has several."""
    path = folder / "config.json"
    if not path.is_file():
        return None
    config = _json(path)
    size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    return size if isinstance(size, int) else None
