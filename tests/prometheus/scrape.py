"""Reads metrics as Prometheus does."""

import urllib.request

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return samples(answer.read().decode())


def collected(registry: CollectorRegistry) -> Samples:
    return samples(generate_latest(registry).decode())


def samples(text: str) -> Samples:
    """The values by name and labels, without the label of the queue."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset((name, value) for name, value in sample.labels.items() if name != "queue")
            assert sample.labels["queue"]
            found[sample.name, labels] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def names(found: Samples) -> set[str]:
    return {name for name, _ in found}
