import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database import AnyServer
from tests.e2e.conftest import signals_reach_programs  # noqa: F401 - a fixture that is used automatically
from tests.testing.project import Project, Role, created_role


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A temporary folder that the server's account can reach. For root, pytest's own is closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="lonnymq-users-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Project:
    return Project(pytester, monkeypatch, temporary)


@pytest.fixture
def role(server: AnyServer) -> Iterator[Role]:
    with created_role(server, "CREATEDB") as role:
        yield role
