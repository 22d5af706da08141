"""A Spark driver in a process of its own, which writes one small table of messages after the other."""

import os

from pyspark.sql import SparkSession

from chaos.client import Client, Failed, Settings
from chaos.world import KEYS_PER_PRODUCER, PATIENT_ATTEMPTS, SCHEMA, content
from lonnymq.spark import session

ROWS = 500
PARTITIONS = 2
COLUMNS = "channel string, content binary, max_attempts int"
ADDRESS = "CHAOS_DSN"  # the variable from which Spark reads the address


class SparkSink(Client):
    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        super().__init__(settings)
        self._spark = spark
        self._next_key = settings.number * KEYS_PER_PRODUCER
        self._channels = [i for i, channel in enumerate(self.world.channels) if channel.family == "fair"]
        self.made = 0

    def step(self) -> None:
        if self.made >= self.settings.quota:
            self.is_stopping = True
            return
        first, self._next_key = self._next_key, self._next_key + ROWS
        indexes = self.random.choices(self._channels, k=ROWS)
        rows = [
            (self.world.names[index], content(first + i), PATIENT_ATTEMPTS) for i, index in enumerate(indexes)
        ]
        call = self.journal.before(
            "create", first=first, channels=indexes, ats=[None] * ROWS, priorities=[0] * ROWS, keyed=False
        )
        table = self._spark.createDataFrame(rows, COLUMNS)  # in PARTITIONS, which keep the order
        try:
            table.write.format("lonnymq").options(dsnEnv=ADDRESS, schema=SCHEMA).mode("append").save()
        except Exception as error:
            self.journal.after(call, "unknown", error="Spark", made=0)
            raise Failed from error
        self.journal.after(call, "ok", results="created", made=ROWS)
        self.made += ROWS


def main() -> None:
    settings = Settings.from_arguments()
    os.environ[ADDRESS] = settings.dsn
    sink = SparkSink(settings, session(f"local[{PARTITIONS}]"))
    sink.run(sink.step)


if __name__ == "__main__":
    main()
