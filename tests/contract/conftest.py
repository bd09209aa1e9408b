"""One Outlast for the contract tests, with a fourth mode and a Temporal server whose state can be searched."""

from tests.support.paths import ROOT
from tests.support.stacks.fixtures import http_fixture, service_fixture

service = service_fixture(
    tools=["tests.contract.anthropic_mode"], database=True, actors=ROOT / "tests" / "contract" / "actors"
)
http = http_fixture()
