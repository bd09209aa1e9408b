"""Tools of an installation with the operator's tools, to connections that select none: with and without a token."""

from dataclasses import replace
from typing import Any, cast

import pytest

from outlast.activities.contracts import Caller, SealedSecret
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.api.catalog.catalog import Catalogue
from outlast.api.settings import ApiSettings
from outlast.workflows.tools import registry
from outlast.workflows.tools.common.fetch_apify_docs import FETCH_APIFY_DOCS
from outlast.workflows.tools.framework.selection import Selection

OWN = replace(FETCH_APIFY_DOCS, name="own_tool")
ANYBODY = Caller(id="local")
PAYER = Caller(id="payer", apify_token=SealedSecret(ciphertext="x", key_id="k"))


@pytest.fixture(autouse=True)
def own_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COMMON", "_BY_MODE"):
        monkeypatch.setattr(registry, name, getattr(registry, name).copy())
    registry.extend([OWN])


def catalogue(**settings: Any) -> Catalogue:
    given = ApiSettings.model_validate(settings)
    nothing = cast(ApifyPlatform, None)  # no Actor is looked up
    return Catalogue(nothing, actors=(), selectors=given.selectors, defaults_need_token=given.defaults_need_token)


async def offered(catalogue: Catalogue, caller: Caller = ANYBODY, **selection: Any) -> set[str]:
    return set((await catalogue.load(Selection(**selection), caller)).tools)


@pytest.mark.parametrize("settings", [{}, {"apify_token": "of-the-sandbox", "sandbox": True}])
async def test_without_a_token_the_operators_tools_are_the_default(settings: dict[str, Any]) -> None:
    without = catalogue(**settings)
    assert "own_tool" in await offered(without)
    assert "search-actors" not in await offered(without) | await offered(without, mode="openai")
    assert not await offered(without, mode="openai") & {"search-actors-internal", "fetch-apify-docs"}
    assert "call-actor" not in (await without.listed("default", ANYBODY)).tools
    assert {"call-actor", "fetch-apify-docs"} <= await offered(without, selectors=("actors", "docs"))
    assert (await without.resolve("default", "call-actor", ANYBODY)).name == "call-actor"


async def test_a_token_or_a_setting_brings_the_usual_tools() -> None:
    assert "search-actors" in await offered(catalogue(apify_token="apify_api_x"))
    assert "search-actors" in await offered(catalogue(), PAYER)
    assert "search-actors" in await offered(catalogue(default_tools="actors"))
    assert "call-actor" in (await catalogue(apify_token="apify_api_x").listed("default", ANYBODY)).tools


async def test_an_installation_without_tools_of_its_own_has_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outlast.workflows.tools.registry.loaded_tools", tuple)
    assert "search-actors" in await offered(catalogue())
