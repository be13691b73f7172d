"""Whether a Spark session can run the workers: asked before anything is begun."""

import time
from typing import Tuple

from pyspark import RDD

# Executors come a while after the session.
_EXECUTORS_S = 60.0


def check_session(dataframe):
    """The SparkContext of a DataFrame or an RDD. Errors: ValueError for neither, one of Spark Connect, speculation."""
    module = type(dataframe).__module__
    if not (module.startswith("pyspark.sql") or isinstance(dataframe, RDD)):
        raise ValueError(f"dataframe: got {type(dataframe).__name__}, expected a DataFrame or an RDD of Spark")
    if ".connect." in module:  # asked for by name: of such a DataFrame hasattr(…, "rdd") raises
        raise ValueError("dataframe: got one of Spark Connect, expected one of a session in this process, where the server runs")
    context = dataframe.context if isinstance(dataframe, RDD) else dataframe.sparkSession.sparkContext
    if context.getConf().get("spark.speculation", "false") == "true":
        raise ValueError("spark.speculation: got true, expected false: a second attempt of a share would end the first")
    return context


def check_slots(context, workers: int) -> None:
    """Waits for executors that come; with dynamic allocation they come when they are asked for. Errors: ValueError."""
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        return
    deadline = time.monotonic() + (0 if context.master.startswith("local[") or context.master == "local" else _EXECUTORS_S)
    while True:
        slots, cores, each = slots_of(context)
        if slots >= workers:
            return
        if time.monotonic() >= deadline:
            raise ValueError(f"num_workers: got {workers}, expected at most {slots}: the session has {cores} cores, and "
                             f"spark.task.cpus is {each}")
        time.sleep(0.2)


def slots_of(context) -> Tuple[int, int, int]:
    """Tasks at a time, cores, and cores of a task."""
    each = int(context.getConf().get("spark.task.cpus", "1"))
    listed = context._jsc.sc().statusStore().executorList(True)
    executors = [listed.apply(i) for i in range(listed.size())]
    cores = [e.totalCores() for e in executors if context.master.startswith("local") and "cluster" not in context.master
             or e.id() != "driver"]
    return sum(count // each for count in cores), sum(cores), each
