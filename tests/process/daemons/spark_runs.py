"""Drivers of Spark, each a process that spark_test.py starts:

    spark_runs.py SESSION PROGRAMS FOLDER     SESSION: of SESSIONS below, or streams; FOLDER: has a run directory for each case

Java takes longer to start than most cases take, so those of one kind of session follow each other in one. Each prints what it
has found after a line "== CASE".
"""

import contextlib
import json
import os
import pathlib
import signal
import sys
import threading
import traceback
import types

import numpy
import torch
from pyspark import SparkContext
from pyspark.sql import SparkSession, functions
from torch.nn import functional

import paceline.spark
from paceline.spark import resources

ITERATIONS = 400
# Of Spark's own, within which its processes have to hear of each other: a machine may be busy.
PATIENCE = {"spark.network.timeout": "1800s", "spark.rpc.askTimeout": "1800s", "spark.python.authenticate.socketTimeout": "1800s"}


@contextlib.contextmanager
def session(master):
    """Ends Java with it, which otherwise ends a while after this process."""
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    for name, value in {"spark.sql.shuffle.partitions": "4", "spark.driver.bindAddress": "127.0.0.1", **PATIENCE}.items():
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
    log = pathlib.Path(run.out, f"worker-{worker.node}.log").read_text()
    return {"node": worker.node, "attempt": worker.attempt, "rows": worker.rows, "steps": steps, "pid": os.getpid(),
            "signals": [before, signals()], "warned": [line.partition("warning ")[2] for line in log.splitlines() if "warning " in line]}


def wait_for(file, text=""):
    """Until the file is there and contains `text`; the test has a deadline."""
    while not (file.exists() and text in file.read_text()):
        threading.Event().wait(0.05)


def report(result):
    model = network()
    model.load_state_dict(result.tensors("torch"))
    x = torch.rand(1000, 2, generator=torch.Generator().manual_seed(5))
    right = (model(x).argmax(1) == (x[:, 0] > x[:, 1]).int()).float().mean()
    print(json.dumps({"accuracy": float(right), "rows": result.rows, "attempts": result.attempts,
                      "returned": result.returned, "summary": result.summary}))


def trains(spark, programs, out):
    report(paceline.spark.train(points(spark), fit, config(out), num_workers=2, programs=programs))


def trains_in_barrier_mode(spark, programs, out):
    """With a rate that nobody has said."""
    given = config(out)
    del given["train"]["optimizer"]["lr"]
    report(paceline.spark.train(points(spark), fit, given, num_workers=2, barrier=True, programs=programs))


