"""What the reference of the package shows of it, for the site and for the test that all of it is there."""

from __future__ import annotations

import copy
import re
from typing import cast

import griffe

CALLERS = ("client.queue", "client.async_queue")
INNER = {  # what the package's own modules call on each other's classes
    "AnyJob": {"begin"},
    "App": {"handler_of", "send"},
    "AsyncCaller": {"perform"},
    "AsyncChannel": {"perform"},
    "AsyncDead": {"perform"},
    "AsyncQueue": {"perform"},
    "QueueBase": {"copy_arguments"},
    "Caller": {"perform"},
    "Channel": {"perform"},
    "Command": {"decode", "is_harmless", "is_repeatable", "may_repeat", "statement", "tells_all"},
    "Dead": {"perform"},
    "Drained": {"note"},
    "Enqueued": {"plus"},
    "Queue": {"perform"},
    "Task": {"call_for", "message_of", "scheduled_message"},
}
SESSION = re.compile(r"^>>> .*(\n.+)*", re.MULTILINE)


class Shown(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """What is typed at a prompt would be quoted text in Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = SESSION.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        if pkg.name == "lonnymq":
            _show_calls_as_methods(pkg)

    def on_class(self, *, cls: griffe.Class, **_: object) -> None:
        for name in INNER.get(cls.name, ()):
            cls.del_member(name)
        if cls.path.startswith("lonnymq.commands."):
            _show_as_command(cls)


def _show_calls_as_methods(package: griffe.Module) -> None:
    """In the code a call of a queue is an attribute, made of the function that describes it."""
    for module in CALLERS:
        for caller in package[module].classes.values():
            for base in caller.mro():
                for name, attribute in base.members.items():
                    if attribute.is_attribute and isinstance(attribute.value, griffe.ExprCall):
                        caller.set_member(name, _method(package, caller, name, attribute.value))


def _method(
    package: griffe.Module, caller: griffe.Class, name: str, call: griffe.ExprCall
) -> griffe.Function:
    described = package[cast("griffe.Expr", call.arguments[0]).canonical_path.removeprefix("lonnymq.")]
    is_named = call.function.canonical_name == "NamedCall"  # which gives the caller's name to the function
    parameters = [griffe.Parameter("self"), *list(described.parameters)[is_named:]]
    method = griffe.Function(
        name,
        parameters=griffe.Parameters(*parameters),
        returns=described.returns.slice,
        docstring=copy.copy(described.docstring),
        lineno=described.lineno,
        endlineno=described.endlineno,
        parent=caller,
    )
    if caller.name.startswith("Async"):
        method.labels.add("async")
    return method


def _show_as_command(command: griffe.Class) -> None:
    """Its module's docstring is its own too; how it is sent and read is no part of the reference."""
    for name, member in list(command.members.items()):
        if member.is_function and name != "__init__":
            command.del_member(name)
    if command.docstring is None and command.name == command.module.name.title().replace("_", ""):
        command.docstring = copy.copy(command.module.docstring)
