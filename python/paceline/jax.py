"""A JAX loop as a Paceline worker: parameters and gradients are pytrees.

    import paceline.jax
    with paceline.jax.attach(params, "my.yaml", node=rank) as run:
        params = run.params
        while not run.over:
            loss, grads = loss_and_gradient(params, batch())
            params = run.step(params, grads, loss=loss)

Two ways:

    mode="server"   gradients go to the servers, whose optimizer (train.optimizer) takes the step.
    mode="worker"   the loop takes the steps, with optax or its own rule, and says so: params = run.step(params, loss=loss). After
                    `local_steps` of them what has changed goes to the servers, which average it (train.optimizer:
                    {kind: sgd, lr: 1}), or take an outer step with it (DiLoCo's: momentum with nesterov).

step() is called outside of jit. What it returns from an exchange lies in memory of JAX's own.
"""

from itertools import zip_longest
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

import jax
import numpy as np

from paceline import _outer
from paceline._resumed import Resumed, gone_back
from paceline.worker import Worker, check_evaluate, check_world, node_of

__all__ = ["Attached", "attach"]


def attach(params: Any, config: str, node: Optional[int] = None, *, mode: str = "server", local_steps: int = 1,
           trainable: Any = True, lr_factor: Any = 1.0, decay_factor: Any = 1.0, role: Any = "weight",
           evaluate: Optional[Callable[[Any], Tuple[float, Optional[int], int]]] = None,
           on_resume: Optional[Callable[["Attached"], None]] = None, overrides: Sequence[str] = (),
           existing: str = "refuse", hang_timeout: Optional[float] = None) -> "Attached":
    """Makes the loop around `params`, a pytree of float32 arrays, node `node` of the run that `config`, a YAML file,
    describes; None: RANK of the environment. Waits until all nodes have joined; `run.params` are then node 0's.

    trainable: of each leaf, whether it is; the others stay as node 0's. lr_factor, decay_factor: with mode="server", what multiplies
    the servers' learning rate and weight decay. role: "weight", "bias" or "norm", of which the last two are treated apart by
    lars, lamb and train.optimizer.decay. Each is one value for all, or a tree like params, of which a leaf may stand for a
    whole branch.
    evaluate(params) returns (mean loss, correct or None, samples) on test data; it is called on a thread of the library's.
    on_resume(run) is called in step() where this process has outlived its servers, and they go on from a checkpoint: the state of
    run.clock counts then (load_state_dict()). With mode="worker" the loop ends there without it.
    overrides, existing, hang_timeout: as paceline.Worker; the time is that from one exchange to the next.
    Errors: paceline.Error; ValueError for what cannot be exchanged, by the leaf's path.
    """
    check_evaluate(evaluate)
    return Attached(params, config, node_of(node), mode=mode, local_steps=local_steps, trainable=trainable, lr_factor=lr_factor,
                    decay_factor=decay_factor, role=role, evaluate=evaluate, on_resume=on_resume, overrides=overrides, existing=existing,
                    hang_timeout=hang_timeout)


class _Leaf(NamedTuple):
    """One of the parameters, and its place [begin, end) in the flat vector."""

    name: str
    shape: Tuple[int, ...]
    trained: bool
    begin: int
    end: int


