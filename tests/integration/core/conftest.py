"""One Outlast as it is without settings: a caller without a token is `local`."""

from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture

service = service_fixture()
sandbox = sandbox_fixture()
api = http_fixture()
temporal = temporal_fixture()
