"""Instructions of a connection in this mode for models, on the same subjects as in Apify's own server."""

from outlast.workflows.tools.framework.mode import Instruction

INSTRUCTIONS = (
    Instruction(
        "- An Actor is a program on the Apify platform: it takes an input and writes what it finds. Its README\n"
        "  says what it can do, its input schema what it takes: read the input schema before you run it. Apify\n"
        "  Store has an Actor for most sites; of several, take one that is used much and rated well.",
        about="platform",
    ),
    Instruction(
        "- Each run writes to a dataset (rows) and a key-value store (files, its input and output). Answers name\n"
        "  both by their ids. Read large ones a page at a time, with few fields.",
        about="platform",
    ),
    Instruction(
        "- An Actor task is a saved input with options of an Actor, to be run again. It is private until it is\n"
        "  published, which makes a page for everybody: publish only what is useful and proven.",
        about="platform",
    ),
    Instruction(
        "- A schedule runs Actors and saved tasks by a cron expression of five fields (a sixth in front for\n"
        "  seconds), in its time zone, UTC without one. @daily and similar names fire at a time of their own: write\n"
        "  the fields where a time matters. A disabled schedule pauses. To change its actions send all of them,\n"
        "  10 of each kind at most.",
        about="platform",
    ),
    Instruction(
        "- Storages, runs and logs are resources, too: resources/read takes their addresses on the platform's\n"
        "  API, such as .../v2/datasets/ID/items?limit=100; resources/templates/list has the forms. Answers name\n"
        "  ids: build the address from them. Content that is too large is replaced by a note: read a page of it.",
        about="platform",
    ),
    Instruction(
        "- search-actors finds Actors; fetch-actor-details has one's README, price and input schema.",
        ("search-actors", "fetch-actor-details"),
    ),
    Instruction(
        "- Before call-actor read the input schema with fetch-actor-details. For a tool of an Actor that is an\n"
        "  MCP server call `user/actor:tool`.",
        ("call-actor", "fetch-actor-details"),
    ),
    Instruction("- Where an Actor has a tool of its own, prefer that to call-actor.", ("call-actor",)),
    Instruction(
        "- Tools that run an Actor wait up to waitSecs; with 0 they only start it. A run that takes longer\n"
        "  continues: follow it with get-actor-run. Read its output with get-dataset-items and\n"
        "  get-key-value-store-record.",
        ("get-actor-run", "get-dataset-items", "get-key-value-store-record"),
    ),
    Instruction(
        "- apify--web-fetch gets one page whose address is known; apify--rag-web-browser searches the web and\n"
        "  reads what it finds.",
        ("apify--web-fetch", "apify--rag-web-browser"),
    ),
    Instruction(
        "- search-actors-widget shows the user what Apify Store has: only when the user wants to see or choose\n"
        "  Actors. When you look for one to run it, search-actors finds the same and shows nothing.",
        ("search-actors", "search-actors-widget"),
    ),
    Instruction(
        "- fetch-actor-details-widget shows the user an Actor: only when the user wants to see it. To run one,\n"
        "  look it up with fetch-actor-details, which shows nothing.",
        ("fetch-actor-details", "fetch-actor-details-widget"),
    ),
    Instruction(
        "- call-actor-widget runs an Actor and shows the user the run: only when the user wants to watch it. The\n"
        "  widget follows the run to its end: do not ask for its state, end your turn.",
        ("call-actor-widget",),
    ),
    Instruction(
        "- call-actor runs the same and shows nothing: its runs you follow yourself.",
        ("call-actor", "call-actor-widget"),
    ),
    Instruction(
        "- get-actor-run-widget shows the user a run: only when the user wants to watch it, and once for a run.\n"
        "  The widget follows it to its end: do not ask for its state afterwards.",
        ("get-actor-run-widget",),
    ),
    Instruction(
        "- For data of a known site look for an Actor with search-actors; apify--rag-web-browser is for questions\n"
        "  that any page may answer.",
        ("search-actors", "apify--rag-web-browser"),
    ),
    Instruction(
        "- When a tool misleads you or does not do what it says, report it with report-problem, once.",
        ("report-problem",),
    ),
)
