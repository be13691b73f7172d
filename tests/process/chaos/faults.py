"""Does to a run what a schedule says, one fault after another, each at its moment (schedule.py)."""
import collections
import signal

from cluster import LEASE, VERSION
from schedule import OF_NODES, Kind


class Injector:
    """Listens to the lines of the authority's log."""

    def __init__(self, cluster, faults):
        self._cluster = cluster
        self._waiting = collections.deque(faults)
        self._lines = 0  # since the last fault
        self._near = False  # the next one's moment has come, but for the delay
        self._due = False  # and with the delay
        self.done = []  # faults, in order
        cluster.on_line = self._line
        cluster.on_event = self._strike

    def _line(self, line):
        self._lines += 1
        if not self._waiting or self._near:
            return
        fault = self._waiting[0]
        if self._lines >= fault.lines if fault.lines else VERSION.search(line) and self._cluster.version >= fault.version:
            self._near = True
            self._cluster.events.after(fault.delay, self._now)

    def _now(self):
        self._due = True

    def _strike(self):
        """Does what is due, once there is somebody to do it to."""
        if not self._due or not (targets := self._targets(self._waiting[0])):
            return
        fault = self._waiting.popleft()
        self._near = self._due = False
        self._lines = 0
        cluster = self._cluster
        if cluster.is_whole():
            cluster.count_descriptors()
        cluster.log(f"fault {fault.number}, version {cluster.version} of generation {cluster.generation}: {fault}"
                    + (f", {fault.lines} lines after the one before" if fault.lines else ""))
        cluster.disturbed()
        cluster.back = fault.back
        self.done.append(fault)
        for process in targets:
            self._do(fault, process)

    def _targets(self, fault):
        """Who is there to be harmed: all that are meant, or nobody yet."""
        cluster = self._cluster
        if fault.kind is Kind.KILL_ALL:
            meant = cluster.servers + cluster.nodes
        elif fault.kind is Kind.KILL_SERVERS:
            meant = cluster.servers
        else:
            meant = [(cluster.nodes if fault.kind in OF_NODES else cluster.servers)[fault.target]]
        if fault.target is None:
            return [process for process in meant if process.runs] if any(s.runs for s in cluster.servers) else []
        return [process for process in meant if process.runs and not process.still]

    def _do(self, fault, process):
        if fault.pause is not None:
            process.harmed = process.harmed or fault.kind is Kind.FREEZE_NODE
            self._cluster.hold(process, fault.pause * LEASE)
            return
        process.harmed = True
        if fault.kind is Kind.TERMINATE_SERVER:  # an order to end the run for now: its nodes end, too
            for node in self._cluster.nodes:
                node.harmed = True
        process.send(signal.SIGTERM if fault.kind is Kind.TERMINATE_SERVER else signal.SIGKILL)