class Attached:
    """What attach() returns: a context, inside of which the loop is a worker."""

    def __init__(self, params, config, node, *, mode, local_steps, trainable, lr_factor, decay_factor, role, evaluate, on_resume,
                 overrides, existing, hang_timeout):
        self._local_steps, self._taken = _outer.local_steps_of(mode, local_steps), 0
        self._server_side, self._on_resume = mode == "server", on_resume
        self._ahead = 0  # steps that a loaded state has beyond those of the clock
        self._samples = 0
        self._measured: list = []  # (loss, correct, samples) of the round's mini-batches; a loss may still be under way on its device
        leaves, self._tree = jax.tree_util.tree_flatten_with_path(params)
        _check_leaves(leaves)
        factors = [_of_each("trainable", trainable, params, (bool, np.bool_), "True or False"),
                   *(_of_each(what, given, params, (int, float, np.number), "a number") for what, given in
                     (("lr_factor", lr_factor), ("decay_factor", decay_factor))),
                   _of_each("role", role, params, str, "'weight', 'bias' or 'norm'")]
        wrong = next((each for each in factors[3] if each not in ("weight", "bias", "norm")), None)
        if wrong is not None:
            raise ValueError(f"role: got {wrong!r}, expected 'weight', 'bias' or 'norm' for each leaf")
        if not any(factors[0]):
            raise ValueError("trainable: got no leaf that is, expected at least one")
        if not self._server_side and any(each != 1 for each in (*factors[1], *factors[2])):
            raise ValueError("lr_factor, decay_factor: got some with mode='worker', expected none: the loop's own steps have rates")
        self.worker = Worker(config, node, overrides=overrides, existing=existing, hang_timeout=hang_timeout)
        self.out = self.worker.value("run.out")  # the run's folder; on the servers' machines
        try:
            self._check_run(config, overrides)
            self._leaves = [self._described(_name_of(path), leaf, *each) for (path, leaf), *each in zip(leaves, *factors)]
            initial = np.concatenate([np.asarray(leaf).reshape(-1) for _, leaf in leaves])
            self.worker.start(initial, None if evaluate is None else lambda flat: evaluate(self._unflat(flat)))
            self.params = params
            self._receive()
            self._resumed = Resumed(self.worker, rejoins=True)
            if not self._server_side:
                _outer.warn(self.worker)
        except BaseException as error:
            self.worker.__exit__(type(error), error, None)
            raise

    def _check_run(self, config, overrides):
        check_world(self.worker)
        if not self._server_side:
            _outer.check(self.worker, config, overrides)

    def _described(self, name, leaf, trained, lr_factor, decay_factor, role):
        trained = bool(trained) and leaf.size > 0
        if leaf.size == 0:  # there is nothing to exchange
            return _Leaf(name, leaf.shape, trained, self.worker.floats, self.worker.floats)
        begin = self.worker.add_tensor(name, leaf.shape, role=role, trainable=trained, may_be_unused=self._server_side,
                                       lr_factor=float(lr_factor), decay_factor=float(decay_factor))
        return _Leaf(name, leaf.shape, trained, begin, self.worker.floats)

    # ---- for the loop

    @property
    def over(self) -> bool:
        """Whether the run is over: `params` stay as they are, and the next step() ends the `with`."""
        return self.worker.over

    @property
    def clock(self) -> int:
        """Rounds that this node has completed; after a resume, and where the servers have gone back to a checkpoint, those that the
        parameters are of."""
        return self.worker.clock

    @property
    def steps(self) -> int:
        """Mini-batches that this node has taken, those of its clocks and, with local steps, since: where the loop's data goes on, also
        after a resume, once its state is loaded."""
        return self.clock * self._local_steps + self._ahead + self._taken

    @property
    def samples(self) -> int:
        """Of the mini-batch that comes next: train.batch_size, or what train.batch_balance gives this node."""
        return self._samples

    def step(self, params: Any, grads: Any = None, *, loss: Any = 0.0, correct: Optional[int] = None, samples: Optional[int] = None) -> Any:
        """One mini-batch; returns the parameters of the next. With mode="server" it sends the gradient, of the mean over the
        mini-batch, a pytree like the parameters, waits, and has the servers' step. A leaf that is None has no gradient, and takes
        no step. `params` are what the gradient is of: those of the round. With mode="worker" `params` are those after the loop's
        own step, and there are no `grads`: they come back as they are, but after the last local step as the exchange leaves them.

        loss: the mean over the mini-batch, of which a round's counts. correct: of its samples; None: nobody has counted them.
        samples: its size; None: run.samples.
        Raises RunOver once the run is over, its Stopped where it was stopped. Errors: paceline.Error; ValueError for another tree or shape.
        """
        self.worker.check_goes_on()
        round = self.worker.under_way
        if round is None:
            raise RuntimeError("step(): no round is under way, expected none of an earlier step's errors")
        if self._server_side:
            self._write_gradient(round, params, grads)
        elif grads is not None:
            raise ValueError("step(): got gradients with mode='worker', expected the parameters alone, after the loop's own step")
        else:
            self._resumed.warn_if_not_loaded("the optimizer's state begins anew")
            leaves = self._matched("parameter", params)
            self.params = params  # also where the run ends here: the loop may have given the ones before away (donation)
        self._measured.append((loss, correct, self._samples if samples is None else samples))
        self._taken += 1
        if self._taken < self._local_steps:
            return params
        if not self._server_side:
            self._write_delta(round, leaves)
        self._exchange()
        return self.params

    def state_dict(self, state: Any) -> dict:
        """`state`, a pytree of arrays that no checkpoint of the servers has, as the optimizer's, in memory of NumPy's: {"clock",
        "steps", "over", "names", "leaves"}. To be kept whenever run.clock has changed: after a resume run.clock says which one is needed.
        Errors: ValueError between two exchanges, with local steps."""
        self._check_between("state_dict()")
        leaves, _ = jax.tree_util.tree_flatten_with_path(state)
        return {"clock": self.clock, "steps": self.steps, "over": self.over, "names": [jax.tree_util.keystr(path) for path, _ in leaves],
                "leaves": [np.array(leaf) for _, leaf in leaves]}

    def load_state_dict(self, saved: dict, state: Any) -> Any:
        """What was kept, as a pytree like `state`. After a resume, ahead of the first step, and in on_resume(). It is that of
        run.clock; under another policy than bsp an earlier one does, and so it does, with a warning, under bsp, where a node that
        was lost comes back to a run that has gone on. Where gradients are applied on arrival (asp) a
        stopped run goes on at its slowest node's clock, and each node with its last state, which is "over". Errors: ValueError for
        another clock, or another tree or shape."""
        self._check_between("load_state_dict()")
        self._resumed.check_clock(saved)
        leaves, tree = jax.tree_util.tree_flatten_with_path(state)
        own = [f"{jax.tree_util.keystr(path)} {np.shape(leaf)}" for path, leaf in leaves]
        kept = [f"{name} {np.shape(leaf)}" for name, leaf in zip(saved["names"], saved["leaves"])]
        for one, expected in zip_longest(kept, own, fillvalue="no more"):
            if one != expected:
                raise ValueError(f"load_state_dict(): got a state with {one} where this one has {expected}, expected the same tree")
        self._resumed.was_loaded()
        self._ahead = max(saved.get("steps", saved["clock"] * self._local_steps) - self.clock * self._local_steps, 0)
        return jax.tree_util.tree_unflatten(tree, [jax.numpy.asarray(leaf.copy()) for leaf in saved["leaves"]])

    def close(self) -> None:
        """Ends what attach() began."""
        self.worker.__exit__(None, None, None)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, kind, error, trace) -> bool:
        return self.worker.__exit__(kind, error, trace)

    # ---- the exchange

    def _check_between(self, who):
        if self._taken > 0:
            raise ValueError(f"{who}: got {self._taken} of {self._local_steps} local steps taken, expected it after the last, where run.clock has changed")

    def _matched(self, what, tree):
        """Its leaves in the order of the parameters', in a gradient None where it has none. Errors: ValueError for another tree or shape."""
        try:
            leaves = self._tree.flatten_up_to(tree)
        except (TypeError, ValueError):
            found, _ = jax.tree_util.tree_flatten_with_path(tree)
            raise ValueError(f"{what}: got the leaves {', '.join(_name_of(path) for path, _ in found) or 'of none'}, expected "
                             f"{', '.join(leaf.name for leaf in self._leaves)}") from None
        for own, leaf in zip(self._leaves, leaves):
            if leaf is None and what == "gradient" and tree is not None:  # params that are one array: None would be forgotten gradients
                continue
            if not hasattr(leaf, "dtype") or not jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating):
                raise ValueError(f"{what} {own.name}: got {_kind_of(leaf)}, expected an array of floats")
            if leaf.shape != own.shape:
                raise ValueError(f"{what} {own.name}: got shape {leaf.shape}, expected {own.shape}")
        return leaves

    def _write_gradient(self, round, params, grads):
        gradients = self._matched("gradient", grads)
        for own, leaf, last in zip(self._leaves, self._matched("parameter", params), jax.tree_util.tree_leaves(self.params)):
            if leaf is not last and not np.array_equal(np.asarray(leaf).reshape(-1), round.parameters[own.begin:own.end], equal_nan=True):
                raise ValueError(f"parameter {own.name}: got values that are not the round's with mode='server', expected what step() has "
                                 "returned: the servers take the steps")
        for own, leaf in zip(self._leaves, gradients):
            place = round.gradient[own.begin:own.end]
            if not own.trained:
                place[:] = 0
            elif leaf is None:
                place[:] = -0.0  # a step without it, unless another node has one (may_be_unused)
            else:
                # + 0.0: a -0.0 of the gradient's own becomes 0.0. A view of JAX's memory lives no longer than this line: it would
                # turn donation off.
                np.add(np.asarray(leaf).reshape(-1), np.float32(0), out=place, casting="same_kind")

    def _write_delta(self, round, leaves):
        for own, leaf in zip(self._leaves, leaves):
            place = round.gradient[own.begin:own.end]
            if not own.trained:
                place[:] = 0
                continue
            np.subtract(round.parameters[own.begin:own.end], np.asarray(leaf).reshape(-1), out=place, casting="same_kind")
            if not np.isfinite(place).all():  # the run may go on without this round, but not with this state
                self.worker.warn(f"parameter {own.name} is no longer finite at clock {round.clock}; begin the optimizer's state anew")

    def _exchange(self):
        samples = sum(each for *_, each in self._measured)
        loss = sum(float(loss) * each for loss, _, each in self._measured)
        counted = [correct for _, correct, _ in self._measured]
        correct = None if None in counted else sum(map(int, counted))
        self.worker.finish(loss=loss / max(samples, 1), correct=correct, samples=samples)
        self._measured, self._taken = [], 0
        expected = self.clock
        self._receive()
        if self.clock < expected:
            self._go_back(expected)

    def _go_back(self, expected):
        """The servers have come back with a checkpoint (cluster.reconnect_timeout); `params` are of it by now."""
        if self._on_resume is not None:
            self._on_resume(self)
        elif not self._server_side:
            raise gone_back("step()", expected, self.clock)

    def _receive(self):
        round = self.worker.begin()
        if round is not None:
            self._samples = round.samples
            self.params = self._unflat(round.parameters)

    def _unflat(self, flat):
        """A pytree of JAX's own memory. The worker's is received into again: JAX may read what it is given, or keep it, long
        after a call has returned, so it is given a copy that nobody else has."""
        own = flat.copy()
        return jax.tree_util.tree_unflatten(self._tree, [jax.numpy.asarray(own[leaf.begin:leaf.end].reshape(leaf.shape))
                                                         for leaf in self._leaves])


