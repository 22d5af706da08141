"""Modules that define the tasks of an app, imported when a worker starts."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq import App, Queue, Worker
from lonnymq.errors import InvalidArgument, InvalidField
from lonnymq.testing import drain

TASKS = """
from lonnymq_test_shop.main import app

@app.task
def {name}() -> None: ...
"""
MAIN = """
from lonnymq import App, Queue

queue = Queue("host=/nowhere dbname=nothing")
app = App(queue, include=["lonnymq_test_shop.mails", "lonnymq_test_shop.jobs.*"])
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "lonnymq_test_shop"
    (folder / "jobs").mkdir(parents=True)
    for name, text in {
        "__init__.py": "",
        "main.py": MAIN,
        "mails.py": TASKS.format(name="mail"),
        "broken.py": "import not_installed_anywhere",
        "jobs/__init__.py": "",
        "jobs/one.py": TASKS.format(name="one"),
        "jobs/two.py": TASKS.format(name="two"),
    }.items():
        (folder / name).write_text(text)
    yield folder
    for name in [name for name in sys.modules if name.startswith("lonnymq_test_shop")]:
        del sys.modules[name]


def shop() -> App:
    from lonnymq_test_shop.main import app  # type: ignore[import-not-found]

    assert isinstance(app, App)
    return app


def test_the_modules_may_import_the_app(package: Path) -> None:
    app = shop()
    assert app.tasks == {}, "the module of the app is complete before they are imported"
    app.load_tasks()
    assert sorted(app.tasks) == ["mail", "one", "two"]
    app.load_tasks()
    assert sorted(app.tasks) == ["mail", "one", "two"]


def test_including_more_modules(package: Path, queue: Queue) -> None:
    app = App(queue)
    app.include("lonnymq_test_shop.jobs.one")
    app.include()
    with pytest.raises(InvalidArgument, match="the app has no tasks"):
        drain(app)  # the module adds its task to another app
    assert "lonnymq_test_shop.jobs.one" in sys.modules


@pytest.mark.parametrize("name", ["", "shop/tasks", ".tasks", "shop.", "*", 5])
def test_names_that_are_not_modules(queue: Queue, name: str) -> None:
    with pytest.raises(InvalidArgument, match="does not name a module"):
        App(queue, include=[name])


def test_one_name_instead_of_a_list(queue: Queue) -> None:
    with pytest.raises(InvalidField, match="is not a list of names of modules"):
        App(queue, include="shop.tasks")


def test_modules_that_cannot_be_imported(package: Path, queue: Queue) -> None:
    for name, says in [
        ("lonnymq_test_shop.lost", "there is no module 'lonnymq_test_shop.lost'"),
        ("lonnymq_test_shop.lost.*", "there is no module 'lonnymq_test_shop.lost'"),
        ("lonnymq_test_shop.mails.*", "is a module and not a package"),
    ]:
        with pytest.raises(InvalidArgument, match=says):
            App(queue, include=[name]).load_tasks()
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        App(queue, include=["lonnymq_test_shop.broken"]).load_tasks()


def test_a_worker_without_tasks_refuses_to_start(queue: Queue) -> None:
    with pytest.raises(InvalidArgument, match="the app has no tasks"):
        Worker(App(queue)).run()