def loses_an_executor(spark, programs, out):
    """Share 1 kills its executor in the middle of the run, once: the Python process's parent is Spark's daemon of such
    processes, and that one's is the executor."""
    killed, trained = pathlib.Path(out).parent / "killed", pathlib.Path(out).parent / "trained"

    def loses(worker):
        def before_step(step):
            if worker.node == 1 and step == 20 and not killed.exists():
                daemon = os.getppid()
                executor = int(pathlib.Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
                killed.write_text(f"{worker.attempt}")
                os.kill(executor, signal.SIGKILL)
                threading.Event().wait()  # Spark's daemon ends with the executor, and this process with it
            if worker.node == 1 and step == 1 and killed.exists():
                trained.touch()
            if worker.node == 0 and step == 40:  # alone it might be done before the other is back
                wait_for(trained)
        return fit(worker, before_step)

    report(paceline.spark.train(points(spark), loses, config(out, policy="ssp", threshold=1000), num_workers=2,
                             programs=programs))


def comes_late(spark, programs, out):
    """Share 1 begins once the training has begun without it, and share 0 waits for it on its way."""
    trained = pathlib.Path(out).parent / "trained"

    def late(worker):
        def before_step(step):
            if worker.node == 1 and step == 1:
                trained.touch()
            if worker.node == 0 and step == 40:
                wait_for(trained)
        if worker.node == 1:
            wait_for(pathlib.Path(out) / "server.log", "training begins")
        return fit(worker, before_step)

    report(paceline.spark.train(points(spark), late, config(out, policy="ssp", threshold=1000), num_workers=2, min_workers=1,
                             programs=programs))


LAYERS = [{"kind": "dense", "out": 8}, {"kind": "relu"}, {"kind": "dense", "out": 2}]


def has_no_loop(spark, programs, out):
    """The built-in network, with an RDD of NumPy's values."""
    def row(i):
        x = numpy.random.default_rng(i).random(2)
        return {"x": x, "bias": numpy.float64(1), "y": int(x[0] > x[1])}

    rows = spark.sparkContext.parallelize(range(2000), 7).map(row)
    result = paceline.spark.train(rows, paceline.spark.Network(LAYERS, label="y"), config(out), num_workers=2, programs=programs)
    test = spark.sparkContext.parallelize(range(10 ** 6, 10 ** 6 + 1000)).map(row).collect()
    made = paceline.Network(LAYERS, 3)
    x = numpy.array([[*each["x"], each["bias"]] for each in test])
    right = made.evaluate(made.flat(result.tensors()), x, numpy.array([each["y"] for each in test]))
    print(json.dumps({"accuracy": right[1] / right[2], "rows": result.rows, "returned": result.returned,
                      "summary": result.summary}))


def context_without_executors(master, settings):
    store = types.SimpleNamespace(executorList=lambda active: types.SimpleNamespace(size=lambda: 0))
    java = types.SimpleNamespace(sc=lambda: types.SimpleNamespace(statusStore=lambda: store))
    return types.SimpleNamespace(master=master, getConf=lambda: settings, _jsc=java)


def refuses(spark, programs, out):
    """What is said of each bad input, and which children are left."""
    good, text = points(spark, 64), spark.range(8).select(functions.col("id").cast("string").alias("name"))
    rdd = lambda rows: spark.sparkContext.parallelize(rows, 1)
    before = children()
    try:
        resources.check_slots(context_without_executors("local-cluster[2,3,1024]", {"spark.task.cpus": "2"}), 3)
    except ValueError as error:  # at once, though none has come yet
        print(f"executors: {error}", "left: []", sep="\n")
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
            ("connect", type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})(), {}),
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
            ("classes", good.selectExpr("x", "y + 1 AS y"), {"fn": paceline.spark.Network(LAYERS, label="y")}),
            ("speculation", good, {})):
        if name == "speculation":
            spark.sparkContext._conf.set("spark.speculation", "true")
        try:
            paceline.spark.train(frame, config=config(out), **{"fn": fit, "num_workers": 2, "programs": programs, **options})
            output = "nothing"
        except (ValueError, paceline.Error) as error:
            output = str(error)
        print(f"{name}: {output}", f"left: {sorted(children() - before)}", sep="\n")
    spark.sparkContext._conf.set("spark.speculation", "false")


def children():
    tasks = pathlib.Path("/proc/self/task").glob("*/children")
    return {pid for task in tasks for pid in task.read_text().split()}


def fails(spark, programs, out):
    """In the middle of the run, and after its end."""
    def broken(worker):
        def before_step(step):
            if step == 5:
                raise ArithmeticError("no gradient today")
        return fit(worker, before_step)

    def broken_after(worker):
        fit(worker)
        raise ArithmeticError("no sum today")

    before = children()
    for function, output in ((broken, "no gradient today"), (broken_after, "no sum today")):
        try:
            paceline.spark.train(points(spark), function, config(out), num_workers=2, existing="replace", programs=programs)
        except Exception as error:  # Spark's, or the run's, which all its nodes have left
            print("said:", f"ArithmeticError: {output}" in str(error))
        print(f"left: {sorted(children() - before)}")


def is_signalled(spark, programs, out, number):
    """The driver, in the middle of the run."""
    def interrupt():
        wait_for(pathlib.Path(out) / "server.log", "training begins")
        os.kill(os.getpid(), number)

    before = children()
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        paceline.spark.train(points(spark), fit, config(out, iterations=10 ** 9), num_workers=2, programs=programs)
    except KeyboardInterrupt:
        print("interrupted")
    print(f"left: {sorted(children() - before)}")


def is_interrupted(spark, programs, out):
    is_signalled(spark, programs, out, signal.SIGINT)


def is_killed(spark, programs, out):
    is_signalled(spark, programs, out, signal.SIGKILL)


