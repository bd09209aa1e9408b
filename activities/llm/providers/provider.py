"""What a provider is to the activity that calls models."""

from collections.abc import Callable
from typing import Protocol

from outlast.activities.llm.contracts import CallModelInput, ModelStep

OnText = Callable[[str], None]
"""Gets each piece of text as it comes; the pieces together are `ModelStep.text`."""


class Provider(Protocol):
    """One provider, with its key and its address."""

    async def call(self, request: CallModelInput, on_text: OnText) -> ModelStep:
        """What the model says. Cancelling it closes the connection. Raises `ProviderError`; it never repeats a call."""
        ...

    async def close(self) -> None:
        """Close the connections that are kept open."""
        ...
