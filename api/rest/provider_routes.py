"""`/v1/providers`: which model providers there are, and what they and their models can do."""

from fastapi import APIRouter

from outlast.api.contracts.providers import ProviderList
from outlast.api.http.dependencies import CallerDep, ServicesDep
from outlast.api.http.problems import documented_problems
from outlast.api.sessions.known_models import provider_list

router = APIRouter(prefix="/v1/providers", tags=["sessions"])


@router.get("", responses=documented_problems(401, 503))
async def list_providers(services: ServicesDep, _caller: CallerDep) -> ProviderList:
    """The providers of models: their controls, and the models that are known of each with their limits.

    A model that is not listed works too, with careful defaults. Keys are the workers': whether one
    is set is told by `OUTLAST_MODEL_PROVIDERS`, which the embedded stack sets.
    """
    settings = services.settings
    return provider_list(settings.model_limits, settings.model_prices, settings.configured_providers)
