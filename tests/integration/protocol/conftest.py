"""One Outlast with the tools of `protocol_tools`, two known callers, and rules of who may call what."""

from tests.support.stacks.fixtures import http_fixture, service_fixture, temporal_fixture

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"

service = service_fixture(
    tools=["tests.support.tools.protocol_tools", "tests.support.tools.phase_tools"],
    callers={"ann": ANN, "bob": BOB},
    permissions=[
        "key:bob:hello_world=deny",
        "*:shaky=ask",
        "*:outlast--big-table=deny",
        "*:outlast--site-crawler=ask",
        "key:bob:list-tasks=deny",
    ],
    settings={"OUTLAST_DEFAULT_TOOLS": "actors,runs,dev"},
)
api = http_fixture(ANN)
bob = http_fixture(BOB)
temporal = temporal_fixture()
