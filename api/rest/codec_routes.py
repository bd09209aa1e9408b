"""Temporal's codec protocol, with which its UI and its CLI show what is encrypted: `POST /codec/decode`, `/download`.

Both take and give the JSON form of `temporal.api.common.v1.Payloads`.
"""

import asyncio

from fastapi import APIRouter, Request, Response
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from temporalio.api.common.v1 import Payloads

from outlast.api.errors import BadRequest
from outlast.api.http.dependencies import OperatorDep, ServicesDep
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.services import Services

router = APIRouter(prefix="/codec", tags=["operators"], include_in_schema=False, route_class=KnownParametersRoute)


@router.post("/decode")
async def decode(request: Request, services: ServicesDep, _operator: OperatorDep) -> Response:
    """The payloads, decrypted. References to the store stay as they are: the UI offers them for download."""
    return await _answer(request, services, fetch=False)


@router.post("/download")
async def download(request: Request, services: ServicesDep, _operator: OperatorDep) -> Response:
    """The payloads that references name, decrypted."""
    return await _answer(request, services, fetch=True)


async def _answer(request: Request, services: Services, *, fetch: bool) -> Response:
    namespace = request.headers.get("X-Namespace")
    if namespace not in (None, "", services.raw_payloads.namespace):
        raise BadRequest(f"This server has the payloads of the namespace {services.raw_payloads.namespace!r} only.")
    body = await request.body()
    try:
        asked = await asyncio.to_thread(Parse, body, Payloads(), ignore_unknown_fields=True)
    except (ParseError, UnicodeDecodeError) as error:
        raise BadRequest('The body has to be `{"payloads": [...]}`, as Temporal\'s codec protocol has it.') from error
    opened = Payloads(payloads=await services.raw_payloads.opened(asked.payloads, fetch=fetch))
    return Response(await asyncio.to_thread(MessageToJson, opened, indent=None), media_type="application/json")
