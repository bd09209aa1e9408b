"""The client's part of `pick_colour` (hello_tools.py): `outlast client --tools-from docs/examples/hello_client.py`."""

from outlast import ClientTool, NoAnswer, OpenHandoff

FAVOURITES = ("green", "red")


async def pick(handoff: OpenHandoff) -> dict[str, str]:
    """The first favourite colour on offer. The server checks it: the client is never the last word."""
    colours = handoff.parameters["colours"]
    assert isinstance(colours, list)
    for colour in FAVOURITES:
        if colour in colours:
            return {"colour": colour}
    raise NoAnswer("None of my favourite colours is on offer.", action="decline")


CLIENT_TOOLS = [ClientTool(tool="pick_colour", phase="pick", run=pick, sends="your favourite colour")]
