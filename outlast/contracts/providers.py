"""Model providers and models, at every entry point."""

from typing import Annotated

from pydantic import Field

from outlast.activities.llm.contracts import ControlName, Effort
from outlast.contracts.base import Open, Response, absent


class ModelEntry(Response):
    """A model that is known, or a family of models whose names begin alike."""

    name: str = Field(description="The model, or with `is_family` how the names of its family begin.")
    is_family: Annotated[bool, absent(False)]
    window_tokens: int | None = Field(default=None, description="Tokens of prompt and answer together.")
    output_tokens: int | None = Field(default=None, description="Maximum tokens of one answer.")
    reasons: bool | None = Field(default=None, description="Whether it always reasons; null when unknown.")
    sees_pictures: bool | None = Field(default=None, description="Whether it sees pictures; null when unknown.")
    lacks: tuple[Open[ControlName], ...] = Field(
        default=(), description="Controls of its provider that it does not have."
    )
    has_price: Annotated[bool, absent(False)] = Field(
        description="Whether its cost is counted, so that budgets in US dollars are accepted."
    )


class ProviderEntry(Response):
    """A provider: what its requests can say, and the models that are known of it. See `takes_any_model` for others."""

    id: str
    protocol: Annotated[str, absent("")]
    base_url: str | None = Field(
        default=None, description="Its default address; null when the operator has to set one."
    )
    configured: bool | None = Field(
        default=None, description="Whether its key or address is set, so that it can be called; null when unknown."
    )
    limits_active_tools: Annotated[bool, absent(False)] = Field(
        description="Whether the mask is sent to it; otherwise other calls are refused."
    )
    caching: Annotated[str, absent("")]
    controls: Annotated[tuple[Open[ControlName], ...], absent(())]
    efforts: Annotated[tuple[Open[Effort], ...], absent(())]
    keeps_reasoning: Annotated[bool, absent(False)]
    takes_any_model: Annotated[bool, absent(True)] = Field(
        description="Whether sessions may name models that are not in `models`."
    )
    models: Annotated[tuple[ModelEntry, ...], absent(())]


Model = ModelEntry
Provider = ProviderEntry


class ProviderList(Response):
    """All providers."""

    providers: tuple[ProviderEntry, ...]
