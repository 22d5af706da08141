"""The dashboard and the alerts ask for metrics that exist, and the page lists all of them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from prometheus_client import CollectorRegistry

from lonnymq import Delivery, Queue
from lonnymq.prometheus import instrument
from lonnymq.prometheus.queue_metrics import QueueMetrics
from lonnymq.prometheus.worker_metrics import WorkerMetrics

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD = DOCS / "assets" / "grafana-dashboard.json"
ALERTS = DOCS / "assets" / "prometheus-alerts.yml"
NAME = re.compile(r"\blonnymq_\w+")
SELECTOR = re.compile(r"\b(lonnymq_\w+)(?:\{(.*?)\})?")
LABEL = re.compile(r"(\w+)\s*[=!]~?")
GROUPING = re.compile(r"\bby \(([^)]*)\) \((?:rate|increase)?\(?(lonnymq_\w+)")


@pytest.fixture
def exported(dsn: str) -> dict[str, set[str]]:
    """The labels of each metric that a worker and a producer export."""
    registry = CollectorRegistry()
    worker = WorkerMetrics(registry, "lonnymq")
    worker.watch(lambda: 1, lambda: True, capacity=2)
    worker.started(Delivery(1, "a", b"", None, None, 1, UUID(int=7), 0), 0.5)
    for outcome in ("completed", "retried", "dead"):
        worker.finished("task", "default", outcome, 1.0)
    with Queue(dsn) as queue:
        instrument(queue, registry)
        queue.enqueue(1)
        queue.dispatch()
        registry.register(QueueMetrics(queue, 5))
        samples = [sample for family in registry.collect() for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples if not sample.name.endswith("_created")}


def expressions_of_dashboard() -> list[str]:
    board: dict[str, Any] = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    variables = [one["definition"] for one in board["templating"]["list"] if "definition" in one]
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())] + variables


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_queries_name_metrics_and_labels_that_exist(exported: dict[str, set[str]]) -> None:
    expressions = expressions_of_dashboard() + [rule["expr"] for rule in rules()]
    assert len(expressions) > 40
    for expression in expressions:
        assert expression.count("(") == expression.count(")"), expression
        found = SELECTOR.findall(expression)
        assert found, expression
        for name, selector in found:
            assert name in exported, expression
            assert set(LABEL.findall(selector)) <= exported[name], expression
        for labels, name in GROUPING.findall(expression):
            assert {label.strip() for label in labels.split(",")} <= exported[name], expression
    asked = {name for expression in expressions for name in NAME.findall(expression)}
    histograms = {name.removesuffix("_bucket") for name in asked if name.endswith("_bucket")}
    parts = {f"{name}_{part}" for name in histograms for part in ("sum", "count", "bucket")}
    not_shown = {"lonnymq_channel_served_total", "lonnymq_channel_noisy"}
    assert set(exported) - asked - parts == not_shown


def test_every_alert_says_what_to_do() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket", "info"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["annotations"]["description"].endswith(".")
        for expression in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
            assert expression == "instance" or expression in rule["expr"]


def test_the_page_lists_all_metrics(exported: dict[str, set[str]]) -> None:
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    page = (DOCS / "monitoring.md").read_text()
    listed = dict(re.findall(r"^\| `(lonnymq_\w+)` \|([^|]*)\|", page, re.MULTILINE))
    assert set(listed) == families
    for name, cell in listed.items():
        labels = exported.get(name) or exported[f"{name}_count"]
        assert set(re.findall(r"`(\w+)`", cell)) | {"queue"} == labels, name


def test_the_configuration_on_the_page_loads_the_alerts() -> None:
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```$", (DOCS / "monitoring.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert yaml.safe_load(block)["rule_files"] == [ALERTS.name]


@pytest.mark.debian("prometheus")
def test_prometheus_accepts_the_queries(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None
    queries = [
        expression.replace("$__rate_interval", "5m").replace("$queue", "lonnymq")
        for expression in expressions_of_dashboard()
        if not expression.startswith("label_values")
    ]
    recorded = [{"record": f"query_{n}", "expr": expression} for n, expression in enumerate(queries)]
    dashboard = tmp_path / "dashboard.yml"
    dashboard.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    for file, count in ((ALERTS, len(rules())), (dashboard, len(queries))):
        command = [promtool, "check", "rules", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"{count} rules found" in done.stdout
