"""`_meta` that links a tool or an answer to its widget (OpenAI Apps SDK `openai/*` keys, MCP Apps `ui`)."""

from pydantic import JsonValue

RUN_WIDGET_URI = "ui://outlast/actor-run.html"


def run_widget_meta() -> dict[str, JsonValue]:
    """For tools whose answer is shown as a live run."""
    return {
        "openai/outputTemplate": RUN_WIDGET_URI,
        "openai/toolInvocation/invoking": "Starting the Actor",
        "openai/toolInvocation/invoked": "The Actor is running",
        "ui": {"resourceUri": RUN_WIDGET_URI, "visibility": ["model", "app"]},
    }
