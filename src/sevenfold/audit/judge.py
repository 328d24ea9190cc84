"""Every check on one sample, and the memory of recent replies that `duplicate` needs.

The memory is bounded and starts empty: a reply is compared with the last RECENT long ones of this process. Not for
several threads at once.
"""

from collections import OrderedDict

import msgspec

from sevenfold.audit.checks import CHECKS, Rules
from sevenfold.types import Sample

RECENT = 32_768
"""Replies remembered, at about 250 bytes each."""
LONG = 200
"""Characters from which two equal replies are no coincidence: many prompts have the same short answer."""


class Judge:
    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._checks = [(name, each.speak) for name, each in CHECKS.items() if each.speak]
        self._recent: OrderedDict[int, tuple[str, int]] = OrderedDict()

    def judge(self, sample: Sample) -> Sample:
        """The sample with its flags, gravest first; flags it had before are dropped."""
        rules = self._rules
        flags = [name for name, speak in self._checks if speak(sample, rules)]
        if self._came_before(sample):
            flags.append("duplicate")
        return msgspec.structs.replace(sample, flags=tuple(flags))

    def _came_before(self, sample: Sample) -> bool:
        completion = sample.completion
        if len(completion.reasoning) + len(completion.answer) < LONG:
            return False
        reply = hash((completion.reasoning, completion.answer))
        # Exact twins among the prompts are asked twice on purpose and may well be answered alike.
        asker = sample.key, hash(tuple(message.content for message in sample.messages))
        first = self._recent.get(reply)
        if first is None:
            self._recent[reply] = asker
            if len(self._recent) > RECENT:
                self._recent.popitem(last=False)
            return False
        return first[0] != asker[0] and first[1] != asker[1]
