"""`outlast webhooks`: who hears of your tasks and batches; what was not delivered, and sending it again."""

from typing import Annotated, Literal

import typer
from rich.markup import escape

from outlast.cli.args import parse_duration
from outlast.cli.errors import BadInput, ExitCode
from outlast.cli.runner import Context, server_command
from outlast.cli.show.tables import Column
from outlast.client import Delivery, Webhook, WebhookBacklog

app = typer.Typer(
    no_args_is_help=True, help="Addresses that hear of your tasks and batches; events that were not delivered."
)

WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Id of the webhook.", show_default=False)]
DeliveryArgument = Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the delivery.", show_default=False)]
EventsOption = Annotated[
    list[str] | None,
    typer.Option("--event", "-e", help="What it hears of, such as task.completed; repeatable. All by default."),
]
_COLUMNS = (
    Column("ID"),
    Column("STATE", rank=2),
    Column("NAME", rank=4),
    Column("EVENTS", rank=3),
    Column("ADDRESS", rank=1),
)
_DELIVERY_COLUMNS = (
    Column("DELIVERY"),
    Column("EVENT", rank=1),
    Column("SUBJECT", rank=3),
    Column("CREATED", rank=4),
    Column("MESSAGE", rank=2),
)
Standing = Literal["undelivered", "delivering", "delivered"]


@app.command()
@server_command()
async def create(
    context: Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where events are posted, http or https.")],
    event: EventsOption = None,
    name: Annotated[str | None, typer.Option(help="For people; any text.")] = None,
    batch_items: Annotated[
        bool, typer.Option("--batch-items", help="Also hear of tasks that are items of batches.")
    ] = False,
) -> ExitCode:
    """Have an address told of your tasks and batches, and print the secret that signs events, this one time."""
    made = await context.client.webhooks.create(address, event or (), name=name, batch_items=batch_items)
    return _show_secret(context, made)


@app.command()
@server_command()
async def ls(
    context: Context,
) -> ExitCode:
    """List your webhooks."""
    return await list_webhooks(context)


@app.command()
@server_command()
async def get(
    context: Context,
    webhook: WebhookArgument,
) -> ExitCode:
    """Show one webhook."""
    return _show(context, await context.client.webhooks.get(webhook))


@app.command()
@server_command()
async def update(
    context: Context,
    webhook: WebhookArgument,
    address: Annotated[str | None, typer.Option("--address", help="Another address.")] = None,
    event: EventsOption = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Hear of all events.")] = False,
    name: Annotated[str | None, typer.Option(help="For people; any text.")] = None,
    batch_items: Annotated[
        bool | None, typer.Option("--batch-items/--no-batch-items", help="Hear of items of batches.")
    ] = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Switch it on or off.")] = None,
) -> ExitCode:
    """Change a webhook; what is left out stays."""
    if event and all_events:
        raise BadInput("--event and --all-events exclude each other.")
    changed = await context.client.webhooks.update(
        webhook,
        url=address,
        events=[] if all_events else event or None,
        name=name,
        batch_items=batch_items,
        enabled=enabled,
    )
    return _show(context, changed)


@app.command()
@server_command()
async def rm(
    context: Context,
    webhook: WebhookArgument,
) -> ExitCode:
    """Remove a webhook. Events that are on their way to it are dropped."""
    await context.client.webhooks.delete(webhook)
    if context.output.as_json:
        context.output.document({"removed": webhook})
    else:
        context.output.note(f"The webhook {webhook} is removed.")
    return ExitCode.OK


@app.command()
@server_command()
async def rotate(
    context: Context,
    webhook: WebhookArgument,
    grace: Annotated[
        float | None,
        typer.Option(parser=parse_duration, metavar="TIME", help="How long the old secret signs as well: 1h; a day."),
    ] = None,
) -> ExitCode:
    """Sign with a new secret, and print it, this one time."""
    return _show_secret(context, await context.client.webhooks.rotate_secret(webhook, grace_seconds=grace))


@app.command("test")
@server_command()
async def send_test(
    context: Context,
    webhook: WebhookArgument,
) -> ExitCode:
    """Send a `webhook.test` event."""
    return _show_delivery(context, await context.client.webhooks.test(webhook))


@app.command()
@server_command()
async def deliveries(
    context: Context,
    status: Annotated[Standing, typer.Option(help="Which deliveries.")] = "undelivered",
    webhook: Annotated[str | None, typer.Option(metavar="ID", help="Only those of this webhook.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Deliveries to list at most.")] = 50,
) -> ExitCode:
    """List the events that were not delivered, or that are on their way, or that were."""
    return await list_deliveries(context, status, webhook, limit)


@app.command()
@server_command()
async def delivery(
    context: Context,
    delivery_id: DeliveryArgument,
) -> ExitCode:
    """Show one event for one webhook: how often it was tried, what went wrong, when it is tried next."""
    return _show_delivery(context, await context.client.webhooks.delivery(delivery_id))


