import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database import AnyServer
from tests.e2e.conftest import signals_reach_programs  # noqa: F401 - it is at work by being there
from tests.testing.project import Project, Role, made_role


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Not pytest's own temporary folder: under root, it is closed to the account that a server runs as."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-users-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Project:
    return Project(pytester, monkeypatch, temporary)


@pytest.fixture
def role(server: AnyServer) -> Iterator[Role]:
    with made_role(server, "CREATEDB") as role:
        yield role
