"""`/v1/providers`: which model providers there are, and what they and their models can do."""

from fastapi import APIRouter

from outlast.api.http.dependencies import CallerDep, ServicesDep
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.sessions.known_models import provider_list
from outlast.contracts.providers import ProviderList

router = APIRouter(prefix="/v1/providers", tags=["sessions"], route_class=KnownParametersRoute)


@router.get("", responses=documented_problems(401, 503))
async def list_providers(services: ServicesDep, _caller: CallerDep) -> ProviderList:
    """The providers of models: their controls, and the models that are known of each with their limits.

    `configured` says whether the workers have the provider's key, as `OUTLAST_MODEL_PROVIDERS` tells, which the
    embedded stack sets. A model that is not listed is refused, unless its provider has `takes_any_model`.
    """
    settings = services.settings
    return provider_list(settings.model_limits, settings.model_prices, settings.configured_providers)
