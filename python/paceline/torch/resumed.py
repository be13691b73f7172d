"""What a loop has kept beside the servers' checkpoints, and loads behind a resume."""


def check_clock(state: dict, worker) -> None:
    """That a state is of the clock at which the worker's run goes on; under another policy than bsp, where nodes that were
    behind go on at one clock with the others, an earlier one does. Errors: ValueError."""
    is_behind = state["clock"] < worker.clock and worker.value("sync.policy") != "bsp"
    if state["clock"] != worker.clock and not is_behind:
        raise ValueError(f"load_state_dict(): got the state of clock {state['clock']}, expected {worker.clock}, where the run goes on")
