"""The time that a report covers, divided into buckets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Times are in milliseconds. The last bucket can be shorter than the others."""

    began_ms: int
    ended_ms: int
    bucket_ms: int

    @property
    def seconds(self) -> float:
        return (self.ended_ms - self.began_ms) / 1000

    @property
    def buckets(self) -> int:
        return (self.ended_ms - self.began_ms) // self.bucket_ms + 1

    def start_of(self, bucket: int) -> int:
        return self.began_ms + bucket * self.bucket_ms

    def end_of(self, bucket: int) -> int:
        """The end of a bucket, or of the report; the time of the report includes its last millisecond."""
        return min(self.start_of(bucket + 1), self.ended_ms + 1)