def deals(spark, programs, out):
    """Shares of DataFrames that lie unevenly: rows, by kind."""
    from paceline.spark.shares import Shares, found, shares_of
    for name, frame, workers in (
            ("one partition", spark.range(0, 1000, 1, 1), 4),
            ("mostly empty", spark.range(0, 1000, 1, 50).where("id < 20"), 4),
            ("a row each", spark.range(0, 6, 1, 6), 5)):
        shares = shares_of(frame, None, workers)
        print(name, sorted(shares.rows), shares.frame.selectExpr("sum(id)").first()[0], sep=": ")
        shares.forget()
    print(*found(shares_of(spark.range(0, 1000, 1, 10).where("id < 200").selectExpr("id % 2 == 0 AS y", "id"), None, 4)), sep="\n")
    print(*found(Shares(None, None, [5, 5], {}, {"y": [{0: 5}, {0: 3, 1: 2}], "id": [{1: 1}, {2: 1}]}, [10])), sep="\n")
    # What is said has a bound: of 20 columns, and of 11 shares that lack 9 labels.
    lack = [{0: 50}] * 11 + [{label: 50 for label in range(10)}]
    columns = {**{f"a{i}": [{1: 9}] * 12 for i in range(12)}, **{f"b{i}": lack for i in range(8)}}
    print(*found(Shares(None, None, [50] * 12, {}, columns, [600]))[1:], sep="\n")


def streams(folder):
    """A share, and an RDD's rows, of 384 MiB in a process that may have 160 MiB of memory more than it has; then of address
    space, as spark.executor.pyspark.memory bounds it."""
    import resource

    import pyarrow
    from paceline.spark import rdd
    from paceline.spark.share import Share
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the default one reserves a GiB, whether it needs it or not
    rows, width, parts = 1024, 1024, 96

    def batches(parts=parts):
        for part in range(parts):
            flat = pyarrow.array(numpy.full(rows * width, part, numpy.float32))
            x = pyarrow.FixedSizeListArray.from_arrays(flat, width).cast(pyarrow.list_(pyarrow.float32()))
            yield pyarrow.RecordBatch.from_arrays([x, pyarrow.array(range(part * rows, (part + 1) * rows))], names=["x", "id"])

    def of_rdd():  # wide rows: 1,000 of them are 16 MiB
        for row in range(parts * rows // 4):
            yield {"x": numpy.full(4 * width, row // rows, numpy.float32), "id": row}

    for _ in Share(batches(1), folder).cut(256, [1]):
        break  # Arrow's threads have begun, and their stacks are counted
    for limit, has in ((resource.RLIMIT_DATA, "VmData:"), (resource.RLIMIT_AS, "VmSize:")):
        now = int(pathlib.Path("/proc/self/status").read_text().partition(has)[2].split()[0])
        resource.setrlimit(limit, (1024 * now + (160 << 20),) * 2)
        share, seen = Share(batches(), folder), numpy.zeros(parts * rows, int)
        stream = share.cut(256, [1])
        for _ in range(share.rows // 256):
            batch = next(stream)
            assert (batch["x"][:, 0] == batch["id"] // rows).all()
            seen[batch["id"]] += 1
        print(f"{share.rows} rows, each {seen.min()} to {seen.max()} times")
        del share, stream
    schema = pyarrow.schema([("x", pyarrow.list_(pyarrow.float32())), ("id", pyarrow.int64())])
    largest = max(len(block) for block, in rdd._packed(of_rdd(), schema, None))
    print(f"an RDD's rows in blocks of at most {-(-largest // (1 << 20))} MiB")
    try:
        kept = list(batches())
        print(f"all of it: {len(kept)} batches")
    except (MemoryError, pyarrow.ArrowMemoryError):
        print("all of it: does not fit")


SESSIONS = {
    "local": ("local[2]", (deals, refuses, has_no_loop, trains_in_barrier_mode, comes_late, fails, is_interrupted, is_killed)),
    "cluster": ("local-cluster[2,1,1024]", (trains, loses_an_executor))}


def main(kind, programs, folder):
    sys.stdout.reconfigure(line_buffering=True)
    if kind == "streams":
        streams(folder)
        return
    master, cases = SESSIONS[kind]
    with session(master) as spark:
        for case in cases:
            print(f"== {case.__name__}")
            try:
                case(spark, programs, f"{folder}/{case.__name__}")
            except Exception:  # the others' turn
                traceback.print_exc(file=sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
