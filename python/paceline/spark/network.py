"""The built-in network as what workers train, where there is no function of one's own:

    result = paceline.spark.train(frame, paceline.spark.Network([{"kind": "dense", "out": 2}], label="y"), config, num_workers=2)

One column is the label, from 0 on. The others are the input, side by side in their order: numbers without a place, or, where
it is one column of arrays within arrays, channels x height x width.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np

from paceline import network
from paceline.spark.shares import Shares


class Network(NamedTuple):
    """layers: as train.layers has them. label: the name of a column of whole numbers."""

    layers: Sequence[Mapping[str, Any]]
    label: str

    def check(self, shares: Shares, batch_size: int) -> None:
        """At the driver, before anything is started. Errors: ValueError for columns, paceline.Error for layers, that do not fit."""
        if self.label not in shares.shapes:
            raise ValueError(f"label: got '{self.label}', expected one of the columns {', '.join(shares.shapes)}")
        if len(shares.shapes) < 2:
            raise ValueError(f"columns: got '{self.label}' alone, expected an input beside the label")
        if self.label not in shares.labels:
            raise ValueError(f"column '{self.label}': is the label, expected single whole numbers")
        made = self._made(_input_of(self.label, shares.shapes), batch_size, 0)
        wrong = [value for of in shares.labels[self.label] for value in of if not 0 <= value < made.classes]
        if wrong:
            raise ValueError(f"column '{self.label}': got label {wrong[0]}, expected 0 to {made.classes - 1} as the last layer has "
                             f"{made.classes} outputs")

    def __call__(self, worker) -> Dict[str, Any]:
        """On each worker. Returns {"steps", "samples"} of it."""
        batches = worker.arrays()
        batch = next(batches)
        shapes = {name: column.shape[1:] for name, column in batch.items()}
        made = self._made(_input_of(self.label, shapes), worker.batch_size, worker.seed)
        steps = 0
        with worker.join(made) as joined:
            while True:
                round = joined.under_way or joined.begin()
                if round is None:
                    break
                y = batch[self.label]
                loss, correct = made.gradient(round.parameters, self._input(batch), y, round.gradient, round.position)
                joined.finish(loss, correct=correct, samples=len(y))
                steps, batch = steps + 1, next(batches)
        return {"steps": steps, "samples": steps * worker.batch_size}

    def _made(self, sizes, batch_size, seed) -> network.Network:
        return network.Network(self.layers, sizes, batch_size=batch_size, seed=seed)

    def _input(self, batch) -> np.ndarray:
        parts: List[np.ndarray] = [column.reshape(len(column), -1).astype(np.float32) for name, column in batch.items()
                                   if name != self.label]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _input_of(label: str, shapes: Mapping[str, tuple]) -> tuple:
    inputs = [tuple(shape) for name, shape in shapes.items() if name != label]
    if len(inputs) == 1 and 2 <= len(inputs[0]) <= 3:
        return (1, *inputs[0])[-3:]
    return (sum(int(np.prod(shape)) for shape in inputs), 1, 1)
