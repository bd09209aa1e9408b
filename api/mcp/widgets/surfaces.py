"""What a page has to know of the mode that it is shown in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from outlast.workflows.tools.framework.frozen_json import FrozenObject


@dataclass(frozen=True)
class Surface:
    """Which tools a page calls, how, and from where it may load pictures."""

    facts: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Read by the page as `SURFACE`."""
    picture_hosts: tuple[str, ...] = ()
    """From where the page may load pictures."""

    def script(self) -> str:
        """The line that tells the page."""
        facts_json = json.dumps({**self.facts, "pictureHosts": self.picture_hosts}, ensure_ascii=True)
        return f"const SURFACE = {facts_json.replace('<', chr(92) + 'u003c')};"


UI_MODE = Surface(
    FrozenObject(
        {
            "runTools": ["get-actor-run"],
            "runArguments": {},
            "logTool": "get-actor-log",
            "logLines": 60,
            "readsLogUnasked": True,
            "showsStorages": False,
            "firstMs": 2_000,
            "searchTool": "search-actors",
            "detailsTool": "fetch-actor-details-internal",
            "schemaTool": None,
        }
    )
)
