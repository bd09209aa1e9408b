"""What the mode `apify` does otherwise than its peer, each with the reason. Everything else has to be equal."""

_NULL_TASK = "The peer answers null, which its own schema does not allow."
_EXPLICIT = "Ours says in every answer whether it is an error."
_SIGNING_KEY = "Whoever has the key can read every record of the store: it is in no answer, and so in no history."
RUN_OF_NOW = "A call that is not waited for has its run looked at once it has begun: ours says what is known then."
ON_PURPOSE: dict[tuple[str, str], str] = {
    ("runs", "/structuredContent/items/0/actorTaskId"): _NULL_TASK,
    ("runs of an Actor", "/structuredContent/items/0/actorTaskId"): _NULL_TASK,
    ("runs", "/isError"): _EXPLICIT,
    ("runs of an Actor", "/isError"): _EXPLICIT,
    ("a call that is not waited for", "/_meta"): RUN_OF_NOW,
    ("a store", "/structuredContent/urlSigningSecretKey"): _SIGNING_KEY,
    ("stores", "/structuredContent/items/0/urlSigningSecretKey"): _SIGNING_KEY,
    ("a large record", "/isError"): _EXPLICIT,
    ("a file", "/isError"): _EXPLICIT,
    ("an abort", "/structuredContent/finishedAt"): "Ours answers when the platform says that the run has ended.",
}
"""By the call and the place in the answer: each is a difference, or the comparison fails. `_meta` of our own
(`outlast/...`) may be in every answer."""
_RUN = "a call that is not waited for"
SOMETIMES: dict[tuple[str, str], str] = {
    (_RUN, "/structuredContent/statusMessage"): RUN_OF_NOW,
    (_RUN, "/structuredContent/stats"): RUN_OF_NOW,
    (_RUN, "/structuredContent/storages/datasets/default/itemCount"): RUN_OF_NOW,
}
"""The same, by how far the run has got."""
WHO_ANSWERS = {
    "/description": "Words for people.",
    "/websiteUrl": "Ours has no site of its own.",
    "/icons": "Ours has no picture of its own.",
}
"""In what a server says of itself; each has a name, a title and a version of its own."""
NO_LINE_ON_PURPOSE = "The run is there, and its log is empty. The peer's client takes an empty log for none."
"""Why the log of a run that has written no line is an answer, and no error as there (`Run with ID 'R' not found.`)."""

LISTED_ON_PURPOSE = {"writeOnly": "Ours marks secret fields of an Actor's input: the mark says what is sealed."}
"""Keywords that our schemas have besides."""

LEFT_OUT_OF_META = {
    "openai/widgetDomain": "It names an origin of Apify's. Without it each host gives a page one of its own."
}
"""Keys in the `_meta` of widgets that ours leave out."""
OWN_WORDS_OF_META = {
    "openai/toolInvocation/invoking": "Words for people.",
    "openai/toolInvocation/invoked": "Words for people.",
    "openai/widgetDescription": "Words for people.",
    "openai/widgetCSP": "Our pages connect to nothing, and load nothing but pictures of Actors.",
}
"""Keys whose values are each server's own; so are the domains in `ui.csp`, and `ui.prefersBorder` (ours draw one)."""
LEFT_OUT_OF_PAGES = {"html": "The page once more, under a key that MCP does not have."}

_TOOL_TO_NAME = "When calling an MCP server Actor, you must specify the tool name"
BEGINNINGS = {
    "a page elsewhere": 'Invalid URL: "',
    "an unknown tool": 'Tool "no-such-tool" was not found.',
    "an Actor that is no server": "Actor 'outlast/sleeper' is not an MCP server.",
    "both": "Action 2 names both an Actor and a task",
    "both in a change": "Action 1 names both an Actor and a task",
    "neither": "Action 1 names nothing to run",
    "no tool named": _TOOL_TO_NAME,
    "no tool named for the page": _TOOL_TO_NAME,
    "no server and no input": 'Actor "outlast/plain-standby" runs in standby mode without an MCP server',
    "a server that is not there": "Failed to connect to MCP server",
}
"""How far messages are compared, where our words end earlier: by default to the end of the first sentence."""

