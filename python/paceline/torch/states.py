"""States: what a loop keeps beside the servers' checkpoints, in files, of which those stay that a resume may need."""

import os
import pathlib
import re
from typing import Iterable, Optional, Set, Union

import torch

_CHECKPOINT = re.compile(r"g\d+-v(\d+)")
# By how many checkpoints the servers may be behind a node.
_BEHIND = 8


def needed(clocks: Iterable[int], versions: Iterable[int], exact: bool) -> Set[int]:
    """Of a node's states, by clock, those that a resume may load. versions: of the checkpoints that are there. exact: under bsp,
    where a run goes on at the clock that is its checkpoint's version; else a node may have been ahead of that."""
    clocks, versions = sorted(clocks), sorted(versions)
    if not versions:
        return set(clocks)
    all_from = versions[-1] if exact else versions[0]
    newest = {max((clock for clock in clocks if clock <= version), default=None) for version in versions}
    return {clock for clock in clocks if clock > all_from or clock in newest}


class States:
    """The states of a node, FOLDER/state-NODE-CLOCK.pt.

        with paceline.torch.attach(model, optimizer, "my.yaml", existing="continue") as run:
            states = paceline.torch.States(run)
            for x, y in batches_from(run.position):
                …
                optimizer.step()
                states.keep()

    run: what attach() or pipeline() returned; a learning rate scheduler is built before. folder: of this run alone; None:
    "states" in run.out. Behind a resume it loads the state that is needed, else it removes what an earlier run has left there.
    Errors: those of load_state_dict(), OSError.
    """

    def __init__(self, run, folder: Union[None, str, "os.PathLike[str]"] = None):
        self._run, worker = run, run.worker
        self._checkpoints = pathlib.Path(worker.value("run.out"), "checkpoint")
        self._folder = pathlib.Path(worker.value("run.out"), "states") if folder is None else pathlib.Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._exact = worker.value("sync.policy") == "bsp"
        every = worker.value("checkpoint.every_clocks")
        # Else any round may be the last ahead of a checkpoint.
        self._every: Optional[int] = int(every) if self._exact and every != "null" else None
        self._checkpoints_kept = int(worker.value("checkpoint.keep"))
        self._file_of = re.compile(rf"state-{worker.node}-(\d+)\.pt")
        self._clock = run.clock
        if worker.existing == "continue":
            self.load()
        else:
            self._remove(self._there())

    def load(self) -> None:
        """The state of run.clock goes into the run, or where there is none the newest before it; without any the loop begins
        anew, which is warned of. Those of steps that are taken anew go. To be called in on_resume(), too."""
        self._clock = self._run.clock
        there = self._there()
        newest = max((clock for clock in there if clock <= self._clock), default=None)
        if newest is not None and self._clock > 0:
            self._run.load_state_dict(torch.load(self._path(newest)))
        self._remove(clock for clock in there if clock > self._clock)

    def keep(self) -> None:
        """Behind each step: writes the state of a clock that a checkpoint may be of, and the last one before a stop; removes those
        that no resume needs. Where run.out has no checkpoints, as on another machine than the servers', and with
        checkpoint.every, all stay."""
        clock = self._run.clock
        if clock == self._clock:
            return
        self._clock = clock
        if self._every is not None and clock % self._every != 0 and not self._run.over:
            return
        unfinished = self._path(clock).with_suffix(".part")
        torch.save(self._run.state_dict(), unfinished)
        os.replace(unfinished, self._path(clock))  # a loop that is killed leaves none that is half
        self._remove(self._there() - self._needed())

    def _needed(self):
        there = self._there()
        try:
            found = [_CHECKPOINT.fullmatch(name) for name in os.listdir(self._checkpoints)]
        except OSError:
            found = []
        versions = [int(match[1]) for match in found if match]
        if not versions and self._every is not None:
            return set(sorted(there)[-(self._checkpoints_kept + _BEHIND):])
        return needed(there, versions, self._exact)

    def _there(self) -> Set[int]:
        found = (self._file_of.fullmatch(name) for name in os.listdir(self._folder))
        return {int(match[1]) for match in found if match}

    def _path(self, clock):
        return self._folder / f"state-{self._run.worker.node}-{clock}.pt"

    def _remove(self, clocks):
        for clock in clocks:
            self._path(clock).unlink()
