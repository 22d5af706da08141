"""Imports the modules that define the tasks of an app."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator

from lonnymq.client.produce import check_many
from lonnymq.errors import InvalidArgument

ALL = ".*"


class TaskModules:
    """The names of modules. They are imported when a worker starts, and not when they are named: a module
    with tasks imports the module that defines the app, which must be complete by then.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: list[str] = []
        self.add(names)

    def add(self, names: Iterable[str]) -> None:
        check_many(names, "names of modules")
        for name in names:
            if not _is_module_name(name):
                raise InvalidArgument(
                    f"include: {name!r} does not name a module", 'give a name such as "shop.tasks"'
                )
            self._names.append(name)

    def load(self) -> None:
        """Import them. An error in a module is raised as it is."""
        for name in self._names:
            for module in [name] if not name.endswith(ALL) else _modules_of(name.removesuffix(ALL)):
                _import(module)


def _is_module_name(name: object) -> bool:
    """Callers without a type checker may pass anything."""
    return isinstance(name, str) and all(part.isidentifier() for part in name.removesuffix(ALL).split("."))


def _modules_of(package_name: str) -> Iterator[str]:
    package = _import(package_name)
    if not hasattr(package, "__path__"):
        raise InvalidArgument(
            f"include: {package_name!r} is a module and not a package", f"leave out {ALL!r}"
        )
    yield from sorted(each.name for each in pkgutil.iter_modules(package.__path__, f"{package_name}."))


def _import(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists; one that it imports does not
        raise InvalidArgument(
            f"include: there is no module {name!r}", "check the name, and that Python finds it"
        ) from None
