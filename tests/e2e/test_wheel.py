"""The wheel, in an environment with only the wheel and its dependencies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PACKAGE = CHECKOUT / "src" / "lonnymq"
# psycopg needs a libpq and lets the user choose which one. Here psycopg-binary provides it.
CORE = ("psycopg", "psycopg-binary", "psycopg-pool", "typing-extensions")
HEAVY = {"asyncpg", "django", "msgspec", "psycopg", "sqlalchemy"}
SHOW_LOADED = f"import sys; print(*sorted({HEAVY!r} & set(sys.modules)))"
IMPORT_MICROSECONDS = re.compile(r"^import time:\s*\d+ \|\s*(\d+) \| lonnymq$", re.MULTILINE)

WITHOUT_MSGSPEC = """
import importlib.util, sys
from dataclasses import dataclass
from lonnymq import Queue
from lonnymq.errors import PayloadError

assert importlib.util.find_spec("msgspec") is None

@dataclass
class Order:
    article: str

with Queue(sys.argv[1], schema="fresh") as queue:
    print(queue.install().schema)
    print(queue.enqueue({"article": "lamp"}, channel="acme", headers={"trace": 7}).result)
    print(queue.enqueue(b"as it is", channel="bluebird").result)
    for message in queue.dequeue(10, wait=10):
        print(message.channel, message.payload, queue.complete(message))
    try:
        queue.enqueue(Order("lamp"))
    except PayloadError as error:
        print(type(error).__name__)
print(*sorted({"asyncpg", "django", "sqlalchemy"} & set(sys.modules)))
"""


def output_of(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dependencies are copied from this environment, so that no package index is needed."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for name in CORE:
        for file in distribution(name).files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), packages / file)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python]
    output_of(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel)
    output_of(*pip, "check")
    return python


def test_it_contains_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = {name.partition(".dist-info/")[2] for name in archive.namelist()} - {""}
    files = [
        path for path in PACKAGE.parent.glob("*lonnymq*/**/*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert packed == {str(path.relative_to(PACKAGE.parent)) for path in files}
    assert {f"pyspark_lonnymq{kind}" for kind in ("", "_dead", "_history", "_policies")} <= {
        name.partition("/")[0] for name in packed
    }
    assert "lonnymq/py.typed" in packed
    assert len([name for name in packed if name.endswith(".sql")]) > 40
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= metadata


def test_it_works_without_any_extra(clean_python: Path, dsn: str) -> None:
    assert output_of(clean_python, "-I", "-W", "error", "-c", WITHOUT_MSGSPEC, dsn).splitlines() == [
        "fresh",
        "created",
        "created",
        "acme {'article': 'lamp'} completed",
        "bluebird b'as it is' completed",
        "MissingExtra",
        "",
    ]


def test_the_command_line_names_the_missing_extra(clean_python: Path) -> None:
    done = subprocess.run(
        [clean_python.parent / "lonnymq", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "lonnymq[cli]" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_import_loads_no_driver() -> None:
    assert output_of(sys.executable, "-I", "-c", f"import lonnymq; {SHOW_LOADED}").split() == []


def test_a_queue_loads_only_its_own_driver() -> None:
    program = f"from lonnymq import Queue; Queue('postgresql://localhost/shop'); {SHOW_LOADED}"
    assert set(output_of(sys.executable, "-I", "-c", program).split()) <= {"msgspec", "psycopg"}


def test_an_import_takes_less_than_150_ms() -> None:
    assert min(milliseconds_of_import() for _ in range(7)) < 150


def milliseconds_of_import() -> float:
    done = subprocess.run(
        [sys.executable, "-I", "-X", "importtime", "-c", "import lonnymq"],
        capture_output=True,
        text=True,
        check=True,
    )
    [microseconds] = IMPORT_MICROSECONDS.findall(done.stderr)
    return float(microseconds) / 1000
