"""Finds the format of a lake: Delta or Iceberg. A lake keeps the format with which it was created."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyarrow import fs

from lonnymq.errors import InvalidArgument
from lonnymq.spark.lake.lake_table import CATALOG_FILE, Lake, LakeUnsuitable, absolute_path
from lonnymq.spark.lake.parquet_files import filesystem

MARKERS = {"_delta_log": "delta", "metadata": "iceberg"}
"""The folder in a table that only tables of this format have."""
CATALOG_VARIABLE = "LONNYMQ_ICEBERG_CATALOG"
CatalogOption = str | Mapping[str, str] | None


@contextmanager
def open_lake(
    lake: str, table_format: str | None = None, catalog: CatalogOption = None, *, must_exist: bool = True
) -> Iterator[Lake]:
    """Open a lake in its format. A new one gets the format that is given, or Delta."""
    path = absolute_path(lake)
    if table_format not in {None, *MARKERS.values()}:
        raise InvalidArgument(f"{table_format!r} is not a format of a lake", "use delta or iceberg")
    found = _format_of(path)
    if found is None and must_exist:
        raise LakeUnsuitable(f"there is no archive in {path}", "give the folder of an archive")
    if found is not None and table_format not in {None, found}:
        raise LakeUnsuitable(
            f"the tables in {path} have the format {found}, not {table_format}",
            "a lake has one format: leave it out, or archive into another folder",
        )
    opened = _opened(path, found or table_format or "delta", catalog)
    try:
        yield opened
    finally:
        opened.close()


def _opened(path: str, table_format: str, catalog: CatalogOption) -> Lake:
    if table_format == "delta":
        from lonnymq.spark.lake.delta_table import DeltaLake

        return DeltaLake(path)
    from lonnymq.spark.lake.iceberg_table import IcebergLake

    return IcebergLake(path, catalog or os.environ.get(CATALOG_VARIABLE))


def _format_of(path: str) -> str | None:
    target, folder = filesystem(path)
    tables = target.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    folders = [one.path for one in tables if one.type == fs.FileType.Directory]
    for marker, table_format in MARKERS.items():
        found = target.get_file_info([f"{one}/{marker}" for one in folders]) if folders else []
        if any(info.type == fs.FileType.Directory for info in found):
            return table_format
    return "iceberg" if any(one.base_name == CATALOG_FILE for one in tables) else None
