#!/usr/bin/env bash
# OpenTelemetry: a forked worker goes on from its parent's counts under an identity of its own, so a sum over processes counts them again.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q opentelemetry-sdk==1.45.2
cat >"$tmp/check.py" <<'PY'
import io
import json
import os
import sys
from importlib.metadata import version

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader

WORKERS, BEFORE, EACH = 4, 1000, 10
print("opentelemetry-sdk", version("opentelemetry-sdk"), flush=True)
print("guess: of", BEFORE, "samples before the fork and", EACH, "by each of", WORKERS, "workers, all processes together show", BEFORE + WORKERS * EACH, flush=True)
text = io.StringIO()
reader = PeriodicExportingMetricReader(ConsoleMetricExporter(out=text), export_interval_millis=3_600_000)
meter = MeterProvider(metric_readers=[reader]).get_meter("training")
samples, seconds = meter.create_counter("samples"), meter.create_histogram("seconds")


def exported():
    """(instance, samples, steps) of what this process sends."""
    text.seek(0)
    text.truncate()
    reader.force_flush()
    resource = json.loads(text.getvalue())["resource_metrics"][0]
    points = {metric["name"]: metric["data"]["data_points"][0] for metric in resource["scope_metrics"][0]["metrics"]}
    return resource["resource"]["attributes"].get("service.instance.id"), points["samples"]["value"], points["seconds"]["count"]


samples.add(BEFORE)
seconds.record(0.1)
shown = []
for _ in range(WORKERS):  # as a loader forks its workers
    reads, writes = os.pipe()
    if os.fork() == 0:
        samples.add(EACH)
        seconds.record(0.1)
        os.write(writes, json.dumps(exported()).encode())
        os._exit(0)
    os.wait()
    shown.append(json.loads(os.read(reads, 4096)))
shown.append(exported())
for name, (instance, count, steps) in zip(["worker"] * WORKERS + ["parent"], shown):
    print(f"{name}, instance {'of its own' if [entry[0] for entry in shown].count(instance) == 1 else 'shared'}: {count} samples, {steps} steps in the histogram")
total, steps = sum(entry[1] for entry in shown), sum(entry[2] for entry in shown)
print(f"together {total} samples and {steps} steps, where there were {BEFORE + WORKERS * EACH} and {1 + WORKERS}")
as_found = (len({entry[0] for entry in shown}) == WORKERS + 1 and [entry[1] for entry in shown] == [BEFORE + EACH] * WORKERS + [BEFORE]
            and steps == 2 * WORKERS + 1)
print("as found: what was counted before the fork is there once for each process" if as_found else "CHANGED")
sys.exit(0 if as_found else 1)
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py
