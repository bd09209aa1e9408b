"""The interface of model providers."""

from collections.abc import Callable
from typing import Protocol

from outlast.activities.llm.contracts import CallModelInput, ModelStep

OnText = Callable[[str], None]
"""Receives each piece of text as it arrives; the joined pieces are `ModelStep.text`."""


class Provider(Protocol):
    """One provider, with its key and its base URL."""

    async def call(self, request: CallModelInput, on_text: OnText) -> ModelStep:
        """Call the model once. A cancellation closes the connection. Raises `ProviderError`; never retries."""
        ...

    async def close(self) -> None:
        """Close the open connections."""
        ...
