"""The cost of model calls, for models whose prices are known."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from outlast.activities.bounds import MAX_USD
from outlast.activities.llm.contracts import Usage

_MILLION = 1_000_000
_PerMillion = Annotated[float, Field(ge=0, le=int(MAX_USD), allow_inf_nan=False)]
"""0 is the price of a model that costs nothing."""


class Price(BaseModel):
    """US dollars per million tokens. Without prices of their own, cache reads and writes cost as much as input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: _PerMillion
    output: _PerMillion
    cache_read: _PerMillion | None = None
    cache_write: _PerMillion | None = None


def cost_usd(prices: Mapping[str, Price], provider_id: str, model_id: str, usage: Usage) -> float | None:
    """The cost of a call at the price of `provider/model`; None without a price."""
    price = prices.get(f"{provider_id}/{model_id}")
    if price is None:
        return None
    read_price = price.input if price.cache_read is None else price.cache_read
    write_price = price.input if price.cache_write is None else price.cache_write
    fresh = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    spent = (
        fresh * price.input
        + usage.cache_read_tokens * read_price
        + usage.cache_write_tokens * write_price
        + usage.output_tokens * price.output
    )
    return spent / _MILLION
