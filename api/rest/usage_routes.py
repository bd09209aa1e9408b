"""`/v1/usage`: the costs of a caller."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from outlast.api.http.dependencies import ReaderDep, ServicesDep
from outlast.api.http.known_parameters import KnownParametersRoute
from outlast.api.http.problems import documented_problems
from outlast.api.usage import as_csv
from outlast.contracts.operations import UsageQuery, UsageReport

router = APIRouter(prefix="/v1/usage", tags=["usage"], route_class=KnownParametersRoute)

CSV_MEDIA_TYPE = "text/csv"


@router.get(
    "",
    response_model=UsageReport,
    responses={
        200: {"content": {CSV_MEDIA_TYPE: {}}, "description": "The report; with `format=csv` its rows as CSV."},
        **documented_problems(400, 401, 403, 422, 503),
    },
)
async def get_usage(
    request: Request, services: ServicesDep, principal: ReaderDep, query: Annotated[UsageQuery, Query()]
) -> UsageReport | Response:
    """Your costs of runs and models, by day or another grouping, and what your spending limits leave.

    An entry counts on the day (UTC) on which its run has ended. Running runs may cost `reserved_usd`.
    """
    report = await services.usage.report(principal, query)
    if query.format == "csv" or (query.format is None and _prefers_csv(request)):
        return Response(as_csv(report, query.by, safe=query.csv_safe), media_type=f"{CSV_MEDIA_TYPE}; charset=utf-8")
    return report


def _prefers_csv(request: Request) -> bool:
    accepted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(",")]
    return CSV_MEDIA_TYPE in accepted and "application/json" not in accepted
