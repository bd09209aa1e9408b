"""The interface of model providers."""

from typing import Protocol

from outlast.activities.llm.contracts import CallModelInput, ModelStep


class Listener(Protocol):
    """Hears what a model says, piece by piece."""

    def text(self, piece: str) -> None:
        """A piece of text; the joined pieces are `ModelStep.text`."""
        ...

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        """A piece of a call's arguments; the joined pieces of a call are its `raw_arguments`."""
        ...


class Provider(Protocol):
    """One provider, with its key and its base URL."""

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """Call the model once. A cancellation closes the connection. Raises `ProviderError`; never retries."""
        ...

    async def close(self) -> None:
        """Close the open connections."""
        ...
