"""The tools of docs/writing-a-tool.md, as they are. `outlast up --tools-from docs.examples.hello_tools` serves them."""

from typing import Literal

from pydantic import Field

from outlast import Arguments, CallContext, Category, ClientPhase, Reply, plain, tool


class Hello(Arguments):
    """Whom to greet."""

    name: str = Field(default="world", max_length=100)


@plain
async def hello(args: Hello) -> str:
    """Plain Python: no Temporal in sight, and still the call survives the death of the worker."""
    return f"Hello, {args.name}!"


HELLO_WORLD = tool("hello_world").category(Category.DEV).describe("Greets.").args(Hello).server(hello).build()


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


class Guests(Arguments):
    """Whom to greet, one after the other."""

    names: tuple[str, ...] = Field(min_length=1, max_length=100)


@plain
async def greet_all(args: Guests, *, context: CallContext) -> str:
    """The context says who calls, and takes progress."""
    for done, name in enumerate(args.names):
        context.progress(done, total=len(args.names), message=f"Greeting {name}")
    return f"{context.caller_id} greets {', '.join(args.names)}."


GREET_ALL = tool("greet_all").category(Category.DEV).describe("Greets many.").args(Guests).server(greet_all).build()


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

TOOLS = [HELLO_WORLD, SAY_MESSAGE, GREET_ALL, PICK_COLOUR]
