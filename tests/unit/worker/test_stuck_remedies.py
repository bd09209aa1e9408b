"""Every type of workflow that a worker serves may be stuck, and it is decided what is done then."""

import importlib
import pkgutil

from temporalio import workflow

import outlast.workflows
from outlast.activities.stuck_tasks.assess import STUCK_QUERY
from outlast.activities.stuck_tasks.contracts import REMEDIES
from outlast.worker.service import WORKFLOWS


def name_of(kind: type) -> str:
    definition = workflow._Definition.from_class(kind)  # pyright: ignore[reportPrivateUsage]
    assert definition is not None
    assert definition.name is not None
    return definition.name


def defined() -> set[str]:
    """The names of all workflows in the package, whether a worker serves them or not."""
    found: set[str] = set()
    for module in pkgutil.walk_packages(outlast.workflows.__path__, "outlast.workflows."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and workflow._Definition.from_class(kind) is not None:  # pyright: ignore[reportPrivateUsage]
                found.add(name_of(kind))
    return found


def test_every_type_of_workflow_has_a_remedy() -> None:
    served = {name_of(kind) for kind in WORKFLOWS}
    assert served == set(REMEDIES)
    assert served == defined()


def test_the_search_covers_every_type() -> None:
    assert all(f"'{name}'" in STUCK_QUERY for name in REMEDIES)
