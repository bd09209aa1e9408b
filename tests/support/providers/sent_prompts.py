"""The prompts that the provider server was sent, byte for byte."""

import itertools
from collections.abc import Sequence

from tests.support.providers.server import SeenRequest


def prompt(request: SeenRequest) -> str:
    """As it was sent, up to the end of the newest message; breakpoints, which wander on, are no part of it."""
    text = request.raw.decode().replace(',"cache_control":{"type":"ephemeral"}', "")
    ends = (text.rfind(rest) for rest in ('],"tool_choice":', '],"max_tokens":', '],"max_output_tokens":'))
    return text[: min(end for end in ends if end > 0)]


def each_begins_as_the_one_before(requests: Sequence[SeenRequest]) -> bool:
    """Whether definitions, static text and all of the conversation before are the same bytes in each next request."""
    return all(prompt(later).startswith(prompt(earlier)) for earlier, later in itertools.pairwise(requests))
