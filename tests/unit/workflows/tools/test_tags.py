"""Tags of tools (`@tool(tags=["billing"])`) select tools wherever names do."""

from typing import Any, cast

import pytest

from outlast import tool
from outlast.activities.contracts import Caller
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.api.adapters.adapter import load_offered
from outlast.api.catalog.catalog import Catalogue
from outlast.api.errors import BadRequest
from outlast.api.mcp.connections import selection_from
from outlast.api.mcp.tool_lists import _tool_entry  # pyright: ignore[reportPrivateUsage]
from outlast.api.sessions.profile import profile_for
from outlast.api.settings import ApiSettings
from outlast.api.startup_checks import settings_problems
from outlast.contracts.sessions import SessionRequest
from outlast.workflows.tools import registry
from outlast.workflows.tools.framework.selection import Selection, without_tags

ANYBODY = Caller(id="local")


@tool(tags=["billing", "Europe_1", "billing"])
def tagged_invoice() -> str:
    """Write an invoice."""
    return ""


@tool(tags=["billing"])
def tagged_refund() -> str:
    """Refund an order."""
    return ""


@tool
def untagged() -> str:
    """Weather forecast."""
    return ""


@pytest.fixture(autouse=True)
def own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_COMMON", "_BY_MODE"):
        monkeypatch.setattr(registry, name, getattr(registry, name).copy())
    registry.extend([tagged_invoice.definition, tagged_refund.definition, untagged.definition])


@pytest.fixture
def catalogue() -> Catalogue:
    return Catalogue(cast(ApifyPlatform, None), actors=())  # no Actor is looked up


OWN = {"tagged_invoice", "tagged_refund", "untagged"}


@pytest.mark.parametrize("tags", ["billing", 3, [""], ["a b"], ["a,b"], ["tag:a"], [3], ["x" * 65]])
def test_only_names_are_tags(tags: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="tags="):
        tool(tags=tags)(untagged.function)


def test_a_tag_is_the_names_of_its_tools_in_its_place() -> None:
    tools = [tagged_invoice.definition, tagged_refund.definition, untagged.definition]
    assert tagged_invoice.definition.tags == ("billing", "Europe_1")
    assert without_tags(("docs", "tag:billing", "user/name"), tools) == (
        "docs",
        "tagged_invoice",
        "tagged_refund",
        "user/name",
    )
    assert without_tags(("tag:Europe_1",), tools) == ("tagged_invoice",)


@pytest.mark.parametrize("mode", ["default", "openai", "apify"])
async def test_connections_sessions_and_adapters_select_by_tag(catalogue: Catalogue, mode: str) -> None:
    selected = selection_from({"tools": ["tag:billing"], "mode": [mode]}, default_mode="default")
    loaded = await catalogue.load(selected, ANYBODY)
    assert set(loaded.tools) & OWN == {"tagged_invoice", "tagged_refund"}
    assert loaded.missing_actors == ()
    adapter = await load_offered(catalogue, ANYBODY, mode=mode, selectors=("tag:billing", "untagged"))
    assert set(adapter.tools.tools) & OWN == OWN
    assert _tool_entry(tagged_invoice.definition, mode, False, 60)["_meta"] == {"outlast/tags": ["billing", "Europe_1"]}
    assert "_meta" not in _tool_entry(untagged.definition, mode, False, 60)


async def test_a_session_records_the_tools_of_the_tag(catalogue: Catalogue) -> None:
    request = SessionRequest.model_validate({"tools": ["tag:Europe_1"]})
    profile = await profile_for(request, catalogue, ANYBODY, skills_dir=None, masking=False)
    assert {one.name for one in profile.snapshot.tools} & OWN == {"tagged_invoice"}


async def test_an_unknown_tag_names_a_similar_one(catalogue: Catalogue) -> None:
    message = "Unknown tag 'tag:biling': did you mean 'tag:billing'?"
    with pytest.raises(BadRequest, match=message):
        selection_from({"tools": ["docs,tag:biling"]}, default_mode="default")
    with pytest.raises(BadRequest, match=message):
        await catalogue.load(Selection("default", ("tag:biling",)), ANYBODY)


async def test_tags_can_be_the_default_set(catalogue: Catalogue) -> None:
    by_tag = Catalogue(cast(ApifyPlatform, None), actors=(), selectors=("tag:billing",))
    assert list((await by_tag.load(Selection(), ANYBODY)).tools)[:2] == ["tagged_invoice", "tagged_refund"]
    assert settings_problems(ApiSettings.model_validate({"default_tools": "tag:billing"})) == []
    (problem,) = settings_problems(ApiSettings.model_validate({"default_tools": "tag:biling"}))
    assert "'tag:biling' is not a category" in problem
    assert "a tag of a tool (`tag:name`)" in problem
