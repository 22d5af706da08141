"""A Spark stream that consumes a lane, in a process of its own. It delivers at least once."""

import os
import time
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.client import Client, Settings
from chaos.spark_sink import ADDRESS
from chaos.world import SCHEMA, SPARK_LANE, key_of
from lonnymq.spark import session

TRIGGER = "1 second"


class SparkStream(Client):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._indexes = {channel.name: i for i, channel in enumerate(self.world.channels)}

    def consume(self, batch: DataFrame, _: int) -> None:
        """Note what Spark delivered. It completes the messages later, so nobody knows when, or whether."""
        rows = batch.select("id", "channel", "content", "attempts").collect()
        if not rows:
            return
        call = self.journal.before(
            "work",
            keys=[key_of(bytes(row.content)) for row in rows],
            ids=[row.id for row in rows],
            channels=[self._indexes.get(row.channel, -1) for row in rows],
            attempts=[row.attempts for row in rows],
        )
        self.journal.after(call, "unknown")

    def stream(self) -> None:
        os.environ[ADDRESS] = self.settings.dsn
        spark = session("local[1]", **{"spark.sql.shuffle.partitions": "1"})
        checkpoint = Path(self.settings.folder).parent / "checkpoints" / self.settings.name
        while not self.is_stopping:
            messages = (
                spark.readStream.format("lonnymq")
                .options(
                    dsnEnv=ADDRESS,
                    schema=SCHEMA,
                    consumer=self.settings.name,
                    lanes=SPARK_LANE,
                    leaseSeconds=str(max(1, self.settings.lease_ms // 1000)),
                )
                .load()
            )
            query = (
                messages.writeStream.foreachBatch(self.consume)
                .option("checkpointLocation", str(checkpoint))
                .trigger(processingTime=TRIGGER)
                .start()
            )
            while query.isActive and not self.is_stopping:
                time.sleep(0.2)  # the stream runs in threads of its own
            query.stop()


def main() -> None:
    stream = SparkStream(Settings.from_arguments())
    stream.stream()
    stream.journal.write({"kind": "stop"})


if __name__ == "__main__":
    main()
