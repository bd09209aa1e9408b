"""`python -m tests.histories.commands`: list what workflow code asks Temporal for, function by function, in order.

Recorded histories show only the paths that they took. The listing has all of them: every call in `workflows/` that is
awaited, that adds to a history by itself, or that calls a function which does; read from the source. It is written to
`unreleased/commands.txt`, and a release keeps its own. Code in `if workflow.patched("ID"):` is marked `[ID]`, code in
its `else` `[before ID]`.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.paths import ROOT

HISTORIES = Path(__file__).parent
UNRELEASED = HISTORIES / "unreleased"
LISTING = "commands.txt"
WORKFLOWS = ROOT / "workflows"
_ASKING = frozenset(
    {
        "continue_as_new",
        "deprecate_patch",
        "patched",
        "random",
        "start_activity",
        "start_activity_method",
        "start_child_workflow",
        "start_local_activity",
        "start_local_activity_method",
        "upsert_memo",
        "upsert_search_attributes",
        "uuid4",
    }
)
"""Functions of `temporalio.workflow` that count although nobody awaits them."""
_NAMED_FIRST = re.compile(r"workflow\.((execute|start)_\w+|upsert_\w+|patched|deprecate_patch)")
"""Those whose first argument names what is asked for."""
_MARK = re.compile(r" \[(before )?([^\]]+)\]$")

Listing = dict[str, list[str]]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def listing(root: Path = WORKFLOWS) -> Listing:
    """What each function asks for, by `path:Class.function`; those that ask for nothing only if Temporal calls them."""
    functions = {
        f"{path.relative_to(root)}:{name}": function
        for path in sorted(root.rglob("*.py"))
        for name, function in _functions(ast.parse(path.read_text()), "")
    }
    asking: frozenset[str] = frozenset()
    while True:
        found = {name: list(_asked(function.body, "", asking)) for name, function in functions.items()}
        plain = {one.name for name, one in functions.items() if found[name] and isinstance(one, ast.FunctionDef)}
        if plain == asking:
            return {name: lines for name, lines in found.items() if lines or _is_called_by_temporal(functions[name])}
        asking = frozenset(plain)


def changed(today: Listing, released: Listing) -> list[str]:
    """Functions of a release that now do something else in its histories: a change that no patch gates."""
    ungated = without_patches(today, released)
    return [name for name, lines in released.items() if ungated.get(name) != lines]


def without_patches(asked: Listing, known: Listing) -> Listing:
    """What the code does in a history that is older than its patches, those apart that `known` has already."""
    there = {match[2] for lines in known.values() for line in lines if (match := _MARK.search(line))}
    return {name: list(_before(lines, there)) for name, lines in asked.items()}


def _before(lines: list[str], known: set[str]) -> Iterator[str]:
    for line in lines:
        match = _MARK.search(line)
        if match is None or match[2] in known:
            yield line
        elif match[1]:
            yield line.removesuffix(match[0])


def written(asked: Listing) -> str:
    """The listing as text."""
    return "\n".join("\n".join([name, *(f"    {line}" for line in lines), ""]) for name, lines in asked.items())


def read(folder: Path) -> Listing:
    """The listing that a folder of histories has."""
    blocks = (folder / LISTING).read_text().split("\n\n")
    parts = [block.strip("\n").split("\n") for block in blocks]
    return {name: [line.strip() for line in lines] for name, *lines in parts}


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
            yield from _functions(child, f"{prefix}{child.name}.")


def _is_called_by_temporal(function: Function) -> bool:
    return any(ast.unparse(decorator).startswith("workflow.") for decorator in function.decorator_list)


def _asked(nodes: Sequence[ast.AST], mark: str, asking: frozenset[str]) -> Iterator[str]:
    for node in nodes:
        yield from _asked_by(node, mark, asking)


def _asked_by(node: ast.AST, mark: str, asking: frozenset[str]) -> Iterator[str]:
    """In the order in which Python evaluates it: arguments before their call."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    patch = _patch_of(node)
    if isinstance(node, ast.If) and patch is not None:
        yield from _asked(node.body, f" [{patch}]", asking)
        yield from _asked(node.orelse, f" [before {patch}]", asking)
        return
    awaited = isinstance(node, ast.Await) and isinstance(node.value, ast.Call)
    inner = node.value if isinstance(node, ast.Await) and awaited else node
    yield from _asked(list(ast.iter_child_nodes(inner)), mark, asking)
    if isinstance(inner, ast.Call) and (awaited or _asks_by_itself(inner, asking)):
        yield _described(inner) + mark


def _patch_of(node: ast.AST) -> str | None:
    test = node.test if isinstance(node, ast.If) else None
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "workflow.patched":
        return str(ast.literal_eval(test.args[0]))
    return None


def _asks_by_itself(call: ast.Call, asking: frozenset[str]) -> bool:
    name = ast.unparse(call.func)
    return name in {f"workflow.{asked}" for asked in _ASKING} or name.rpartition(".")[2] in asking


def _described(call: ast.Call) -> str:
    """The function, and of one of Temporal's also what decides on the command: an activity, keys, the task queue."""
    name = ast.unparse(call.func)
    what: Sequence[ast.AST | None] = ()
    if call.args and (_NAMED_FIRST.fullmatch(name) or name.endswith(".signal")):
        what = call.args[0].keys if isinstance(call.args[0], ast.Dict) else call.args[:1]
    arguments = f"({', '.join(ast.unparse(part) for part in what if part is not None)})" if what else ""
    queue = next((f" on {ast.unparse(word.value)}" for word in call.keywords if word.arg == "task_queue"), "")
    return " ".join(f"{name}{arguments}{queue}".split())


def main() -> None:
    """Write the listing of today's code."""
    (UNRELEASED / LISTING).write_text(written(listing()))


if __name__ == "__main__":
    main()
