"""examples/spark/taxi.py on executors, against the same loops without Spark; what feeding costs of a step of 50 ms, and of
memory, beside the pages of the file that the rows lie in.

    spark_against_loops.py BIN [--rows N]     BIN: the programs' folder. Prints a line for each figure.

Interpreter and environment as for tests/process/daemons/spark_test.py: pyspark, pyarrow and torch, PYTHONPATH, PACELINE_LIBRARY.
"""

import argparse
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples/spark"))
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ["PYTHONPATH"] = f"{ROOT / 'examples/spark'}:{os.environ.get('PYTHONPATH', '')}"

import numpy as np
import taxi
import torch
from pyspark.sql import SparkSession, functions

import paceline.spark
import paceline.torch
from paceline.spark.batches import cut

STEP_S = 0.05


class PlainWorker:
    """What taxi.fit() needs of a worker, over rows in memory."""

    def __init__(self, config, overrides, node, x, y):
        self._config, self._overrides, self._node, self._rows = config, overrides, node, {"x": x, "y": y}

    def attach(self, model, optimizer):
        return paceline.torch.attach(model, optimizer, self._config, node=self._node, overrides=self._overrides)

    def batches(self):
        for batch in cut(1, lambda _: self._rows, 64, self._node):
            yield {name: torch.from_numpy(column) for name, column in batch.items()}


def plain_node(*arguments):
    torch.set_num_threads(1)
    taxi.fit(PlainWorker(*arguments))


def without_spark(programs, config, x, y, out):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    overrides = [f"run.out={out}", "cluster.nodes=2", f'cluster.endpoints=["tcp://127.0.0.1:{port}"]']
    with subprocess.Popen([programs / "paceline-server", config, *overrides], stderr=subprocess.DEVNULL) as server:
        nodes = [multiprocessing.get_context("spawn").Process(target=plain_node, args=(config, overrides, node, x[node::2], y[node::2]))
                 for node in range(2)]
        for node in nodes:
            node.start()
        for node in nodes:
            node.join()
    if server.returncode != 0:
        raise SystemExit(f"the run without Spark failed; see {out}/server.log")
    return {name: torch.from_numpy(array) for name, array in paceline.read_model(f"{out}/model.bin").items()}


def accuracy(tensors, x, y):
    model = taxi.network()
    model.load_state_dict(tensors)
    return float((model(torch.from_numpy(x)).argmax(1) == torch.from_numpy(y)).float().mean())


def own_memory():
    """Bytes that this process has, without pages of files."""
    status = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


def cost_of_feeding(spark, rows, width, size, programs, folder):
    """Seconds of a step, and of those of the processor's, where computing takes 50 ms of each, and bytes by which the process grew:
    the worse worker's."""
    frame = spark.range(rows).select(functions.expr(f"transform(sequence(1, {width}), i -> cast(rand() as float))").alias("x"))

    def fit(worker):
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        feeding, processor, steps, batches, before = 0.0, 0.0, 0, worker.batches(), own_memory()
        with worker.attach(model, optimizer):
            while True:
                asked, had = time.perf_counter(), time.thread_time()
                batch = next(batches)
                feeding += time.perf_counter() - asked
                processor += time.thread_time() - had
                until = time.perf_counter() + STEP_S
                while time.perf_counter() < until:
                    float(batch["x"].sum())
                steps += 1
                optimizer.zero_grad()
                model(batch["x"].reshape(-1, 1)[:1]).sum().backward()
                optimizer.step()
        return feeding / steps, processor / steps, own_memory() - before

    config = {"run": {"name": "fed", "out": f"{folder}/fed-{width}"}, "sync": {"policy": "asp"},
              "train": {"optimizer": {"kind": "sgd", "lr": 0.1}, "batch_size": size, "total_iterations": 400}}
    result = paceline.spark.train(frame, fit, config, num_workers=2, programs=programs)
    return [max(worst) for worst in zip(*result.returned.values())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=200_000)
    given = parser.parse_args()
    config = str(ROOT / "examples/spark/taxi.yaml")
    with tempfile.TemporaryDirectory() as folder, \
            SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        spark.sql(taxi.RIDES.format(rows=given.rows)).createOrReplaceTempView("rides")
        train, test = (spark.sql(taxi.FEATURES.format(which=which)) for which in ("<>", "="))
        began = time.monotonic()
        result = paceline.spark.train(train, taxi.fit, config, num_workers=2, overrides=[f"run.out={folder}/spark"],
                                      programs=str(given.programs))
        whole = time.monotonic() - began
        (x, y), (test_x, test_y) = ((np.array([row.x for row in rows], np.float32), np.array([row.y for row in rows], np.int64))
                                    for rows in (train.collect(), test.collect()))
        on_executors = accuracy(result.tensors("torch"), test_x, test_y)
        print(f"with Spark: {sum(result.rows)} rows as {result.rows}, accuracy {on_executors:.4f}, {whole:.1f} s in all, "
              f"{result.summary['wall_seconds']:.1f} s of training", flush=True)
        alone = accuracy(without_spark(given.programs, config, x, y, f"{folder}/alone"), test_x, test_y)
        print(f"without: accuracy {alone:.4f}; difference {100 * abs(alone - on_executors):.2f} points", flush=True)
        for width, size, rows in ((5, 64, 200_000), (3072, 128, 40_000)):
            seconds, processor, memory = cost_of_feeding(spark, rows, width, size, str(given.programs), folder)
            print(f"feeding {size} rows of {width} floats: {1000 * seconds:.3f} ms, {100 * seconds / STEP_S:.2f} % of a step of 50 ms, "
                  f"{1000 * processor:.3f} ms of the processor's; {memory / 1e6:.0f} MB of memory for a share of "
                  f"{rows * width * 4 / 2e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
