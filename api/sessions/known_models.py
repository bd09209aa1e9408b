"""What is known of providers and their models. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from outlast.activities.llm.providers.capabilities import MATRIX, Capabilities
from outlast.activities.llm.providers.models import KNOWN, ModelLimits, model_of
from outlast.activities.llm.providers.prices import Price
from outlast.api.contracts.providers import ModelEntry, ProviderEntry, ProviderList


def provider_list(
    limits: Mapping[str, ModelLimits], prices: Mapping[str, Price], configured: AbstractSet[str] | None
) -> ProviderList:
    """All providers, each with its families of models and the models that the operator has named.

    `configured` are those that can be called, None while that is not known.
    """
    entries = [_provider(name, found, limits, prices) for name, found in MATRIX.items()]
    if configured is not None:
        entries = [entry.model_copy(update={"configured": entry.id in configured}) for entry in entries]
    return ProviderList(providers=entries)


def _provider(
    provider_id: str, capabilities: Capabilities, limits: Mapping[str, ModelLimits], prices: Mapping[str, Price]
) -> ProviderEntry:
    own = f"{provider_id}/"
    named = sorted({key.removeprefix(own) for key in (*limits, *prices) if key.startswith(own)})
    names = [(name, True) for name in KNOWN.get(provider_id, {})] + [(name, False) for name in named]
    models: list[ModelEntry] = []
    for name, is_family in names:
        model = model_of(provider_id, name, {} if is_family else limits)
        models.append(
            ModelEntry(
                name=name,
                is_family=is_family,
                window_tokens=model.window_tokens,
                output_tokens=model.output_tokens,
                reasons=model.reasons,
                lacks=model.lacks,
                has_price=not is_family and f"{own}{name}" in prices,
            )
        )
    return ProviderEntry(
        id=provider_id,
        protocol=capabilities.protocol,
        base_url=capabilities.base_url,
        limits_active_tools=capabilities.limits_active_tools,
        caching=capabilities.caching,
        controls=capabilities.controls,
        efforts=capabilities.efforts,
        keeps_reasoning=capabilities.keeps_reasoning,
        models=models,
    )
