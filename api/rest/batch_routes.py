"""`/v1/batches`: one tool over many inputs. Start, get, list, cancel, resume and retry; read the results."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import ValidationError

from outlast.activities.batches.storage import LineReader
from outlast.activities.contracts import Caller
from outlast.activities.json_numbers import number_flaws
from outlast.activities.media import named_charset
from outlast.api.batches.client import RowSource
from outlast.api.batches.results import result_pieces
from outlast.api.batches.sources import Media, UploadedBody, uploaded_rows
from outlast.api.errors import BadRequest, OutputRefusal, UnsupportedMedia
from outlast.api.http.dependencies import (
    CallerDep,
    CancellerDep,
    IdempotencyKey,
    KnownParametersRoute,
    ServicesDep,
    SubjectDep,
    SubjectsDep,
)
from outlast.api.http.event_stream import ClosingResponse, event_stream
from outlast.api.http.problems import documented_problems
from outlast.api.outputs import begun
from outlast.api.services import Services
from outlast.contracts import batches as contracts

router = APIRouter(prefix="/v1/batches", tags=["batches"], route_class=KnownParametersRoute)

BatchId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the batch.")]
_MEDIA: dict[str, Media] = {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/csv": "csv"}
_MEDIA_TYPES: dict[contracts.Form, str] = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_MAX_SETTINGS_CHARS = 32_000
_REFUSALS = documented_problems(400, 401, 403, 404, 409, 413, 422, 503, 507)
_ENDED_REFUSALS = {**_REFUSALS, **documented_problems(410)}


@router.post("", status_code=201, response_model=contracts.Batch, responses=_REFUSALS)
async def start_batch(
    body: contracts.BatchRequest, services: ServicesDep, caller: CallerDep, key: IdempotencyKey
) -> JSONResponse:
    """Start a batch of the items in the request, or of stored rows.

    Every item is checked like a single call. If some are invalid, nothing is started, and the violations contain their
    numbers, counted from 1. With an `Idempotency-Key`, a repeated request returns the same batch.
    """
    settings = contracts.BatchSettings.model_validate(body.model_dump(exclude={"items", "rows"}))
    return _created(await services.stored_rows.start(caller, settings, body.items, body.rows, idempotency_key=key))


@router.post(
    "/uploads",
    status_code=201,
    response_model=contracts.Batch,
    responses={**_REFUSALS, **documented_problems(415)},
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            },
        }
    },
)
async def upload_batch(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    key: IdempotencyKey,
    outlast_batch: Annotated[
        str,
        Header(
            alias="Outlast-Batch",
            max_length=_MAX_SETTINGS_CHARS,
            description="The batch without its items, as one line of JSON in ASCII: `tool`, and other fields of the "
            "body of `POST /v1/batches`.",
        ),
    ],
) -> JSONResponse:
    """Start a batch of the items in a file, sent as the body: JSON lines, or CSV with a header line.

    Violations contain the line numbers of the file.
    """
    media, charset = _media_of(request), named_charset(request.headers.get("content-type", ""))
    settings = _settings(outlast_batch)
    async with services.uploads.slot(caller.id):
        body = UploadedBody(max_bytes=services.settings.max_batch_bytes, charset=charset)
        await body.receive(request.stream())
        delimiter, most = settings.delimiter, services.policy.of(caller.id).limits.batch_items
        await asyncio.to_thread(body.check_count, media, delimiter=delimiter, max_items=most)
        rows = RowSource(lambda: uploaded_rows(body, media, delimiter=delimiter), are_texts=media == "csv")
        batch = await services.batches.start(caller, settings, rows, idempotency_key=key)
    return _created(batch)


@router.get("", responses=documented_problems(400, 401, 503))
async def list_batches(
    services: ServicesDep,
    subject: SubjectsDep,
    only_open: Annotated[bool, Query(description="Only batches that have not ended.")] = False,
    schedule_id: Annotated[
        str | None, Query(max_length=200, description="Only batches that this schedule started.")
    ] = None,
    page_size: Annotated[int, Query(ge=1, le=100, description="Batches per page.")] = 50,
    page_token: Annotated[
        str | None, Query(max_length=4096, description="`next_page_token` of the previous page.")
    ] = None,
) -> contracts.BatchPage:
    """Your batches: open ones first, with their current counts, then those that ended last."""
    return await services.batches.list(
        subject.caller,
        every=subject.every,
        only_open=only_open,
        schedule_id=schedule_id,
        page_size=page_size,
        page_token=page_token,
    )


@router.get("/{batch_id}", responses=documented_problems(401, 404, 503))
async def get_batch(batch_id: BatchId, services: ServicesDep, caller: SubjectDep) -> contracts.Batch:
    """The current state of a batch: counts, rate, time left, cost. Works even if no worker is running."""
    return await services.batches.describe(caller, batch_id)


@router.get(
    "/{batch_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "Server-sent events until the batch has ended."},
        **documented_problems(401, 404, 503),
    },
)
async def follow_batch(batch_id: BatchId, services: ServicesDep, caller: SubjectDep) -> StreamingResponse:
    """The progress of a batch: `progress` whenever its counts, rate, time left or cost have changed, then `ended`.

    The data of each event is the whole batch, and the first one comes at once, so a client that reconnects has missed
    nothing. The rows are in the results of the batch.
    """
    return event_stream(await services.batches.events(caller, batch_id))


@router.get(
    "/{batch_id}/results",
    response_class=StreamingResponse,
    responses={
        200: {"description": "One row for each item that has ended, as lines of JSON (x-ndjson) or CSV."},
        **documented_problems(400, 401, 404, 410, 503),
    },
)
async def get_results(
    batch_id: BatchId,
    services: ServicesDep,
    caller: SubjectDep,
    selection: Annotated[contracts.ResultsSelection, Query()],
) -> StreamingResponse:
    """The results so far, also while the batch is running. `offset` continues after the rows of an earlier answer.

    They are also a stored output: `results` of the batch is its locator.
    """
    batch = await services.batches.describe(caller, batch_id)
    items = await services.batches.items(caller, batch_id) if selection.needs_input else None
    pieces, form = _results(services, caller, batch.results, selection, items), selection.form
    headers = {
        "Cache-Control": "private, no-store",
        "Content-Disposition": f'attachment; filename="{batch_id}.{form}"',
        "X-Content-Type-Options": "nosniff",
    }
    return ClosingResponse(await begun(pieces), media_type=_MEDIA_TYPES[form], headers=headers)


@router.post("/{batch_id}/cancel", status_code=202, responses=documented_problems(401, 404, 409, 503))
async def cancel_batch(batch_id: BatchId, services: ServicesDep, caller: CancellerDep) -> contracts.Batch:
    """Start nothing more, and cancel running items. The batch is `cancelled` when they have ended."""
    return await services.batches.cancel(caller, batch_id)


@router.post("/{batch_id}/resume", status_code=202, responses=_ENDED_REFUSALS)
async def resume_batch(
    batch_id: BatchId, body: contracts.BatchChanges, services: ServicesDep, caller: CallerDep
) -> contracts.Batch:
    """Run the items of a stopped batch that were cancelled or not started."""
    return await services.batches.resume(caller, batch_id, body)


@router.post("/{batch_id}/retry", status_code=202, responses=_ENDED_REFUSALS)
async def retry_batch(
    batch_id: BatchId, body: contracts.RetryRequest, services: ServicesDep, caller: CallerDep
) -> contracts.Batch:
    """Run the failed items of an ended batch again. Their rows are removed from the results until they end."""
    return await services.batches.retry(caller, batch_id, body)


async def _results(
    services: Services,
    caller: Caller,
    locator: str,
    selection: contracts.ResultsSelection,
    items: LineReader | None,
) -> AsyncGenerator[bytes]:
    try:
        reader = await services.outputs.open(caller, locator)
    except OutputRefusal as refusal:
        if refusal.status != 404:
            raise
        return  # The batch has no rows yet.
    async for piece in services.outputs.guarded(result_pieces(reader, selection, items)):
        yield piece


def _media_of(request: Request) -> Media:
    written = request.headers.get("content-type", "")
    media = _MEDIA.get(written.partition(";")[0].strip().lower())
    if media is None:
        raise UnsupportedMedia(
            f"The Content-Type header is {written[:100]!r}. Send `application/x-ndjson` for JSON lines, or `text/csv`."
        )
    return media


def _settings(text: str) -> contracts.BatchSettings:
    if flaws := number_flaws(text.encode()):
        raise RequestValidationError(
            [{"type": "number", "loc": ("header", "Outlast-Batch", one.path), "msg": one.message} for one in flaws]
        )
    try:
        return contracts.BatchSettings.model_validate_json(text)
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("header", "Outlast-Batch", *one["loc"])} for one in error.errors(include_url=False)]
        ) from error
    except ValueError as error:
        raise BadRequest(f"The header Outlast-Batch is not valid JSON: {error}") from error


def _created(batch: contracts.Batch) -> JSONResponse:
    headers = {"Location": f"/v1/batches/{batch.id}"}
    return JSONResponse(batch.model_dump(mode="json", exclude_none=True), status_code=201, headers=headers)
