"""The blocking client is generated from the asynchronous one: `make client` has been run, and left nothing behind."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.paths import ROOT

BLOCKING = ROOT / "outlast" / "client" / "blocking"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("blocking_client", ROOT / ".ci" / "blocking_client.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def texts(folder: Path) -> dict[str, str]:
    return {module.name: module.read_text() for module in folder.glob("*.py")}


def test_the_committed_modules_are_what_the_generator_writes(generator: ModuleType, tmp_path: Path) -> None:
    generator.generate(tmp_path)
    committed = texts(BLOCKING)
    for name in generator.WRITTEN_BY_HAND:
        del committed[name]
    assert committed == texts(tmp_path), "run `make client`"


def test_no_word_of_the_asynchronous_client_is_left_in_the_blocking_one(generator: ModuleType) -> None:
    for name, text in texts(BLOCKING).items():
        code = text.removeprefix(generator.HEADER)
        if name not in generator.WRITTEN_BY_HAND:
            assert not [word for word in ("async ", "await", "Async", "aclose") if word in code], name