@app.command()
@server_command()
async def replay(
    context: Context,
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="Id of the delivery.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that was not delivered.")] = False,
    webhook: Annotated[str | None, typer.Option(metavar="ID", help="With --all: only to this webhook.")] = None,
) -> ExitCode:
    """Send an event again, or all that were not delivered. Each keeps its id."""
    if (delivery_id is None) != everything:
        raise BadInput("Name one delivery, or say --all.")
    if delivery_id is not None:
        return _show_delivery(context, await context.client.webhooks.replay(delivery_id))
    replayed = await context.client.webhooks.replay_all(webhook_id=webhook)
    if context.output.as_json:
        context.output.document({"replayed": replayed})
    else:
        context.output.note(f"{replayed} events are being sent again.")
    return ExitCode.OK


async def list_webhooks(context: Context) -> ExitCode:
    """Print the webhooks."""
    found = await context.client.webhooks.list()
    if context.output.as_json:
        context.output.document({"webhooks": [one.document() for one in found]})
    elif found:
        context.output.table(_COLUMNS, [_row(one) for one in found])
    else:
        context.output.note("You have no webhooks. Make one: `outlast webhooks create ADDRESS`")
    return ExitCode.OK


async def list_deliveries(context: Context, status: str, webhook: str | None, limit: int) -> ExitCode:
    """Print deliveries."""
    async with context.client.webhooks.deliveries(status, webhook_id=webhook, limit=limit) as stream:
        found = [one async for one in stream]
    if context.output.as_json:
        context.output.document({"deliveries": [one.document() for one in found]})
    elif found:
        context.output.table(_DELIVERY_COLUMNS, [_delivery_row(one) for one in found])
    else:
        context.output.note(f"There is nothing {status}.")
    return ExitCode.OK


def _show_secret(context: Context, webhook: "Webhook") -> ExitCode:
    if context.output.as_json:
        context.output.document(webhook.document())
    else:
        context.output.text(webhook.secret or "")
        context.output.note(f"The secret of {webhook.id}. It is shown this one time: keep it now.")
    return ExitCode.OK


def _show(context: Context, webhook: "Webhook") -> ExitCode:
    if context.output.as_json:
        context.output.document(webhook.document())
        return ExitCode.OK
    lines = [f"{webhook.id}  {_state(webhook)}", f"address  {webhook.url}", f"events  {', '.join(webhook.events)}"]
    if webhook.old_secret_until is not None:
        lines.append(f"the secret before signs as well until {webhook.old_secret_until:%Y-%m-%d %H:%M} UTC")
    if webhook.backlog is not None:
        lines += _backlog_lines(webhook.backlog)
    for line in lines:
        context.output.text(line)
    return ExitCode.OK


def _show_delivery(context: Context, delivery: "Delivery") -> ExitCode:
    if context.output.as_json:
        context.output.document(delivery.document())
        return ExitCode.OK
    context.output.text(f"{delivery.id}  {delivery.type}  {delivery.status}")
    if delivery.attempts is not None:
        context.output.text(f"attempts  {delivery.attempts}")
    if delivery.message:
        context.output.text(f"message  {delivery.message}")
    if delivery.next_attempt_at is not None:
        context.output.text(f"next attempt  {delivery.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC")
    return ExitCode.OK


def _backlog_lines(backlog: "WebhookBacklog") -> list[str]:
    lines = [f"waiting  {backlog.events} event{'s' if backlog.events != 1 else ''}"]
    if backlog.failing_since is not None:
        lines.append(f"failing since  {backlog.failing_since:%Y-%m-%d %H:%M:%S} UTC: {backlog.message}")
    else:
        lines.append("its receiver takes events: they are delivered in order")
    if backlog.next_attempt_at is not None:
        lines.append(f"next attempt  {backlog.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC")
    return lines


def _state(webhook: "Webhook") -> str:
    return "on" if webhook.enabled else f"off{f': {webhook.disabled_reason}' if webhook.disabled_reason else ''}"


def _short_state(webhook: "Webhook") -> str:
    if not webhook.enabled:
        return "off"
    return "on" if webhook.backlog is None else f"on, {webhook.backlog.events} wait"


def _row(webhook: "Webhook") -> list[str]:
    return [
        webhook.id,
        _short_state(webhook),
        escape(webhook.name or "-"),
        ", ".join(webhook.events),
        escape(webhook.url),
    ]


def _delivery_row(delivery: "Delivery") -> list[str]:
    return [
        escape(delivery.id),
        delivery.type,
        escape(delivery.subject or "-"),
        f"{delivery.created_at:%Y-%m-%d %H:%M:%S}",
        escape(delivery.message or "-"),
    ]
