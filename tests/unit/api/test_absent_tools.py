"""Errors about tools that exist and are not offered: the reason, how to get them, and to whom nothing is said."""

import pytest

from outlast.activities.contracts import Caller
from outlast.api.access.policy.contracts import PermissionEntry, Policy
from outlast.api.access.policy.source import PolicySource
from outlast.api.catalog.absent_tools import AbsentTools
from outlast.api.catalog.builtin_tools import BuiltinTools
from outlast.workflows.tools.common.invalid import unknown_tool_envelope


def message(name: str, *, builtin: str = "on", mode: str = "default", by_connection: bool = True) -> str:
    denied = PermissionEntry(caller="key:ann", tool="call-actor", action="deny")
    absent = AbsentTools(BuiltinTools.of(builtin), PolicySource(None, base=Policy(rules=(denied,))))
    unknown, caller = unknown_tool_envelope(name, ()), Caller(id="key:ann")
    return absent.explained(unknown, name, mode, caller, by_connection=by_connection).message


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("get-dataset", {}, "has not selected the tool 'get-dataset'. To select it, add `?tools=get-dataset`"),
        ("get-actor-run-log", {}, "To select it, add `?tools=get-actor-log`"),
        ("user--name", {}, "add `?actors=USER/NAME`"),
        ("get-dataset", {"builtin": "docs"}, "has not chosen it in OUTLAST_BUILTIN_TOOLS"),
        ("get-dataset", {"builtin": "docs", "by_connection": False}, "has not chosen it in OUTLAST_BUILTIN_TOOLS"),
        ("user--name", {"builtin": "off"}, "has not chosen it in OUTLAST_BUILTIN_TOOLS"),
        ("report-problem", {}, "connect with `?mode=apify`"),
        ("no-such-tool", {}, "There is no tool 'no-such-tool'."),
        ("get-dataset", {"mode": "none"}, "There is no tool 'get-dataset'."),
    ],
)
def test_the_reason_says_how_to_get_the_tool(name: str, given: dict[str, object], told: str) -> None:
    assert told in message(name, **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("builtin", ["on", "off"])
def test_nothing_is_told_about_a_tool_that_the_policy_denies(builtin: str) -> None:
    assert message("call-actor", builtin=builtin) == "There is no tool 'call-actor'."
