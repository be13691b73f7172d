"""Drivers of Spark, each a process that spark_test.py starts:

    spark_runs.py NAME PROGRAMS OUT [ARGUMENT…]     NAME: a function below; OUT: the run directory
"""

import contextlib
import json
import os
import pathlib
import signal
import sys
import threading

import numpy
import torch
from pyspark import SparkContext
from pyspark.sql import SparkSession, functions
from torch.nn import functional

import paceline.spark

ITERATIONS = 400


@contextlib.contextmanager
def session(master="local[2]", **settings):
    """Ends Java with it, which otherwise ends a while after this process."""
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    for name, value in {"spark.sql.shuffle.partitions": "4", "spark.driver.bindAddress": "127.0.0.1", **settings}.items():
        builder = builder.config(name, value)
    with builder.getOrCreate() as spark:
        yield spark
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def points(spark, rows=2000):
    """x in the unit square, y whether it is below the diagonal."""
    frame = spark.range(rows).select(functions.array(functions.rand(1), functions.rand(2)).alias("x"))
    return frame.select("x", (functions.col("x")[0] > functions.col("x")[1]).cast("int").alias("y"))


def config(out, iterations=ITERATIONS, **sync):
    return {"run": {"name": "spark", "out": out, "seed": 3}, "sync": {"policy": "bsp", **sync},
            "cluster": {"lease": "60s", "heartbeat": "200ms"},
            "train": {"optimizer": {"kind": "sgd", "lr": 1.0}, "batch_size": 16, "total_iterations": iterations}}


def network():
    torch.manual_seed(1)
    return torch.nn.Linear(2, 2)


def signals():
    """What this process does of each, as masks: who ignores SIGHUP would outlive its executor."""
    status = pathlib.Path("/proc/self/status").read_text()
    return [line for line in status.splitlines() if line.startswith(("SigIgn", "SigCgt"))]


def fit(worker, before_step=lambda step: None):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    steps, before = 0, signals()
    with worker.attach(model, optimizer) as run:
        for batch in worker.batches():
            before_step(steps)
            scores = model(batch["x"])
            loss = functional.cross_entropy(scores, batch["y"])
            optimizer.zero_grad()
            loss.backward()
            run.report(loss, correct=(scores.argmax(1) == batch["y"]).sum())
            optimizer.step()
            steps += 1
    return {"node": worker.node, "attempt": worker.attempt, "rows": worker.rows, "steps": steps, "pid": os.getpid(),
            "signals": [before, signals()]}


def wait_for(log, text):
    """Until the file is there and contains `text`; the test has a deadline."""
    while not (log.exists() and text in log.read_text()):
        threading.Event().wait(0.05)


def say(result):
    model = network()
    model.load_state_dict(result.tensors("torch"))
    x = torch.rand(1000, 2, generator=torch.Generator().manual_seed(5))
    right = (model(x).argmax(1) == (x[:, 0] > x[:, 1]).int()).float().mean()
    print(json.dumps({"accuracy": float(right), "rows": result.rows, "attempts": result.attempts,
                      "returned": result.returned, "summary": result.summary}))


def trains(programs, out, master, barrier):
    with session(master) as spark:
        say(paceline.spark.train(points(spark), fit, config(out), num_workers=2, barrier=barrier == "barrier", programs=programs))


