"""An Outlast with two callers, and tools that start several runs or none."""

from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"

service = service_fixture(callers={"ann": ANN, "bob": BOB}, tools=["tests.support.tools.row_tools"])
sandbox = sandbox_fixture()
api = http_fixture(ANN)
