"""Sets up a Temporal namespace for tasks: the namespace itself, its retention, its search attributes.

A second run changes nothing. For a step that the credential may not do, it returns the commands, for Temporal Cloud
those of `tcld`.
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest, UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.worker.search_attributes import (
    REFUSALS,
    WANTED,
    SearchAttributes,
    add_search_attributes,
    type_name,
    until_known,
)

_CLOUD_HOSTS = (".tmprl.cloud", ".temporal.io")
_PATIENCE_SECONDS = 60
_PAUSE_SECONDS = 0.5
_DESCRIPTION = "Tasks of Outlast"


class SetupStep(BaseModel):
    """A step of the setup, and its outcome."""

    model_config = ConfigDict(frozen=True)

    what: Literal["namespace", "retention", "search attributes"]
    outcome: Literal["there", "made", "refused", "wrong"]
    """`refused`: not permitted with this credential; `wrong`: it exists with another type, and cannot be changed."""
    detail: str
    commands: tuple[str, ...] = ()
    """The steps that need more rights."""

    @property
    def is_done(self) -> bool:
        """True if nothing is left to do."""
        return self.outcome in ("there", "made")


async def set_up_namespace(client: Client, *, retention: timedelta) -> tuple[SetupStep, ...]:
    """Set up the client's namespace, and keep ended tasks for at least `retention`. A longer retention stays.

    Raises `RPCError` when the server does not answer, or does not accept the credential.
    """
    namespace = _Namespace(client, retention)
    made = await namespace.make()
    if not made.is_done:
        return (made,)
    return (made, await namespace.keep_long_enough(), await namespace.add_attributes())


@dataclass(eq=False)
class _Namespace:
    client: Client
    retention: timedelta

    def __post_init__(self) -> None:
        host = self.client.service_client.config.target_host.rpartition(":")[0]
        self._in_cloud = host.endswith(_CLOUD_HOSTS)

    async def make(self) -> SetupStep:
        """The namespace itself."""
        try:
            await self._kept()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return await self._register()
            if error.status is RPCStatusCode.PERMISSION_DENIED:
                return self._refused_namespace("it does not exist, or this credential may not read it")
            raise
        return SetupStep(what="namespace", outcome="there", detail=self.client.namespace)

    async def _register(self) -> SetupStep:
        request = RegisterNamespaceRequest(namespace=self.client.namespace, description=_DESCRIPTION)
        request.workflow_execution_retention_period.FromTimedelta(self.retention)
        try:
            await self.client.workflow_service.register_namespace(request)
        except RPCError as error:
            if error.status in REFUSALS:
                return self._refused_namespace("it does not exist, and this credential may not create it")
            if error.status is not RPCStatusCode.ALREADY_EXISTS:  # another one was faster
                raise
        await self._until_known()
        return SetupStep(what="namespace", outcome="made", detail=self.client.namespace)

    async def keep_long_enough(self) -> SetupStep:
        """The retention. Temporal measures it in whole days at most places, so it is rounded up."""
        kept = await self._kept()
        if kept >= self.retention:
            return SetupStep(what="retention", outcome="there", detail=f"ended tasks are kept for {_in_days(kept)}")
        request = UpdateNamespaceRequest(namespace=self.client.namespace)
        request.config.workflow_execution_retention_ttl.FromTimedelta(self.retention)
        try:
            await self.client.workflow_service.update_namespace(request)
        except RPCError as error:
            if error.status not in REFUSALS:
                raise
            detail = f"ended tasks are kept for {_in_days(kept)}, and this credential may not change that"
            return SetupStep(what="retention", outcome="refused", detail=detail, commands=(self._retention_command(),))
        detail = f"ended tasks are kept for {_in_days(self.retention)} (were for {_in_days(kept)})"
        return SetupStep(what="retention", outcome="made", detail=detail)

    async def add_attributes(self) -> SetupStep:
        """The search attributes."""
        try:
            there = await self._attributes()
        except RPCError as error:
            if error.status not in REFUSALS:
                raise
            detail = "this credential may not list them; make sure that the server has these"
            return self._refused_attributes(detail, WANTED)
        wrong = {name: kind for name, kind in WANTED.items() if there.get(name, kind) != kind}
        missing = {name: kind for name, kind in WANTED.items() if name not in there}
        if missing:
            try:
                await add_search_attributes(self.client, missing)
            except RPCError as error:
                if error.status not in REFUSALS:
                    raise
                names = ", ".join(sorted(missing))
                return self._refused_attributes(f"{names} are missing, and this credential may not add them", missing)
            await until_known(self.client, missing)
        if wrong:
            wanted = ", ".join(f"{name} has to be {type_name(kind)}" for name, kind in sorted(wrong.items()))
            detail = f"{wanted}: remove it and run this again, or use another namespace"
            return SetupStep(what="search attributes", outcome="wrong", detail=detail)
        if missing:
            return SetupStep(what="search attributes", outcome="made", detail=f"added {', '.join(sorted(missing))}")
        return SetupStep(what="search attributes", outcome="there", detail=f"all {len(WANTED)} exist")

    async def _kept(self) -> timedelta:
        described = await self.client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=self.client.namespace)
        )
        return described.config.workflow_execution_retention_ttl.ToTimedelta()

    async def _attributes(self) -> dict[str, IndexedValueType.ValueType]:
        request = ListSearchAttributesRequest(namespace=self.client.namespace)
        return dict((await self.client.operator_service.list_search_attributes(request)).custom_attributes)

    async def _until_known(self) -> None:
        """Wait until all parts of the server have the new namespace: they look for new ones every few seconds."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                await self._attributes()
                return
            except RPCError as error:
                if error.status in REFUSALS:
                    return
                if error.status is not RPCStatusCode.NOT_FOUND or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    def _refused_namespace(self, detail: str) -> SetupStep:
        name, days = self.client.namespace, _days(self.retention)
        command = (
            f"tcld namespace create --namespace {name.partition('.')[0]} --region REGION --retention-days {days}"
            if self._in_cloud
            else f"temporal operator namespace create --namespace {name} --retention {days * 24}h"
        )
        return SetupStep(what="namespace", outcome="refused", detail=f"{name}: {detail}", commands=(command,))

    def _retention_command(self) -> str:
        name, days = self.client.namespace, _days(self.retention)
        if self._in_cloud:
            return f"tcld namespace retention set --namespace {name} --retention-days {days}"
        return f"temporal operator namespace update --namespace {name} --retention {days * 24}h"

    def _refused_attributes(self, detail: str, attributes: SearchAttributes) -> SetupStep:
        commands = _attribute_commands(self.client.namespace, attributes, in_cloud=self._in_cloud)
        return SetupStep(what="search attributes", outcome="refused", detail=detail, commands=tuple(commands))


def _attribute_commands(namespace: str, attributes: SearchAttributes, *, in_cloud: bool) -> Sequence[str]:
    typed = [(name, type_name(kind)) for name, kind in sorted(attributes.items())]
    if in_cloud:
        given = " ".join(f"--search-attribute {name}={kind}" for name, kind in typed)
        return [f"tcld namespace search-attributes add --namespace {namespace} {given}"]
    command = f"temporal operator search-attribute create --namespace {namespace}"
    return [f"{command} --name {name} --type {kind}" for name, kind in typed]


def _days(time_kept: timedelta) -> int:
    return math.ceil(time_kept / timedelta(days=1))


def _in_days(time_kept: timedelta) -> str:
    days = time_kept / timedelta(days=1)
    return f"{days:g} day" if days == 1 else f"{days:g} days"
