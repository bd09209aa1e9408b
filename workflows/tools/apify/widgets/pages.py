"""`_meta` that links tools, answers and resources to the pages which show them (MCP Apps `ui`, Apps SDK `openai/*`).

The keys are those of Apify's own server, but for `openai/widgetDomain`: that names an origin which is Apify's.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult

FOLDER = "ui://widget/"
"""What addresses of pages begin with."""
PICTURE_HOSTS = (
    "https://images.apifyusercontent.com",
    "https://apify-image-uploads-prod.s3.us-east-1.amazonaws.com",
    "https://apify-image-uploads-prod.s3.amazonaws.com",
)
"""Where Apify Store keeps the pictures of Actors: all that a page may load from the network."""
PAGE_SUFFIX = "-widget"


@dataclass(frozen=True)
class Page:
    """A page, and the status lines while a tool that it shows works, and afterwards."""

    uri: str
    invoking: str
    invoked: str
    picture_hosts: tuple[str, ...] = ()

    def meta(self) -> dict[str, JsonValue]:
        """Of the page's resource, and of the tools that it shows. It connects to nothing: its host calls for it."""
        hosts: list[JsonValue] = [*self.picture_hosts]
        return {
            "openai/toolInvocation/invoking": self.invoking,
            "openai/toolInvocation/invoked": self.invoked,
            "openai/widgetCSP": {"connect_domains": [], "resource_domains": hosts},
            "ui": {
                "visibility": ["model", "app"],
                "prefersBorder": False,
                "csp": {"connectDomains": [], "resourceDomains": hosts},
                "resourceUri": self.uri,
            },
        }

    def showing(self, answer: ToolResult, what: str) -> ToolResult:
        """An answer that the page shows; `what` says of it what the user sees. Errors have no page."""
        if answer.is_error:
            return answer
        meta: JsonObject = {**self.meta(), "openai/widgetDescription": what, **answer.meta}
        return answer.model_copy(update={"meta": meta})


ACTORS_PAGE = Page(
    f"{FOLDER}search-actors.html", "Looking in Apify Store", "Here is what Apify Store has", PICTURE_HOSTS
)
RUN_PAGE = Page(f"{FOLDER}actor-run.html", "Asking for the run", "Here is the run")