def _name_of(path):
    """A tree may be one array."""
    return jax.tree_util.keystr(path) or "params"


def _kind_of(leaf):
    return leaf.dtype if hasattr(leaf, "dtype") else f"a {type(leaf).__name__}"


def _check_leaves(leaves):
    if not leaves:
        raise ValueError("params: got no leaf, expected at least one")
    for path, leaf in leaves:
        if not hasattr(leaf, "dtype") or leaf.dtype != np.float32:
            raise ValueError(f"parameter {_name_of(path)}: got {_kind_of(leaf)}, expected an array of float32")


def _of_each(what, given, params, kinds, expected) -> List[Any]:
    """One for each leaf of params. Errors: ValueError for a tree that params have no branches for, and for what is of none of the kinds."""
    try:
        full = jax.tree_util.tree_map(lambda value, branch: jax.tree_util.tree_map(lambda _: value, branch), given, params)
    except (TypeError, ValueError):
        names = [_name_of(path) for path, _ in jax.tree_util.tree_flatten_with_path(given)[0]]
        raise ValueError(f"{what}: got a tree with {', '.join(names) or 'no leaf'}, expected one like params, or one value") from None
    each = jax.tree_util.tree_leaves(full)
    wrong = next((value for value in each if not isinstance(value, kinds)), None)
    if wrong is not None:
        raise ValueError(f"{what}: got {wrong!r}, expected {expected} for each leaf")
    return each
