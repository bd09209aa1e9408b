"""Requests that schemathesis makes up from the OpenAPI document, sent as a caller whose answers are checked."""

from collections.abc import Sequence
from typing import Any

import requests
import schemathesis
from schemathesis import Case, Response
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.hostile.party import Party

CHECKS: Sequence[CheckFunction] = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
_TIMEOUT_SECONDS = 120
_CHUNK_BYTES = 64 * 1024


class _Peeking(requests.Session):
    """Reads the beginning of an event stream only: many have no end."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        response = super().request(*args, **kwargs)
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            raw = response.raw
            chunks = iter([raw.read1(_CHUNK_BYTES, decode_content=True)])
            raw.read1 = lambda *_, **__: next(chunks, b"")
        return response


def published(url: str) -> BaseSchema:
    """The document of the API at `url`."""
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def sent(party: Party, case: Case) -> Response:
    """The answer to a request of a caller, checked as all of its answers are. Of a stream, the beginning."""
    request = f"{case.method} {case.formatted_path}"
    with _Peeking() as session, party.pulse.patience(request):
        answer = case.call(
            session=session, headers={"Authorization": party.http.headers["Authorization"]}, timeout=_TIMEOUT_SECONDS
        )
    party.check(answer.status_code, answer.content, request)
    return answer


def sent_and_validated(party: Party, case: Case) -> Response:
    """`sent`, and the answer is one that the document describes."""
    answer = sent(party, case)
    case.validate_response(answer, checks=list(CHECKS))
    return answer
