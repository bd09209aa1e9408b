"""Errors of requests about schedules."""

from outlast.api.errors import ApiError


class ScheduleNotFound(ApiError):
    """The caller has no such schedule."""

    status = 404
    slug = "schedule-not-found"
    title = "There is no such schedule"


class ScheduleExists(ApiError):
    """The caller has another schedule of this name."""

    status = 409
    slug = "schedule-exists"
    title = "The schedule exists and is another one"


class ScheduleDamaged(ApiError):
    """What the schedule starts cannot be read. It can be made again under its id, or deleted."""

    status = 409
    slug = "schedule-damaged"
    title = "The schedule is damaged"


class ScheduleRefused(ApiError):
    """The schedule's times cannot be, or there are too many of them. Nothing was changed."""

    status = 422
    slug = "schedule-refused"
    title = "The schedule cannot be kept"
