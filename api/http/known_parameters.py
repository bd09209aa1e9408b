"""Query parameters that a route does not have: each is refused by its name, with the nearest one that there is.

A misspelt `limit`, `status` or `schedule_id` that is passed over answers with more, or other, than was asked for.
"""

from collections.abc import Callable, Coroutine, Iterator
from itertools import islice
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel

from outlast.activities.contracts import Violation
from outlast.api.http.problems import invalid_request, problem_response
from outlast.workflows.contracts.unknown_fields import MAX_REPORTED, unknown_name

_OF_CALLERS = "/v1/"
"""Elsewhere are probes and pages, which may be asked with anything that keeps caches away."""


class KnownParametersRoute(APIRoute):
    """A route that responds 422 to query parameters that its document does not have. All of `/v1` are of this class."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()
        if not self.path.startswith(_OF_CALLERS):
            return handle
        known = frozenset(_names_in(self.dependant))

        async def handle_known(request: Request) -> Response:
            unknown = list(islice((name for name in request.query_params if name not in known), MAX_REPORTED))
            if not unknown:
                return await handle(request)
            found = [Violation.at(("query", name), unknown_name("parameter", name, known)) for name in unknown]
            return problem_response(invalid_request(request.url.path, found))

        return handle_known


def _names_in(dependant: Dependant) -> Iterator[str]:
    """The query parameters of a route and its dependencies; those of a model are its fields."""
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (inner.alias or name for name, inner in model.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _names_in(inner)