ERRORS_ON_PURPOSE = {
    "/toolTelemetry": "What the peer tells its own telemetry; nothing of ours leaves the server.",
    "/content": "How many texts say what is wrong is each server's own.",
}
"""Keys in which tool errors may differ."""
SAVED_ON_PURPOSE = {
    "a name of many words": "The pattern is in the tool's schema: what breaks it is a protocol error, as all else is.",
}
"""Refused calls about saved tasks and schedules that ours tells otherwise."""
REFUSED_ON_PURPOSE: dict[str, str] = {}
"""Refusals of the platform that ours tells otherwise."""
_TRIMMED = "Blanks around an id are no part of it: ours leaves them out before it asks the platform, and when it tells."
ODD_VALUES_ON_PURPOSE = {
    "a negative offset of nothing": "The dataset is looked for first: one that is not there is told as that.",
    "an offset of one and a half": "Ours answers the offset from which the items are: 1.",
    "a blank run": "No run has such an id. The peer asks for the list of runs with it, and answers what is none.",
    **dict.fromkeys(("a blank dataset", "a blank store"), "Nothing has such an id: it is told as every unknown one."),
    **dict.fromkeys(("a blank task", "blanks around a run"), _TRIMMED),
}
"""Odd values of arguments that ours refuses or takes otherwise; each is a difference, or the comparison fails."""

_NO_LIMIT = "A task is kept for as long as Temporal keeps it, whatever the client asks for; an open one without limit."
_OWN_TTL = {(task, "/ttl") for task in ("a new task", "a working task", "a cancelled task", "looked at", "unlimited")}
TASKS_ON_PURPOSE: dict[tuple[str, str], str] = {
    **dict.fromkeys(_OWN_TTL, _NO_LIMIT),
    ("a refused task", "/statusMessage"): "Ours says there why: the peer's says nothing until the result is read.",
}
"""By the task and the place in it: each is a difference, or the comparison fails."""
TASK_METHODS_ON_PURPOSE = {
    "the result of a working task": "It waits for the end, as the specification says.",
    "the result of a cancelled task": "It is told like every other end, as the specification says.",
    "a page": "It has what fits: 50 tasks, and not 10. `nextCursor` says whether there are more.",
    "a bad cursor": "It is the client's error: -32602, as the specification says.",
    "the order": "The newest are wanted most.",
    "tasks of others": "Whoever knows a task can read what it answers, and cancel it.",
}
"""What the methods of tasks answer otherwise; each is a difference, or the comparison fails."""

NO_TASK_ON_PURPOSE = (
    "A call that is refused starts nothing: input that does not fit the Actor's schema, or a missing payment, is "
    "-32602 at once. The peer makes a task of it, which has completed with the refusal."
)
"""Why some calls that were to be tasks are protocol errors."""

_CODE_OF_SDK = "Clients act on the status, which is the same; the code beside it is that of MCP's own SDK for Python."
_STATUS_OF_SDK = (
    "The error is in the body, with status 400: so MCP's own SDK for Python answers -32602 of 2026-07-28. Clients of "
    "the SDKs of both languages read it (test_clients.py)."
)
TOKENS_NOT_USED = {
    "?token=": "Addresses end up in logs.",
    "~/.apify/auth.json": "Money is spent with a token that this process was given.",
}
"""Where the peer finds a token besides."""

HTTP_ON_PURPOSE = {
    **dict.fromkeys(("no session", "an unknown session", "one type only"), _CODE_OF_SDK),
    **dict.fromkeys(("a stream of an unknown session", "the end of an unknown session"), _CODE_OF_SDK),
    **dict.fromkeys(("an unknown resource", "an unknown tool"), _STATUS_OF_SDK),
    "a stream without a session": "MCP says 400 where the header is missing, and 404 for an unknown session.",
    "a foreign host": "All of the API says 400 to a request for another host (RFC 9110), in the form of its problems.",
    "a foreign origin": "Refused by the SDK in plain text, with the same status.",
    "no JSON": "Ours says in JSON-RPC what is wrong (-32700), the peer in HTML.",
    "no message": "Ours reads it as a message whose parts are missing.",
    "completion": "Ours completes arguments of its prompts; the peer does not know the method.",
}
"""Requests that ours answers with another status or code."""

CAPABILITIES_ON_PURPOSE = {
    "/tools/listChanged": "One server speaks in all modes, and lists change in some.",
    "/prompts/listChanged": "Said as false, which is the same as not said.",
    "/resources/listChanged": "Said as false, which is the same as not said.",
    "/resources/subscribe": "Tasks are resources, whose changes can be followed.",
    "/extensions": "Tasks of 2026-07-28, and MCP Apps in every connection.",
    "/completions": "Arguments of prompts are completed.",
    "/logging": "2026-07-28 has no such capability: what a request says of its own logging counts.",
}
"""By the place in the capabilities of the server."""

