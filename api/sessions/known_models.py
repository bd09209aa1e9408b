"""Providers and their models, as far as they are known. Pure."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict

from outlast.activities.llm.providers.models import ANY, KNOWN, MATRIX, ModelLimits, Price, model_of
from outlast.contracts.providers import ModelEntry, ProviderEntry, ProviderList


def provider_list(
    limits: Mapping[str, ModelLimits], prices: Mapping[str, Price], configured: AbstractSet[str] | None
) -> ProviderList:
    """All providers, each with its families of models and the models that the operator has named.

    `configured` are those that can be called, None while that is not known.
    """
    return ProviderList(
        providers=[
            ProviderEntry.model_validate(
                asdict(capabilities)
                | {
                    "id": provider_id,
                    "configured": None if configured is None else provider_id in configured,
                    "takes_any_model": provider_id not in KNOWN or f"{provider_id}/{ANY}" in limits,
                    "models": _models(provider_id, limits, prices),
                }
            )
            for provider_id, capabilities in MATRIX.items()
        ]
    )


def _models(provider_id: str, limits: Mapping[str, ModelLimits], prices: Mapping[str, Price]) -> list[ModelEntry]:
    own = f"{provider_id}/"
    named = {key.removeprefix(own) for key in (*limits, *prices) if key.startswith(own)} - {ANY}
    names = [*(f"{start}{ANY}" for start in KNOWN.get(provider_id, {})), *sorted(named)]
    return [_model(provider_id, name, limits, prices) for name in dict.fromkeys(names)]


def _model(provider_id: str, name: str, limits: Mapping[str, ModelLimits], prices: Mapping[str, Price]) -> ModelEntry:
    start, is_family = name.removesuffix(ANY), name.endswith(ANY)
    # What is set for one model does not hold for the family whose start is its name.
    fitting = {key: found for key, found in limits.items() if key.endswith(ANY)} if is_family else limits
    own = {"name": start, "is_family": is_family, "has_price": f"{provider_id}/{name}" in prices}
    return ModelEntry.model_validate(asdict(model_of(provider_id, start, fitting)) | own)
