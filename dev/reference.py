"""A griffe extension that decides what the API reference shows of the package.

The site uses it, and so does the test that the reference is complete.
"""

from __future__ import annotations

import copy
import re
from typing import cast

import griffe

CALLERS = ("client.queue", "client.async_queue")
INTERNAL = {  # public by name, but called only by other modules of the package
    "AnyJob": {"make_current"},
    "App": {"handler_of", "send", "send_async"},
    "AsyncBatch": {"perform"},
    "AsyncCaller": {"perform"},
    "AsyncChannel": {"perform"},
    "AsyncDead": {"perform"},
    "AsyncQueue": {"perform"},
    "Batch": {"perform"},
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
PROMPT = re.compile(r"^>>> .*(\n.+)*", re.MULTILINE)


class ReferenceExtension(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Put examples with >>> into code blocks: Markdown would read > as a quotation."""
        if obj.docstring is not None:
            obj.docstring.value = PROMPT.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        if pkg.name == "lonnymq":
            _show_calls_as_methods(pkg)

    def on_class(self, *, cls: griffe.Class, **_: object) -> None:
        for name in INTERNAL.get(cls.name, set()) & set(cls.members):  # Django has classes named Command too
            cls.del_member(name)
        if cls.path.startswith("lonnymq.commands."):
            _show_as_command(cls)


def _show_calls_as_methods(package: griffe.Module) -> None:
    """Show the calls of a queue as methods: in the code they are attributes made from functions."""
    for module in CALLERS:
        for caller in package[module].classes.values():
            for base in caller.mro():
                for name, attribute in base.members.items():
                    if attribute.is_attribute and isinstance(attribute.value, griffe.ExprCall):
                        caller.set_member(name, _method(package, caller, name, attribute.value))


def _method(
    package: griffe.Module, caller: griffe.Class, name: str, call: griffe.ExprCall
) -> griffe.Function:
    function = package[cast("griffe.Expr", call.arguments[0]).canonical_path.removeprefix("lonnymq.")]
    is_named = call.function.canonical_name == "NamedCall"  # adds the caller's name to the arguments
    parameters = [griffe.Parameter("self"), *list(function.parameters)[is_named:]]
    method = griffe.Function(
        name,
        parameters=griffe.Parameters(*parameters),
        returns=function.returns.slice,
        docstring=copy.copy(function.docstring),
        lineno=function.lineno,
        endlineno=function.endlineno,
        parent=caller,
    )
    if caller.name.startswith("Async"):
        method.labels.add("async")
    return method


def _show_as_command(command: griffe.Class) -> None:
    """Use the module's docstring for the command, and leave out how it is sent and decoded."""
    for name, member in list(command.members.items()):
        if member.is_function and name != "__init__":
            command.del_member(name)
    if command.docstring is None and command.name == command.module.name.title().replace("_", ""):
        command.docstring = copy.copy(command.module.docstring)
