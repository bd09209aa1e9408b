"""Providers of models, as the server knows them."""

from outlast.client.contracts.base import Response


class Model(Response):
    """A model that is known, or with `is_family` all models whose names begin with `name`."""

    name: str
    is_family: bool = False
    window_tokens: int | None = None
    output_tokens: int | None = None
    reasons: bool | None = None
    sees_pictures: bool | None = None
    lacks: tuple[str, ...] = ()
    has_price: bool = False


class Provider(Response):
    """A provider of models. `configured`: the workers have its key; None: not known.

    `takes_any_model`: sessions may also name models that are not in `models`.
    """

    id: str
    configured: bool | None = None
    takes_any_model: bool = True
    protocol: str = ""
    base_url: str | None = None
    limits_active_tools: bool = False
    caching: str = ""
    controls: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()
    keeps_reasoning: bool = False
    models: tuple[Model, ...] = ()


class ProviderList(Response):
    """All providers."""

    providers: tuple[Provider, ...]