LISTS_MAY_BE_KEPT = "A list of tools may be kept for a minute: it is the same as long as the address is."
"""Why `tools/list` has another `ttlMs`."""

NO_MESSAGE_UNASKED = "Log messages go to clients that have asked for them (`logging/setLevel`). The answer says it."
"""Why a refused call is not sent as `notifications/message` as well (2025-11-25)."""

OWN_TEMPLATES = {"task", "task-rows"}
"""A task is a resource in every mode: clients without tasks can read it."""


def any_address(root: str) -> tuple[str, ...]:
    """Addresses that the peer reads, and ours does not: what they tell of an account is not for all of its callers."""
    return (f"{root}/v2/users/me", f"{root}/v2/acts/outlast~sleeper", f"{root}/v2/datasets/%2e%2e/users/me")


SAID_BY_PEER = ("actor", "input schema", "dataset", "key-value store", "saved", "publish", "cron", "resources/read")
"""What instructions speak of, whatever tools are there."""

LISTED_BESIDES = {"labelled", "pick_colour"}
"""Tools of other packages, which the service of the contract tests has in every mode."""


OUTPUTS_ON_PURPOSE = "The package knows no rows; the hosted server has them from recent runs, as ours has."
"""Why fetch-actor-details answers an output schema."""
SCHEMAS_ON_PURPOSE: dict[str, str] = {
    "/items/properties/loose/format": "A time without a zone is no `date-time` of RFC 3339, which JSON Schema means.",
}
"""By the place in the schema of a dataset."""


CONSOLE_ON_PURPOSE = (
    "Tokens that begin with `apify_ui_` are those of Apify Console's own pages, which speak with Apify's server and no "
    "other: answers have no links into the Console (`apifyConsoleUrl`, one more text, the addresses of Actors)."
)
"""Why a session of the Console is answered as every other."""
BAD_TOKEN_ON_PURPOSE = (
    "Whoever is not known is not served: the connection is refused with 401, so that the client asks for another "
    "token. The peer finds out with the first call."
)
"""Why a token that the platform does not know is refused at connect, over HTTP."""

NOT_KNOWN_ON_PURPOSE = (
    "Clients act on the status 401 and on `WWW-Authenticate`, which are the same. All of the API says it in the form "
    "of RFC 9457 instead of JSON-RPC (-32001), and says it to `server/discover` as well."
)
"""How who is not known is told so."""
_DEFAULTS = "What a server does not say of its tool is told with the protocol's defaults."
LISTED_OF_SERVERS = {
    "/annotations": _DEFAULTS,
    "/annotations/destructiveHint": _DEFAULTS,
    "/annotations/idempotentHint": _DEFAULTS,
    "/annotations/openWorldHint": _DEFAULTS,
    "/title": _DEFAULTS,
    "/outputSchema": "What the server promises of its answers.",
}
"""What tools of Actors that are MCP servers are listed with besides. The peer reads one page of such a list."""
SERVERS_ON_PURPOSE: dict[tuple[str, str], str] = {("data", "/isError"): _EXPLICIT}
"""In answers of such tools, by the call and the place."""
SERVERS_TOLD_OTHERWISE = {
    "no tool behind the colon": "It is the tool's name that is missing, and not the Actor.",
    "a tool of no server": "It is no MCP server, whatever its standby mode is for.",
}
"""Refused calls of Actors in standby mode that ours tells otherwise."""

_EDITORS = "Of what an editor of the platform's form makes, the fields that a model needs; a call may have the others."
_EXAMPLE = "An example of a list is a list, as JSON Schema has it."
FIELDS_ON_PURPOSE = {
    **{f"/inputSchema/properties/{name}/items": _EDITORS for name in ("start-dot-urls", "pairs", "patterns", "globs")},
    "/inputSchema/properties/links/items": _EDITORS,
    "/inputSchema/properties/proxy/": _EDITORS,
    "/inputSchema/properties/anything/items": "Items are of the type that the default has.",
    **{f"/inputSchema/properties/{name}/examples": _EXAMPLE for name in ("start-dot-urls", "links", "anything")},
    "/inputSchema/required": "What is required has the name under which it is listed, or is told in its description.",
}
"""Places in the listed fields of an Actor, with all below them."""
