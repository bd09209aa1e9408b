"""Routes and their dependencies are coroutines: FastAPI hands plain functions to threads, one after the other."""

import importlib
import pkgutil
from collections.abc import Generator
from inspect import iscoroutinefunction

from fastapi import APIRouter
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from outlast.api import adapters, rest


def test_no_function_of_a_route_is_handed_to_a_thread() -> None:
    routes = [route for router in _routers() for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) > 30, routes

    called = {call for route in routes for call in _called(route.dependant)}

    # An instance, as of a security scheme, is called by its `__call__`.
    plain = {call for call in called if not iscoroutinefunction(call) and not iscoroutinefunction(type(call).__call__)}
    assert not plain, plain


def _routers() -> Generator[APIRouter]:
    for package in (rest, adapters):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            router = getattr(importlib.import_module(found.name), "router", None)
            if isinstance(router, APIRouter):
                yield router


def _called(dependant: Dependant) -> Generator[object]:
    if dependant.call is not None:
        yield dependant.call
    for inner in dependant.dependencies:
        yield from _called(inner)
