"""States: what a loop keeps beside the servers' checkpoints, in files, of which those stay that a resume may need."""

import os
import pathlib
import re
from typing import Any, Iterable, Mapping, Optional, Set, Union

import torch

from .._resumed import ends_ahead

_CHECKPOINT = re.compile(r"g\d+-v(\d+)")
# By how many checkpoints the servers may be behind a node.
_LAG_MAX = 8


def needed(clocks: Iterable[int], versions: Iterable[int], exact: bool, every: Optional[int] = None) -> Set[int]:
    """Of a node's states, by clock, those that a resume may load. versions: of the checkpoints that are there. exact: under bsp,
    where a run goes on at the clock that is its checkpoint's version; else a node may have been ahead of that. every: of the
    checkpoints that come, but for the last, which servers save of where they are as all nodes are lost, or at a stop."""
    clocks, versions = sorted(clocks), sorted(versions)
    all_from = (versions[-1] if exact else versions[0]) if versions else -1
    newest = {max((clock for clock in clocks if clock <= version), default=None) for version in versions} | set(clocks[-1:])
    return {clock for clock in clocks if clock in newest or (clock > all_from and (every is None or clock % every == 0))}


class States:
    """The states of a node, FOLDER/state-NODE-CLOCK.pt.

        with paceline.torch.attach(model, optimizer, "my.yaml", existing="continue") as run:
            states = paceline.torch.States(run)
            for x, y in batches_from(run.position):
                …
                optimizer.step()
                states.keep()

    run: what attach() or pipeline() returned. folder: of this run alone; None: "states" in run.out. also: what else goes on, by
    names of the loop's own, as {"scheduler": scheduler, "scaler": scaler}: each has PyTorch's state_dict() and load_state_dict().
    After a resume it loads the state that is needed, else it removes what an earlier run has left there.
    Errors: those of load_state_dict(), OSError; ValueError for what `also` has of another kind, or the state lacks, and for
    checkpoint.every where the state has an optimizer's, as any clock could be a checkpoint's: all states would stay until the next one.
    """

    def __init__(self, run, folder: Union[None, str, "os.PathLike[str]"] = None, also: Mapping[str, Any] = {}):
        self._run, worker, self._also = run, run.worker, dict(also)
        for name, each in self._also.items():
            if not (hasattr(each, "state_dict") and hasattr(each, "load_state_dict")):
                raise ValueError(f"also: got {each!r} as {name!r}, expected what has state_dict() and load_state_dict()")
        self._checkpoints = pathlib.Path(worker.value("run.out"), "checkpoint")
        self._folder = pathlib.Path(worker.value("run.out"), "states") if folder is None else pathlib.Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._ends_ahead = ends_ahead(worker)
        self._exact = worker.value("sync.policy") == "bsp"
        every, every_time = worker.value("checkpoint.every_clocks"), worker.value("checkpoint.every")
        if every_time != "null" and run.state_dict().get("optimizer") is not None:
            raise ValueError(f"checkpoint.every: got {every_time} with mode='worker', expected checkpoint.every_clocks alone, whose states "
                             "are few")
        # Else any round may be the last ahead of a checkpoint.
        self._every: Optional[int] = int(every) if every != "null" and every_time == "null" else None
        self._checkpoints_kept = int(worker.value("checkpoint.keep"))
        self._file_of = re.compile(rf"state-{worker.node}-(\d+)\.pt")
        self._clock = run.clock
        if worker.existing == "continue":
            self.load()
        else:
            self._remove(self._there())

    def load(self) -> None:
        """The state of run.clock goes into the run, or where there is none the newest before it; without any the loop begins
        anew, which is warned of. Those of steps that are taken anew go. Where gradients are applied on arrival a loop that was ahead
        at a stop goes on with its last state, whose file is of run.clock from here on. To be called in on_resume(), too."""
        self._clock = self._run.clock
        there = self._there()
        newest = max((clock for clock in there if clock <= self._clock), default=None)
        last = max(there, default=0)
        if self._ends_ahead and last > self._clock > 0 and torch.load(self._path(last)).get("over"):
            os.replace(self._path(last), self._path(self._clock))
            there, newest = there - {last}, self._clock
        if newest is not None and self._clock > 0:
            state = torch.load(self._path(newest))
            kept = state.pop("also", {})
            if set(kept) != set(self._also):
                raise ValueError(f"also: got {sorted(self._also)}, expected {sorted(kept)}, as {self._path(newest)} has")
            self._run.load_state_dict(state)
            for name, each in self._also.items():
                each.load_state_dict(kept[name])
        self._remove(clock for clock in there if clock > self._clock)

    def keep(self) -> None:
        """After each step: writes the state of each clock, and removes those that no resume needs. The newest stays, and those that
        a checkpoint is of, or may come to be of. Where run.out has no checkpoints, as on another machine than the servers', and with
        checkpoint.every, all stay. Called at each checkpoint.every_clocks-th clock and the last alone, it writes less. From a checkpoint between two, as
        SIGUSR2, checkpoint.keep_best and a loss of all nodes make one, a loop of attach() then goes on with an older state, under bsp
        with a warning; a pipeline()'s is refused there under bsp."""
        clock = self._run.clock
        if clock == self._clock:
            return
        self._clock = clock
        unfinished = self._path(clock).with_suffix(".part")
        torch.save({**self._run.state_dict(), "also": {name: each.state_dict() for name, each in self._also.items()}}, unfinished)
        os.replace(unfinished, self._path(clock))  # a loop that is killed leaves none that is half
        self._remove(self._there() - self._needed())

    def _needed(self):
        try:
            names = os.listdir(self._checkpoints)
        except OSError:
            names = []
        versions = [int(match[1]) for match in map(_CHECKPOINT.fullmatch, names) if match]
        found = needed(self._there(), versions, self._exact, self._every)
        if versions or self._every is None:
            return found
        return set(sorted(found)[-(self._checkpoints_kept + _LAG_MAX):])

    def _there(self) -> Set[int]:
        found = (self._file_of.fullmatch(name) for name in os.listdir(self._folder))
        return {int(match[1]) for match in found if match}

    def _path(self, clock):
        return self._folder / f"state-{self._run.worker.node}-{clock}.pt"

    def _remove(self, clocks):
        for clock in clocks:
            self._path(clock).unlink()
