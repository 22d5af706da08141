"""The column `content` as a struct, by a schema that the reader gives: `contentFormat` and `contentSchema`.

- `content_column` has the options, and converts the column of a batch
- `json_content` and `avro_content` read one content; `ddl` reads Spark's schemas without a JVM
"""
