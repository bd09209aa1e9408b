"""One stack for all tests of this folder that go the whole way of a turn."""

from collections.abc import Iterator

import pytest

from tests.support.stacks.model_stack import ModelStack, running_model_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStack]:
    with running_model_stack(tmp_path_factory.mktemp("model-stack")) as running:
        yield running
