"""`_meta` that links a tool or an answer to its widget (OpenAI Apps SDK `openai/*` keys, MCP Apps `ui`)."""

from pydantic import JsonValue

RUN_WIDGET_URI = "ui://outlast/actor-run.html"
SEARCH_WIDGET_URI = "ui://outlast/search-results.html"
BATCH_WIDGET_URI = "ui://outlast/batch.html"
CALLED_BY_WIDGETS = (
    "get-actor-run",
    "get-dataset-items",
    "get-actor-log",
    "abort-actor-run",
    "search-actors",
    "fetch-actor-details-internal",
)
"""Tools that widgets call, except those for batches, which only connections with batches have."""


def run_widget_meta() -> dict[str, JsonValue]:
    """Return `_meta` for tools whose answer is shown as a live run."""
    return _widget_meta(RUN_WIDGET_URI, invoking="Starting the Actor", invoked="The Actor is running")


def run_state_widget_meta() -> dict[str, JsonValue]:
    """Return `_meta` for tools that read a run, which may have ended long ago."""
    return _widget_meta(RUN_WIDGET_URI, invoking="Looking at the run", invoked="Here is the run")


def search_widget_meta() -> dict[str, JsonValue]:
    """Return `_meta` for tools whose answer is shown as cards of Actors."""
    return _widget_meta(SEARCH_WIDGET_URI, invoking="Searching Apify Store", invoked="Actors found")


def details_widget_meta() -> dict[str, JsonValue]:
    """Return `_meta` for tools whose answer is shown as the card of one Actor."""
    return _widget_meta(SEARCH_WIDGET_URI, invoking="Looking the Actor up", invoked="Here is the Actor")


def batch_widget_metas() -> dict[str, dict[str, JsonValue]]:
    """Return `_meta` of the tools for batches, by name: those that a widget shows, and those that it calls."""
    return {
        "start-batch": _widget_meta(BATCH_WIDGET_URI, invoking="Starting the batch", invoked="The batch has begun"),
        "get-batch": _widget_meta(BATCH_WIDGET_URI, invoking="Looking at the batch", invoked="Here is the batch"),
        "get-batch-results": silent_meta(),
        "cancel-batch": silent_meta(),
    }


def silent_meta() -> dict[str, JsonValue]:
    """Return `_meta` for tools without a widget that widgets may call (`visibility`: MCP Apps, 2026-01-26)."""
    return {"openai/widgetAccessible": True, "ui": {"visibility": ["model", "app"]}}


def _widget_meta(uri: str, *, invoking: str, invoked: str) -> dict[str, JsonValue]:
    return {
        "openai/outputTemplate": uri,
        "openai/widgetAccessible": True,
        "openai/toolInvocation/invoking": invoking,
        "openai/toolInvocation/invoked": invoked,
        "ui": {"resourceUri": uri, "visibility": ["model", "app"]},
    }
