"""An Outlast with schedules."""

from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture

service = service_fixture(tools=["tests.support.tools.batch_tools"])
sandbox = sandbox_fixture()
api = http_fixture()
temporal = temporal_fixture()
