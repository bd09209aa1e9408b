"""The help of commands, whose docstrings are wrapped for the source and not for a terminal."""

import inspect

import typer


def with_flowing_help(app: typer.Typer) -> typer.Typer:
    """`app`, whose commands' help has a line for each paragraph: a terminal wraps it at its own width."""
    for command in app.registered_commands:
        command.help = flowing(command.help or inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_flowing_help(group.typer_instance)
    callback = app.registered_callback
    if callback is not None and not isinstance(app.info.help, str):
        callback.help = flowing(inspect.getdoc(callback.callback) or "")
    return app


def flowing(text: str) -> str:
    """`text` without the line breaks inside paragraphs. Paragraphs with indented lines, such as examples, are kept."""
    return "\n\n".join(
        paragraph if "\n " in paragraph else paragraph.replace("\n", " ")
        for paragraph in inspect.cleandoc(text).split("\n\n")
    )
