"""What must be so of a disturbed run once it is over, and the figures of it."""
import collections
import re
import signal
import statistics

import harness  # on the path of chaos.py

POINTS_MAX = 1.5  # below the mean of the calm runs
LEARNED_MIN = 0.3  # of ten classes: three times as good as chance
DESCRIPTORS_MAX = 8  # more than at the first look, when all had joined: connections that are on their way out or in
CAUSED = (-signal.SIGKILL, 0, 1)  # ends that are orderly, or ours


def wrong_with(cluster, faults_left):
    """All that is wrong but the accuracy."""
    summary = cluster.summary()
    wrong = []
    if summary["status"] != "ok":
        wrong.append(f"the run's status is {summary['status']}: {summary.get('reason')}")
    planned = int(re.search(r"total_iterations: (\d+)", (cluster.run_dir / "config.yaml").read_text(encoding="utf-8"))[1])
    if summary["iterations"] != planned:
        wrong.append(f"{summary['iterations']} iterations, expected {planned}")
    if faults_left:
        wrong.append(f"the run was over with {faults_left} faults to come")
    wrong += cluster.unexplained
    wrong += [what for process in cluster.ended for what in wrong_with_process(process)]
    return wrong + too_many_descriptors(cluster) + left_over(cluster)


def wrong_with_process(process):
    wrong = []
    if process.status not in CAUSED:
        wrong.append(f"{process.name} ended with {process.status}: {process.program.errors()[-3:]}")
    elif process.status == -signal.SIGKILL and not process.harmed:
        wrong.append(f"{process.name} was killed by somebody else")
    wrong += [f"{process.name}: {line}" for line in process.program.errors() if harness.is_crash(line)]
    return wrong


def too_many_descriptors(cluster):
    return [f"a {role} had {max(counts)} descriptors, {counts[0]} at the first look"
            for role, counts in cluster.descriptors.items() if counts and max(counts) > counts[0] + DESCRIPTORS_MAX]


def left_over(cluster):
    """Processes and files. The files of ipc sockets stay (ZeroMQ), and are taken over by who listens there next."""
    left = list(harness.left_behind(harness.TRACER_ENDS).values())
    expected = {cluster.config.name, cluster.run_dir.name, *(str(shard) for shard in range(len(cluster.servers)))}
    left += [str(path) for path in cluster.folder.iterdir() if path.name not in expected]
    left += [str(path) for path in cluster.run_dir.iterdir() if path.name.endswith(".tmp")]
    for folder in (cluster.run_dir / "checkpoint").iterdir():
        left += [str(path) for path in ([folder] if folder.is_file() else folder.iterdir())
                 if not re.fullmatch(r"generation|manifest|shard-\d+", path.name)]
    return [f"left over: {what}" for what in left]


def wrong_with_accuracy(accuracy, calm):
    if accuracy < LEARNED_MIN:
        return [f"accuracy {accuracy:.2%}: nothing has been learned"]
    if calm and accuracy < statistics.mean(calm) - POINTS_MAX / 100:
        return [f"accuracy {accuracy:.2%}, expected at most {POINTS_MAX} points below {statistics.mean(calm):.2%}"]
    return []


def report(cluster, faults):
    """What was done, and what it has cost."""
    summary = cluster.summary()
    by_kind = collections.Counter(fault.kind for fault in faults)
    lines = [f"{count:5d}  {kind.words}" for kind, count in by_kind.most_common()]
    soon = sum(fault.lines is not None for fault in faults)
    lines.append(f"{len(faults):5d}  faults in {cluster.seconds():.0f} s, {soon} of them soon after the one before")
    lines.append(f"{summary['status']}: {summary['iterations']} iterations, {summary['iterations_lost']} lost with nodes and done "
                 f"again; generation {summary.get('generation', 1)}")
    lines.append(f"{summary['lost_nodes']} times a node was lost, {summary.get('returned_nodes', 0)} times one came back; "
                 f"{len(cluster.ended)} processes")
    lines += [f"descriptors of a {role}: {counts[0]} at the first look, {max(counts)} at the most"
              for role, counts in cluster.descriptors.items() if counts]
    return "\n".join(lines)
