"""The pages that clients of the mode show: the widgets, with what they have to know of its tools."""

from collections.abc import Mapping

from mcp.server.apps import APP_MIME_TYPE

from outlast.api.mcp.resource_definitions import Resource
from outlast.api.mcp.widgets import widget_page
from outlast.api.mcp.widgets.surfaces import Surface
from outlast.workflows.tools.apify.widgets import ACTORS_PAGE, RUN_PAGE, Page
from outlast.workflows.tools.framework.frozen_json import FrozenObject

_FACTS = FrozenObject(
    {
        # The second is there where the first was not selected.
        "runTools": ["get-actor-run", "get-actor-run-widget"],
        "runArguments": {"waitSecs": 0},
        "logTool": "get-actor-run-log",
        "logLines": 50,
        "readsLogUnasked": False,
        "showsStorages": True,
        "firstMs": 3_000,
        "searchTool": "search-actors-widget",
        "detailsTool": "fetch-actor-details-widget",
        "schemaTool": "fetch-actor-details",
    }
)


def _resource(page: Page, file_name: str, name: str, description: str) -> Resource:
    surface = Surface(_FACTS, page.picture_hosts)

    def read(_parts: Mapping[str, str]) -> str:
        return widget_page(file_name, surface)

    return Resource(
        uri=page.uri,
        name=name,
        title="",
        description=description,
        mime_type=APP_MIME_TYPE,
        read=read,
        meta=page.meta(),
        mode="apify",
        is_app=True,
    )


PAGES = (
    _resource(
        ACTORS_PAGE,
        "search-results.html",
        "search-actors-widget",
        "Actors of Apify Store as cards: what each does, its price, its use, its documentation.",
    ),
    _resource(
        RUN_PAGE,
        "actor-run.html",
        "actor-run-widget",
        "A run as it goes on: status, progress, cost, rows so far, storages, and a button to abort it.",
    ),
)
