"""The tools of docs/writing-a-tool.md, as they are. `outlast up --tools-from docs.examples.hello_tools` serves them."""

import asyncio
from typing import Annotated, Literal

import httpx
from pydantic import BaseModel, Field, SecretStr

from outlast import Arguments, Category, ClientPhase, ErrorCategory, Reply, ToolContext, ToolFailure, plain, tool

WEATHER_URL = "https://weather.example"


@tool
def hello_world(name: Annotated[str, Field(max_length=100)] = "world") -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


class Forecast(BaseModel):
    """The weather of some days."""

    city: str
    degrees: list[int]


@tool(retries=5, timeout=30, read_only=True)
async def forecast(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> Forecast:
    """Weather forecast for a city.

    Args:
        city: Name of the city.
        days: Number of days.
    """
    async with httpx.AsyncClient(base_url=WEATHER_URL) as http:
        response = await http.get("/forecast", params={"city": city, "days": days})
    return Forecast.model_validate(response.raise_for_status().json())


@tool(approval=lambda args: args.amount > 100, destructive=True, retries=0)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"Refunded {amount:.2f} for {order}."


ORDERS = {"1001": "shipped"}


@tool
async def order_status(order: str) -> str:
    """State of an order."""
    if order not in ORDERS:
        raise ToolFailure.of(ErrorCategory.NOT_FOUND, f"There is no order {order!r}.", hint="Ask for its number.")
    return ORDERS[order]


BANK_URL = "https://bank.example"


async def read_balance(account: str, key: SecretStr) -> float:
    """Return the balance of an account."""
    async with httpx.AsyncClient(base_url=BANK_URL, auth=("api", key.get_secret_value())) as http:
        response = await http.get(f"/accounts/{account}")
    return response.raise_for_status().json()["balance"]


@tool(secrets=["BANK_KEY"], read_only=True)
async def balance(account: str, ctx: ToolContext) -> float:
    """Balance of an account."""
    return await ctx.step(read_balance, account, ctx.secret("BANK_KEY"))


SHOP_URL = "https://shop.example"


async def reserve(item: str) -> str:
    """Take an item from the stock, and return the reservation's number."""
    async with httpx.AsyncClient(base_url=SHOP_URL) as http:
        response = await http.post("/reservations", json={"item": item})
    return response.raise_for_status().json()["number"]


async def charge(card: str, amount: float, idempotency_key: str) -> str:
    """Charge a card, and return the receipt's number."""
    async with httpx.AsyncClient(base_url=SHOP_URL) as http:
        response = await http.post(
            "/charges", json={"card": card, "amount": amount}, headers={"Idempotency-Key": idempotency_key}
        )
    return response.raise_for_status().json()["receipt"]


@tool
async def buy(item: str, card: str, amount: float, ctx: ToolContext) -> str:
    """Buy an item."""
    reservation = await ctx.step(reserve, item)
    if amount > 100:
        await ctx.approve(f"Pay {amount:.2f} for {item}?", {"reservation": reservation})
    receipt = await ctx.step(charge, card, amount, idempotency_key=ctx.key("charge"))
    return f"Bought {item}: receipt {receipt}."


@tool
async def buy_all(items: list[str], card: str, amount: float, ctx: ToolContext) -> list[str]:
    """Buy several items at the same time."""
    purchases = [ctx.call(buy, item=item, card=card, amount=amount) for item in items]
    return list(await asyncio.gather(*purchases))


class Message(Arguments):
    """What to say."""

    text: str = Field(min_length=1, max_length=500)
    tone: Literal["calm", "loud"] = "calm"


class Said(Arguments):
    """What was said, and how."""

    said: str
    letters: int


@plain(attempts=1)
async def say(args: Message) -> Said:
    """A model as the answer is text for the agent and data for programs."""
    text = args.text.upper() if args.tone == "loud" else args.text
    return Said(said=text, letters=len(text))


SAY_MESSAGE = (
    tool("say_message")
    .category(Category.DEV)
    .describe("Says a message, once somebody has approved it when it is loud.")
    .args(Message)
    .output(Said)
    .approval(when=lambda args: args.tone == "loud", message=lambda args: f"Shout {args.text!r}?")
    .server(say)
    .build()
)


@tool
async def greet_all(names: Annotated[list[str], Field(min_length=1, max_length=100)], call: ToolContext) -> str:
    """Greet some people, one after the other."""
    for done, name in enumerate(names):
        call.progress(done, total=len(names), message=f"Greeting {name}")
    return f"{call.caller_id} greets {', '.join(names)}."


@tool(version=2)
async def choose_seat(train: str, wagon: int, ctx: ToolContext) -> str:
    """Have the user choose a seat."""
    return f"{train}, wagon {wagon}: {await ctx.ask('Which seat?')}"


@choose_seat.version(1)
async def choose_seat_1(train: str, ctx: ToolContext) -> str:
    """Have the user choose a seat, in any wagon."""
    return f"{train}: {await ctx.ask('Which seat?')}"


class Palette(Arguments):
    """Among which colours to choose."""

    colours: tuple[str, ...] = Field(min_length=2, max_length=10)


class Colour(Arguments):
    """The user's choice."""

    colour: str


@plain
async def chosen(args: Palette, reply: Reply[Colour]) -> str:
    """The client is never the last word: the server checks what it says."""
    known = reply.answer.colour in args.colours
    return f"The user likes {reply.answer.colour}." if known else "The user wants none of these."


PICK_COLOUR = (
    tool("pick_colour")
    .category(Category.DEV)
    .describe("Has the user pick a colour.")
    .args(Palette)
    .authority("client")
    .client(ClientPhase(name="pick", message="Which colour?", answer=Colour, parameters=Palette))
    .server(chosen)
    .build()
)

TOOLS = [SAY_MESSAGE, PICK_COLOUR]
