"""A JAX loop as a Paceline worker: parameters and gradients are pytrees.

    import paceline.jax
    with paceline.jax.attach(params, "my.yaml", node=rank) as run:
        params = run.params
        while not run.over:
            loss, grads = loss_and_gradient(params, batch())
            params = run.step(grads, loss=loss)

The servers take the step (train.optimizer). step() is called outside of jit. What it returns lies in memory of JAX's own.
"""

from typing import Any, Callable, Optional, Sequence, Tuple

import jax
import numpy as np

from paceline.worker import Worker, check_world, node_of

__all__ = ["Attached", "attach"]


def attach(params: Any, config: str, node: Optional[int] = None, *,
           evaluate: Optional[Callable[[Any], Tuple[float, int, int]]] = None, overrides: Sequence[str] = (),
           existing: str = "refuse", hang_timeout: Optional[float] = None) -> "Attached":
    """Makes the loop around `params`, a pytree of float32 arrays, node `node` of the run that `config`, a YAML file,
    describes; None: RANK of the environment. Waits until all nodes have joined; `run.params` are then node 0's.
    evaluate(params) returns (mean loss, correct, samples) on test data; it is called on a thread of the library's.
    overrides, existing, hang_timeout: as paceline.Worker.
    Errors: paceline.Error; ValueError for a leaf that is not float32, by its path.
    """
    return Attached(params, config, node_of(node), evaluate, overrides, existing, hang_timeout)


class Attached:
    """What attach() returns: a context, inside of which the loop is a worker."""

    def __init__(self, params, config, node, evaluate, overrides, existing, hang_timeout):
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        self._names = [jax.tree_util.keystr(path) for path, _ in leaves]
        self._shapes = []
        self.worker = Worker(config, node, overrides=overrides, existing=existing, hang_timeout=hang_timeout)
        self.out = self.worker.value("run.out")  # the run's folder; on the servers' machines
        try:
            check_world(self.worker)
            for name, (_, leaf) in zip(self._names, leaves):
                if np.dtype(leaf.dtype) != np.float32:
                    raise ValueError(f"parameter {name}: got {leaf.dtype}, expected float32")
                self.worker.add_tensor(name, leaf.shape)
                self._shapes.append(leaf.shape)
            initial = np.concatenate([np.asarray(leaf).reshape(-1) for _, leaf in leaves])
            self.worker.start(initial, None if evaluate is None else lambda flat: evaluate(self._unflat(flat)))
            self.params = params
            self._receive()
        except BaseException as error:
            self.worker.__exit__(type(error), error, None)
            raise

    @property
    def over(self) -> bool:
        """Whether the run is over: `params` stay as they are, and the next step() ends the `with`."""
        return self.worker.over

    @property
    def clock(self) -> int:
        """The step that comes next, from 0 on; behind a resume, and where the servers have gone back to a checkpoint, the one
        that the parameters are of: where the loop's data goes on. The servers' checkpoints have all else."""
        return self.worker.clock

    def step(self, grads: Any, *, loss: Any = 0.0, correct: int = 0, samples: Optional[int] = None) -> Any:
        """Sends the gradient, a pytree like the parameters, of the mean over the mini-batch; waits, and returns the next
        parameters. loss: the mean over the mini-batch. samples: its size; None: train.batch_size.
        Raises RunOver once the run is over, its Stopped where it was stopped. Errors: paceline.Error; ValueError for another tree or shape.
        """
        self.worker.check_goes_on()
        leaves, tree = jax.tree_util.tree_flatten_with_path(grads)
        names = [jax.tree_util.keystr(path) for path, _ in leaves]
        if tree != self._tree:
            raise ValueError(f"gradient: got the leaves {', '.join(names)}, expected {', '.join(self._names)}")
        flat, begin = self.worker.under_way.gradient, 0
        for name, shape, (_, leaf) in zip(names, self._shapes, leaves):
            if leaf.shape != shape:
                raise ValueError(f"gradient {name}: got shape {leaf.shape}, expected {shape}")
            # A view of JAX's memory lives no longer than this line: it would turn donation off.
            flat[begin:begin + leaf.size] = np.asarray(leaf).reshape(-1)
            begin += leaf.size
        self.worker.finish(loss=float(loss), correct=int(correct), samples=samples)
        self._receive()
        return self.params

    def close(self) -> None:
        """Ends what attach() began."""
        self.worker.__exit__(None, None, None)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, kind, error, trace) -> bool:
        return self.worker.__exit__(kind, error, trace)

    def _receive(self):
        round = self.worker.begin()
        if round is not None:
            self.params = self._unflat(round.parameters)

    def _unflat(self, flat):
        """A pytree of JAX's own memory. The worker's is received into again: JAX may read what it is given, or keep it, long
        after a call has returned, so it is given a copy that nobody else has."""
        own, begin, leaves = flat.copy(), 0, []
        for shape in self._shapes:
            size = int(np.prod(shape, dtype=np.int64))
            leaves.append(jax.numpy.asarray(own[begin:begin + size].reshape(shape)))
            begin += size
        return jax.tree_util.tree_unflatten(self._tree, leaves)
