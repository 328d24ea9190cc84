"""An Ask as a Question to one endpoint: the run's sampling, the row's own over it, one seed per sample. Pure but for
the request id, which is random."""

import secrets

import msgspec

from sevenfold.config import RunSpec, Sampling
from sevenfold.engines.base import Question
from sevenfold.errors import RowError
from sevenfold.types import JSON, Ask

KNOWN = frozenset(Sampling.__struct_fields__) - {"extra"}


def question(ask: Ask, spec: RunSpec, thinking: bool, model: str) -> Question:
    """RowError where the row's own sampling parameters are out of range."""
    prompt = ask.prompt
    return Question(
        messages=ask.messages,
        model=model,
        sampling=_sampling(spec.sampling, prompt.sampling, ask.sample),
        thinking=thinking,
        request_id=secrets.token_hex(16),
        tools=prompt.tools,
        template_kwargs=spec.conversation.template_kwargs,
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
