"""The part that the formats of history, dead letters and policies share: options, columns and readers."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from lonnymq.errors import InvalidArgument
from lonnymq.spark.changes.batch_reader import BatchReader
from lonnymq.spark.changes.change_view import ChangeView
from lonnymq.spark.changes.read_options import ReadOptions, known_options
from lonnymq.spark.changes.stream_reader import StreamReader
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.source_options import SourceOptions


class ChangeSource(DataSource):
    def change_view(self, schema: str) -> ChangeView:
        """The view in this schema, with all columns."""
        raise NotImplementedError

    def view(self) -> ChangeView:
        """With the columns that the options choose."""
        view = self.change_view(QueueAddress.of(self.options).schema)
        options = SourceOptions(self.options, known_options(view))
        return replace(view, columns=view.columns.chosen(options))

    def schema(self) -> StructType:
        self._read_options()  # so that a wrong option is refused by load()
        return self.view().columns.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._checked(schema), self._read_options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(self._checked(schema), self._read_options())

    def _read_options(self) -> ReadOptions:
        return ReadOptions.of(self.options, self.view())

    def _checked(self, schema: StructType) -> ChangeView:
        view = self.view()
        if schema.simpleString() != view.columns.schema().simpleString():
            raise InvalidArgument(
                f"the columns of {self.name()} are fixed", "leave out .schema(...), and select columns"
            )
        return view
