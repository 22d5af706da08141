"""Downloads source packages through pip, with their hashes checked, and unpacks them."""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from dev.suites.description import Source, SuiteError

# pip asks the package's build system for metadata before it saves a source package, which would download and
# run that build system: up to a minute per package. Instead, pip finds these modules in place of the build
# systems. They return the metadata that the package already contains.
BUILD_SYSTEMS = ("hatchling/build.py", "setuptools/build_meta.py")
BUILD_SYSTEM = """\
import email
import sys
from pathlib import Path

__legacy__ = sys.modules[__name__]


def prepare_metadata_for_build_wheel(folder, config_settings=None):
    content = Path("PKG-INFO").read_bytes()
    fields = email.message_from_bytes(content)
    made = Path(folder, f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info")
    made.mkdir()
    Path(made, "METADATA").write_bytes(content)
    return made.name
"""
DOWNLOAD = [
    "--no-deps",
    "--no-binary=:all:",
    "--no-build-isolation",
    "--use-pep517",
    "--ignore-requires-python",
]


def unpacked(source: Source, folder: Path) -> Path:
    """The folder with the package's files. It is there only if all of them are."""
    target = folder / source.sha256 / source.folder
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        archive = _download(source, Path(temporary))
        files = Path(temporary) / "unpacked"
        with tarfile.open(archive) as packed:
            # Python 3.11.2, which Debian 12 has, does not know the filter. The hash was checked.
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            packed.extractall(files, **safely)  # type: ignore[arg-type]  # noqa: S202
        (top,) = files.iterdir()
        top.rename(target)
    return target


def _download(source: Source, folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(
        f"{source.package}=={source.version} --hash=sha256:{source.sha256}\n", encoding="utf-8"
    )
    for name in BUILD_SYSTEMS:
        path = folder / "build-systems" / name
        path.parent.mkdir(parents=True)
        (path.parent / "__init__.py").touch()
        path.write_text(BUILD_SYSTEM, encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--no-input",
        *DOWNLOAD,
    ]
    command += ["--require-hashes", "--dest", folder / "archive", "--requirement", requirements]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(folder / "build-systems")},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise SuiteError(
            f"could not download the source package of {source.package} {source.version}: pip printed\n"
            f"{done.stderr.strip()}"
        )
    (archive,) = (folder / "archive").iterdir()
    return archive
