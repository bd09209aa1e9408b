"""One Outlast whose callers have runs that are cut short."""

from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture, temporal_fixture

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"

service = service_fixture(callers={"ann": ANN, "bob": BOB}, settings={"OUTLAST_START_SETTLE_SECONDS": "2"})
sandbox = sandbox_fixture()
api = http_fixture(ANN)
temporal = temporal_fixture()
