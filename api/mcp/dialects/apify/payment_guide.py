"""`file://readme.md`: how connections that pay with Skyfire pay, at the address where clients look for it."""

from collections.abc import Mapping

from outlast.api.mcp.resources.resource_definitions import Resource
from outlast.workflows.tools.core.payments import PAY_ID

_GUIDE = f"""# Paying per call

Calls on this connection are paid with Skyfire; no Apify account is charged.

1. Make a PAY token with `create-pay-token` of Skyfire's MCP server.
2. Pass the token itself (it begins with `ey`) as `{PAY_ID}` to each tool that has this argument.
3. Read what a run has written with the token that paid for the run.

A call without a token starts nothing, and says what it lacks.
"""


def _guide_text(_parts: Mapping[str, str]) -> str:
    return _GUIDE


PAYMENT_GUIDES = (
    Resource(
        "file://readme.md",
        "readme",
        "Paying per call",
        "How calls on this connection are paid.",
        "text/markdown",
        _guide_text,
        mode="apify",
        payment="skyfire",
    ),
)
