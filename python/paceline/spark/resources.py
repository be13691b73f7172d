"""What a Spark session has for the workers: whether there is room for them, and whether some run."""

import re
import sys
import time
from typing import Optional, Tuple

from pyspark import RDD

# Executors come a while after the session: those that are promised for sure, others perhaps.
_PROMISED_S, _OTHERS_S, _PRINTED_AFTER_S = 600.0, 60.0, 10.0


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
    promised = slots_promised(context)
    # Who cannot have enough is told at once.
    patience = _OTHERS_S if promised is None else _PROMISED_S if promised >= workers else 0.0
    most, printed, deadline = 0, False, time.monotonic() + patience
    while True:
        slots, cores, each = slots_of(context)
        if slots >= workers:
            return
        if slots > most:  # more may be on their way
            most, deadline = slots, time.monotonic() + patience
        left = deadline - time.monotonic()
        if left <= 0:
            most = max(most, promised or 0)
            raise ValueError(f"num_workers: got {workers}, expected at most {most}: the session has {max(cores, most * each)} cores, and "
                             f"spark.task.cpus is {each}")
        if left < patience - _PRINTED_AFTER_S and not printed:
            printed = True
            print(f"paceline.spark: waits for executors: {slots} of {workers} tasks have a core", file=sys.stderr, flush=True)
        time.sleep(0.2)


def slots_promised(context) -> Optional[int]:
    """Tasks at a time that the session will have, where its settings say so."""
    conf = context.getConf()
    each = int(conf.get("spark.task.cpus", "1"))
    if context.master == "local" or context.master.startswith("local["):
        return slots_of(context)[0]
    cluster = re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*", context.master)
    executors, cores = cluster.groups() if cluster else (conf.get("spark.executor.instances"), conf.get("spark.executor.cores"))
    return int(executors) * (int(cores) // each) if executors and cores else None


def slots_of(context) -> Tuple[int, int, int]:
    """Tasks at a time, cores, and cores of a task."""
    each = int(context.getConf().get("spark.task.cpus", "1"))
    listed = context._jsc.sc().statusStore().executorList(True)
    executors = [listed.apply(i) for i in range(listed.size())]
    cores = [e.totalCores() for e in executors if context.master.startswith("local") and "cluster" not in context.master
             or e.id() != "driver"]
    return sum(count // each for count in cores), sum(cores), each


def busy(context, tag: str) -> bool:
    """Whether a task of the jobs with this tag runs."""
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return any(stage and stage.numActiveTasks for stage in stages)
