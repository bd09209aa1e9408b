"""`outlast webhooks`: addresses that receive events of tasks and batches, and undelivered events."""

from typing import Annotated, Literal

import typer
from rich.markup import escape

from outlast.cli.options import BadInput, time_option
from outlast.cli.runner import Context, server_command
from outlast.cli.show.output import Column
from outlast.client import Delivery, Webhook
from outlast.wording import counted

app = typer.Typer(
    name="webhooks",
    no_args_is_help=True,
    help="Send events of your tasks and batches to addresses; list undelivered events.",
)

WebhookArgument = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Id of the webhook.", show_default=False)]
EventsOption = Annotated[
    list[str] | None,
    typer.Option("--event", "-e", help="An event to send, such as task.completed; repeatable. Default: all."),
]
NameOption = Annotated[str | None, typer.Option(help="A name for people; any text.")]
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
_TIME = "%Y-%m-%d %H:%M:%S"


@server_command(app)
async def create(
    context: Context,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Address (http or https) that receives events.")],
    event: EventsOption = None,
    name: NameOption = None,
    batch_items: Annotated[
        bool, typer.Option("--batch-items", help="Also send events of tasks that are items of batches.")
    ] = False,
) -> None:
    """Send events of your tasks and batches to an address. Prints the secret that signs them, only this once."""
    _show_secret(
        context, await context.client.webhooks.create(address, event or (), name=name, batch_items=batch_items)
    )


@server_command(app)
async def ls(context: Context) -> None:
    """List your webhooks."""
    found = await context.client.webhooks.list()
    none = "You have no webhooks. Create one: `outlast webhooks create ADDRESS`"
    context.output.listing("webhooks", found, _COLUMNS, _row, none)


@server_command(app)
async def get(context: Context, webhook: WebhookArgument) -> None:
    """Show a webhook."""
    _show(context, await context.client.webhooks.get(webhook))


@server_command(app)
async def update(
    context: Context,
    webhook: WebhookArgument,
    address: Annotated[str | None, typer.Option("--address", help="Another address.")] = None,
    event: EventsOption = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="Send all events.")] = False,
    name: NameOption = None,
    batch_items: Annotated[
        bool | None, typer.Option("--batch-items/--no-batch-items", help="Send events of items of batches.")
    ] = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Switch it on or off.")] = None,
) -> None:
    """Change the given settings of a webhook; the others stay."""
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
    _show(context, changed)


@server_command(app)
async def rm(context: Context, webhook: WebhookArgument) -> None:
    """Delete a webhook. Its undelivered events are dropped."""
    await context.client.webhooks.delete(webhook)
    context.output.done({"removed": webhook}, f"The webhook {webhook} is deleted.")


@server_command(app)
async def rotate(
    context: Context,
    webhook: WebhookArgument,
    grace: Annotated[float | None, time_option("How long the old secret also signs: 1h. Default: a day.")] = None,
) -> None:
    """Create another secret that signs events, and print it, only this once."""
    _show_secret(context, await context.client.webhooks.rotate_secret(webhook, grace_seconds=grace))


@server_command(app, "test")
async def send_test(context: Context, webhook: WebhookArgument) -> None:
    """Send a `webhook.test` event."""
    _show_delivery(context, await context.client.webhooks.test(webhook))


@server_command(app)
async def deliveries(
    context: Context,
    status: Annotated[Standing, typer.Option(help="Only deliveries with this status.")] = "undelivered",
    webhook: Annotated[str | None, typer.Option(metavar="ID", help="Only those to this webhook.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of deliveries.")] = 50,
) -> None:
    """List events that were not delivered, are being delivered, or were delivered."""
    async with context.client.webhooks.deliveries(status, webhook_id=webhook, limit=limit) as listed:
        found = [one async for one in listed]
    context.output.listing("deliveries", found, _DELIVERY_COLUMNS, _delivery_row, f"No {status} events.")


@server_command(app)
async def delivery(
    context: Context,
    delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="Id of the delivery.", show_default=False)],
) -> None:
    """Show one event for one webhook: its attempts, the latest error, and the time of the next attempt."""
    _show_delivery(context, await context.client.webhooks.delivery(delivery_id))


@server_command(app)
async def replay(
    context: Context,
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="[DELIVERY]", help="Id of the delivery.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All undelivered events.")] = False,
    webhook: Annotated[str | None, typer.Option(metavar="ID", help="With --all: only those to this webhook.")] = None,
) -> None:
    """Send an event again, or all undelivered events. Each keeps its id."""
    if (delivery_id is None) != everything:
        raise BadInput("Give a DELIVERY, or --all.")
    if delivery_id is not None:
        _show_delivery(context, await context.client.webhooks.replay(delivery_id))
    else:
        replayed = await context.client.webhooks.replay_all(webhook_id=webhook)
        context.output.done({"replayed": replayed}, f"{counted(replayed, 'event')} will be sent again.")


def _show_secret(context: Context, webhook: Webhook) -> None:
    if context.output.as_json:
        context.output.document(webhook.document())
    else:
        context.output.text(webhook.secret or "")
        context.output.note(f"The secret of {webhook.id}. It is shown only this once: store it now.")


def _show(context: Context, webhook: Webhook) -> None:
    if context.output.as_json:
        context.output.document(webhook.document())
        return
    reason = f": {webhook.disabled_reason}" if webhook.disabled_reason else ""
    state = "on" if webhook.enabled else f"off{reason}"
    lines = [f"{webhook.id}  {state}", f"address  {webhook.url}", f"events  {', '.join(webhook.events)}"]
    if webhook.old_secret_until is not None:
        lines.append(f"the old secret also signs until {webhook.old_secret_until:%Y-%m-%d %H:%M} UTC")
    if (backlog := webhook.backlog) is not None:
        lines.append(f"waiting  {counted(backlog.events, 'event')}")
        if backlog.failing_since is not None:
            lines.append(f"failing since  {backlog.failing_since:{_TIME}} UTC: {backlog.message}")
        else:
            lines.append("the receiver accepts events: they are delivered in order")
        if backlog.next_attempt_at is not None:
            lines.append(f"next attempt  {backlog.next_attempt_at:{_TIME}} UTC")
    context.output.text("\n".join(lines))


def _show_delivery(context: Context, delivery: Delivery) -> None:
    if context.output.as_json:
        context.output.document(delivery.document())
        return
    lines = [f"{delivery.id}  {delivery.type}  {delivery.status}"]
    lines += [f"attempts  {delivery.attempts}"] if delivery.attempts is not None else []
    lines += [f"message  {delivery.message}"] if delivery.message else []
    lines += [f"next attempt  {delivery.next_attempt_at:{_TIME}} UTC"] if delivery.next_attempt_at is not None else []
    context.output.text("\n".join(lines))


def _row(webhook: Webhook) -> list[str]:
    on = "on" if webhook.backlog is None else f"on, {webhook.backlog.events} wait"
    state = on if webhook.enabled else "off"
    return [webhook.id, state, escape(webhook.name or "-"), ", ".join(webhook.events), escape(webhook.url)]


def _delivery_row(delivery: Delivery) -> list[str]:
    return [
        escape(delivery.id),
        delivery.type,
        escape(delivery.subject or "-"),
        f"{delivery.created_at:{_TIME}}",
        escape(delivery.message or "-"),
    ]
