"""What a loop has kept beside the servers' checkpoints, and loads after a resume."""


def gone_back(call: str, expected: int, clock: int) -> RuntimeError:
    """For a loop that loads nothing where the servers have come back with an earlier checkpoint (cluster.reconnect_timeout)."""
    return RuntimeError(f"{call}: the servers have gone back from clock {expected} to {clock}, expected attach(…, on_resume=…), which "
                        "loads the optimizer's state of then; or a resume of the run")


def ends_ahead(worker) -> bool:
    """Whether gradients are ever applied on arrival: a run that was stopped then goes on at its slowest node's clock, and each node
    with what it had at the stop."""
    how = f"{worker.value('sync.apply')} {worker.value('sync.stages')}"
    return "eager" in how or "asp" in how


class Resumed:
    """After the first begin(): where the worker's run goes on, and what is loaded for that. `rejoins`: a node may do so, also
    under bsp, while the others go on: at their clock, after its own last state."""

    def __init__(self, worker, rejoins: bool):
        self._worker, self._rejoins = worker, rejoins
        self._ends_ahead = ends_ahead(worker)
        self._nothing_loaded = worker.clock > 0 and worker.existing == "continue"

    def check_clock(self, state: dict) -> None:
        """That a state is of the clock at which the run goes on. An earlier one is taken under another policy than bsp, where nodes
        that were behind go on at one clock with the others; and with a warning where a node comes back. A later one is
        where it is the last of a run that was stopped (ends_ahead()). Errors: ValueError."""
        got, expected = state["clock"], self._worker.clock
        of_another = f"load_state_dict(): got the state of clock {got}, expected {expected}, where the run goes on"
        if got < expected and self._worker.value("sync.policy") == "bsp" and self._rejoins:
            self._worker.warn(f"{of_another}: unless this node comes back to a run that has gone on, the data of {expected - got} of its "
                              "clocks come once more")
        elif got < expected and self._worker.value("sync.policy") == "bsp":
            raise ValueError(of_another)
        elif got > expected and not (self._ends_ahead and state.get("over")):
            raise ValueError(of_another)

    def was_loaded(self) -> None:
        """Nothing is to be warned of."""
        self._nothing_loaded = False

    def warn_if_not_loaded(self, what: str) -> None:
        """Ahead of the first step, and of what the data go by. `what` is not as it was where nothing has been loaded."""
        if self._nothing_loaded:
            self._nothing_loaded = False
            self._worker.warn(f"the run goes on at clock {self._worker.clock}, but nothing was loaded by run.load_state_dict(): {what}")