def loses_an_executor(programs, out):
    """Share 1 kills its executor in the middle of the run, once: the Python process's parent is Spark's daemon of such
    processes, and that one's is the executor."""
    killed = pathlib.Path(out).parent / "killed"

    def loses(worker):
        def before_step(step):
            if worker.node == 1 and step == 20 and not killed.exists():
                daemon = os.getppid()
                executor = int(pathlib.Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                killed.write_text(f"{worker.attempt}")
                os.kill(executor, signal.SIGKILL)
                threading.Event().wait()  # Spark's daemon ends with the executor, and this process with it
            if worker.node == 0 and step == 40:  # alone it might be done before the other is back
                wait_for(pathlib.Path(out) / "server.log", "node 1 is back and takes part")
        return fit(worker, before_step)

    with session("local-cluster[2,1,1024]") as spark:
        say(paceline.spark.train(points(spark), loses, config(out, policy="ssp", threshold=1000), num_workers=2,
                                 programs=programs))


def comes_late(programs, out):
    """Share 1 begins once the training has begun without it, and share 0 waits for it on its way."""
    log = pathlib.Path(out) / "server.log"

    def late(worker):
        if worker.node == 1:
            wait_for(log, "training begins")
        return fit(worker, lambda step: wait_for(log, "node 1 has come and takes part")
                   if worker.node == 0 and step == 40 else None)

    with session() as spark:
        say(paceline.spark.train(points(spark), late, config(out, policy="ssp", threshold=1000), num_workers=2, min_workers=1,
                                 programs=programs))


LAYERS = [{"kind": "dense", "out": 8}, {"kind": "relu"}, {"kind": "dense", "out": 2}]


def has_no_loop(programs, out):
    """The built-in network, with an RDD of NumPy's values."""
    def row(i):
        x = numpy.random.default_rng(i).random(2)
        return {"x": x, "bias": numpy.float64(1), "y": int(x[0] > x[1])}

    with session() as spark:
        rows = spark.sparkContext.parallelize(range(2000), 7).map(row)
        result = paceline.spark.train(rows, paceline.spark.Network(LAYERS, label="y"), config(out), num_workers=2, programs=programs)
        test = spark.sparkContext.parallelize(range(10 ** 6, 10 ** 6 + 1000)).map(row).collect()
    made = paceline.Network(LAYERS, 3)
    x = numpy.array([[*each["x"], each["bias"]] for each in test])
    right = made.evaluate(made.flat(result.tensors()), x, numpy.array([each["y"] for each in test]))
    print(json.dumps({"accuracy": right[1] / right[2], "rows": result.rows, "returned": result.returned,
                      "summary": result.summary}))


def refuses(programs, out):
    """What is said of each bad input, and which children are left."""
    with session() as spark:
        good, text = points(spark, 64), spark.range(8).select(functions.col("id").cast("string").alias("name"))
        rdd = lambda rows: spark.sparkContext.parallelize(rows, 1)
        before = children()
        for name, frame, options in (
                ("workers", good, {"num_workers": 0}),
                ("cores", good, {"num_workers": 3}),
                ("empty", good.where("y > 5"), {}),
                ("few", good.limit(1), {}),
                ("text", text, {}),
                ("absent", good, {"columns": ["x", "z"]}),
                ("null", spark.createDataFrame([(1.0,), (None,), (2.0,)], "x double"), {}),
                ("ragged", spark.createDataFrame([([1.0, 2.0],), ([1.0],)], "x array<double>"), {}),
                ("frame", [1, 2], {}),
                ("key", good, {"overrides": ["train.batch_sise=3"]}),
                ("existing", good, {"existing": "append"}),
                ("no rows", spark.sparkContext.emptyRDD(), {}),
                ("no names", rdd([(1.0, 2)]), {}),
                ("a text", rdd([{"x": "one"}]), {}),
                ("a later text", rdd([{"x": 1.0}, {"x": "two"}]), {}),
                ("a later part", rdd([{"x": 1}, {"x": 1.5}]), {}),
                ("a later lack", rdd([{"x": 1.0}, {"y": 2.0}]), {}),
                ("label", good, {"fn": paceline.spark.Network(LAYERS, label="z")}),
                ("layer", good, {"fn": paceline.spark.Network([{"kind": "dense"}], label="y")}),
                ("classes", good.selectExpr("x", "y + 1 AS y"), {"fn": paceline.spark.Network(LAYERS, label="y")})):
            try:
                paceline.spark.train(frame, config=config(out), **{"fn": fit, "num_workers": 2, "programs": programs, **options})
                said = "nothing"
            except (ValueError, paceline.Error) as error:
                said = str(error)
            print(f"{name}: {said}", f"left: {sorted(children() - before)}", sep="\n")


def children():
    tasks = pathlib.Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


def fails(programs, out):
    """In the middle of the run, and behind its end."""
    def broken(worker):
        def before_step(step):
            if step == 5:
                raise ArithmeticError("no gradient today")
        return fit(worker, before_step)

    def broken_behind(worker):
        fit(worker)
        raise ArithmeticError("no sum today")

    with session(**{"spark.task.maxFailures": "1"}) as spark:
        before = children()
        for function, said in ((broken, "no gradient today"), (broken_behind, "no sum today")):
            try:
                paceline.spark.train(points(spark), function, config(out), num_workers=2, existing="replace", programs=programs)
            except Exception as error:  # Spark's, or the run's, which all its nodes have left
                print("said:", f"ArithmeticError: {said}" in str(error))
            print(f"left: {sorted(children() - before)}")


def is_signalled(programs, out, name):
    """The driver, in the middle of the run."""
    def interrupt():
        wait_for(pathlib.Path(out) / "server.log", "training begins")
        os.kill(os.getpid(), getattr(signal, name))

    with session() as spark:
        before = children()
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            paceline.spark.train(points(spark), fit, config(out, iterations=10 ** 9), num_workers=2, programs=programs)
        except KeyboardInterrupt:
            print("interrupted")
        print(f"left: {sorted(children() - before)}")


def deals(programs, out):
    """Shares of DataFrames that lie unevenly: rows, by kind."""
    from paceline.spark.shares import Shares, found, shares_of
    with session() as spark:
        for name, frame, workers in (
                ("one partition", spark.range(0, 1000, 1, 1), 4),
                ("mostly empty", spark.range(0, 1000, 1, 50).where("id < 20"), 4),
                ("a row each", spark.range(0, 6, 1, 6), 5)):
            shares = shares_of(frame, None, workers)
            print(name, sorted(shares.rows), shares.frame.selectExpr("sum(id)").first()[0], sep=": ")
            shares.forget()
        print(*found(shares_of(spark.range(0, 1000, 1, 10).where("id < 200").selectExpr("id % 2 == 0 AS y", "id"), None, 4)), sep="\n")
        print(*found(Shares(None, None, [5, 5], {}, {"y": [{0: 5}, {0: 3, 1: 2}], "id": [{1: 1}, {2: 1}]}, [10])), sep="\n")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
