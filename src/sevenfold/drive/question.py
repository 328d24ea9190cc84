"""An Ask as a Question to one endpoint: the run's sampling, the row's own over it, one seed per sample. Pure but for
the request id, which is random."""

import secrets

import msgspec

from sevenfold.config import RunSpec, Sampling
from sevenfold.engines.base import Question
from sevenfold.errors import RowError
from sevenfold.render import Renderer
from sevenfold.types import JSON, Ask

KNOWN = frozenset(Sampling.__struct_fields__) - {"extra"}


def question(ask: Ask, spec: RunSpec, model: str, renderer: Renderer | None = None) -> Question:
    """With a renderer the prompt goes out as token ids, rendered here by the model's own template.

    RowError where the row's own sampling parameters are out of range, or where the template refuses the row."""
    prompt, conversation = ask.prompt, spec.conversation
    thinking = conversation.thinking is not False
    asked = Question(
        messages=ask.messages,
        model=model,
        sampling=_sampling(spec.sampling, prompt.sampling, ask.sample),
        thinking=thinking,
        request_id=secrets.token_hex(16),
        tools=prompt.tools,
        template_kwargs=conversation.template_kwargs,
    )
    if renderer is None:
        return asked
    kwargs = {"enable_thinking": thinking, **conversation.template_kwargs}
    rendered = renderer.render(ask.messages, prompt.tools, kwargs)
    return msgspec.structs.replace(
        asked, prompt_token_ids=rendered.ids, rendered_prompt=rendered.text, end_tokens=renderer.end_tokens
    )


def _sampling(asked: Sampling, own: JSON | None, sample: int) -> Sampling:
    if own:
        known = {name: value for name, value in own.items() if name in KNOWN}
        extra = {name: value for name, value in own.items() if name not in KNOWN}
        try:
            asked = msgspec.convert(
                {**msgspec.structs.asdict(asked), **known, "extra": {**asked.extra, **extra}}, Sampling
            )
        except msgspec.ValidationError as error:
            raise RowError(f"the row's own sampling parameters: {error}", "bad_request") from None
    if asked.seed is not None and sample:
        asked = msgspec.structs.replace(asked, seed=asked.seed + sample)
    return asked
