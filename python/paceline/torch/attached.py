"""A model and its optimizer while they are attached: what attach() returns."""

import copy
import sys
import warnings
import weakref
from itertools import zip_longest
from typing import List, Optional

import numpy as np
import torch

from paceline import _outer
from paceline._resumed import Resumed, gone_back
from paceline.torch import rules, staging
from paceline.torch.ahead import Ahead
from paceline.torch.averaged import Averaged, OwnBuffers
from paceline.torch.hooks import Hook
from paceline.torch.samples import RoundSamples
from paceline.torch.scaling import Scaling
from paceline.torch.spectral import vectors_to_send
from paceline.torch.tensors import Model, check_is_whole, clean, is_empty
from paceline.worker import RunOver, Worker, check_world

_attached: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # optimizers and models, while attached

# `data` or a key of it, but for how many samples an epoch has, which the library itself reads.
_DATA = r"""data(?!\.train_samples\b)(?!["']?\s*:\s*\{?\s*["']?train_samples["']?\s*:[^\n,}]*\s*(?:\}|\n\S|\Z))(?:\.\w+)?"""


class Attached:
    """What attach() returns: a context, inside of which the loop is a worker."""

    def __init__(self, model, optimizer, config, node, *, mode, local_steps, overlap, buffers, evaluate, on_resume, overrides, existing,
                 hang_timeout):
        self.model, self.optimizer = model, optimizer
        self._server_side = self._check(mode, local_steps, overlap)
        averaged = Averaged(buffers)
        self._local_steps, self._taken = local_steps, 0
        self._skipped = 0        # of those taken: without effect, as GradScaler has found an inf
        self._on_resume = on_resume
        self._samples = RoundSamples()
        self._depth = 0          # of step(), which a subclass's may call again
        self._handles = []
        self._kept = []          # parameters and gradients, while step() does not see them
        self._finished = False
        self._received = False
        self._views: dict = {}   # arrays of the worker as tensors, by their ids
        self._ahead = None       # overlap: what has left
        self._scaling = None
        described = Model(model, optimizer, self._server_side, averaged)
        self.worker = Worker(config, node, overrides=overrides, existing=existing, hang_timeout=hang_timeout)
        self.out = self.worker.value("run.out")  # the run's folder; on the servers' machines
        try:
            self._check_run(config, overrides)
            described.describe(self.worker)
            self._tensors = described.tensors
            self._samples.count_on(described.device)
            self.way = staging.way_to(described.device, self.worker.floats)
            self._scaling = Scaling(optimizer, self.worker.value("train.on_nan"))
            self._groups = self._options_of_groups()
            self._own_buffers = None if averaged.leaves_none_to_its_node else OwnBuffers(self._named_own_buffers())
            self.trained = {id(t.parameter) for t in self._tensors if t.trained}  # what the optimizer steps
            self._start(evaluate)
            self._receive()
            self._resumed = Resumed(self.worker, rejoins=True)
            self._hook(overlap)
            self._warn_of_settings(config, overrides)
        except BaseException as error:
            self._finish(type(error), error)
            raise
        _attached[model] = _attached[optimizer] = weakref.ref(self)

    # ---- for the loop

    def report(self, loss, correct: Optional[int] = None, samples: Optional[int] = None) -> None:
        """What the round says of a mini-batch: the mean loss, for the curve and for policies that follow the progress;
        samples: its size, else what model() was given since the last report(), by the first dimension of its first tensor, or where
        it was given none train.batch_size. correct: of them; None: nobody has counted.
        Calls of one round add up. Without any, the run's training loss is 0."""
        self._samples.forget_thrown_away(self._tensors)
        self._samples.report(loss, correct, samples, self._unseen())

    @property
    def over(self) -> bool:
        """Whether the run is over: the model stays as it is, and the next step() ends the `with`."""
        return self.worker.over

    @property
    def clock(self) -> int:
        """Rounds that this node has completed; of a run that goes on, those of the checkpoint, too."""
        return self.worker.clock

    @property
    def position(self) -> int:
        """Samples that model() was given in training, also ahead of a resume (load_state_dict()): where the data goes on. A round
        where it was given none, as in eval mode, by model.part(x) or in a dict, has those of report(), or train.batch_size a step.
        Asked for before a resume's states are loaded it is 0, with a warning."""
        if not self._finished:
            self._warn_if_not_loaded()
        return self._samples.position

    def state_dict(self) -> dict:
        """What a checkpoint of the servers does not have: "clock", whether the run is "over" there, "position", and with
        mode="worker" the "optimizer"'s state with the names of its "parameters", in their order.
        To be kept by clock: after a resume run.clock says which one is needed, or else the newest before it
        (load_state_dict()). Errors: ValueError between two exchanges, with local steps."""
        self._check_between("state_dict()")
        return {"clock": self.clock, "over": self.over, "position": self._samples.position, "parameters": self._names_of_optimizer(),
                "optimizer": None if self._server_side else self.optimizer.state_dict()}

    def load_state_dict(self, state: dict) -> None:
        """After a resume, ahead of the first step, and in on_resume(). The state is that of run.clock. Under another policy than
        bsp, where nodes that were behind go on at one clock with the others, an earlier one does; so does it, with a warning, under
        bsp, where a node that was lost comes back to a run that has gone on. Where gradients are applied on arrival (asp) a
        stopped run goes on at its slowest node's clock, and each node with its last state, which is "over". Errors: ValueError for
        any other of a later clock, another mode, or an optimizer of other parameters or another order of them, or one that an
        earlier version made, without "parameters"; and between two exchanges. A learning rate scheduler is built before: a warmup
        of PyTorch's scales the rate that it finds, for good."""
        self._check_between("load_state_dict()")
        self._resumed.check_clock(state)
        if (state["optimizer"] is None) != self._server_side:
            modes = ("worker", "server") if self._server_side else ("server", "worker")
            raise ValueError("load_state_dict(): got a state of mode='{}', expected one of mode='{}'".format(*modes))
        if not self._server_side:
            if "parameters" not in state:
                raise ValueError("load_state_dict(): got a state without its optimizer's 'parameters', as earlier versions made it, "
                                 "expected one that this version's state_dict() made")
            # PyTorch would give each parameter the state of the one that had its place, whatever their names.
            for saved, own in zip_longest(state["parameters"], self._names_of_optimizer()):
                if saved != own:
                    raise ValueError(f"load_state_dict(): got an optimizer's state with '{saved}' where this one has '{own}', "
                                     "expected the same parameters in the same order")
            self.optimizer.load_state_dict(state["optimizer"])
        self._samples.position = state["position"]
        self._resumed.was_loaded()

    def _warn_if_not_loaded(self):
        self._resumed.warn_if_not_loaded("run.position begins at 0" + ("" if self._server_side else ", and the optimizer anew"))

    def _names_of_optimizer(self):
        by_id = {id(p): clean(name) for name, p in self.model.named_parameters()}
        return [by_id.get(id(p)) for group in self.optimizer.param_groups for p in group["params"]]

    def _check_between(self, who):
        if self._taken > 0:
            raise ValueError(f"{who}: got {self._taken} of {self._local_steps} local steps taken, expected it after the last, where run.clock "
                             "has changed")

    def close(self) -> None:
        """Ends what attach() began: the loop has come to its end, and the optimizer is its own again."""
        self._finish(None, None)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, kind, error, _) -> bool:
        self._finish(kind, error)
        return kind is not None and issubclass(kind, RunOver)

    def _finish(self, kind, error):
        if self._scaling is not None:
            self._scaling.close()
        for handle in self._handles:
            handle.remove()
        self._handles = []
        if self._finished:
            return  # close() inside of the `with`
        self._finished = True
        _attached.pop(self.model, None)
        _attached.pop(self.optimizer, None)
        self._views.clear()
        self.worker.__exit__(kind, error, None)

    # ---- what can be exchanged

    def _check(self, mode, local_steps, overlap):
        _outer.local_steps_of(mode, local_steps)
        if overlap and mode == "worker":
            raise ValueError("overlap: got True with mode='worker', expected mode='server': a delta is known at the end")
        if overlap and not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            raise ValueError(f"overlap: torch {torch.__version__} does not tell when a gradient is done, expected 2.1 or newer")
        for what, name in ((self.model, "model"), (self.optimizer, "optimizer")):
            if what in _attached:
                raise ValueError(f"{name}: it is attached already, expected one attach() at a time")
        check_is_whole(self.model)
        if mode == "worker" and callable(getattr(self.optimizer, "eval", None)):  # as those of schedule-free
            raise ValueError(f"optimizer: got {type(self.optimizer).__name__}, which has an eval() of its own, with mode='worker', "
                             "expected one that steps the weights that are evaluated: what eval() makes those of is not averaged")
        return mode == "server"

    def _check_run(self, config, overrides):
        worker = self.worker
        check_world(worker)
        if worker.value("train.batch_balance") != "off":
            raise ValueError(f"train.batch_balance: got {worker.value('train.batch_balance')}, expected off: the loop's loader says how "
                             "large a mini-batch is")
        if self._server_side:
            rules.check(self.optimizer, worker.value)
            return
        _outer.check(worker, config, overrides)

    def _warn_of_settings(self, config, overrides):
        """Those that nobody has said, and that nobody reads."""
        if "paceline.data" not in sys.modules and rules.given_keys(config, overrides, [_DATA]):
            self.worker.warn("the configuration says data, expected none: this program has not imported paceline.data, which reads it")
        differ = []
        if self._server_side:
            differ = rules.defaults_that_differ(self.optimizer, self.worker.value, rules.given_keys(config, overrides))
        if differ:
            self.worker.warn("the servers' optimizer steps with defaults: " + ", ".join(differ))
        if not self._server_side:
            _outer.warn(self.worker)

    def _start(self, evaluate):
        initial = np.empty(self.worker.floats, np.float32)
        with torch.no_grad():
            for t in self._tensors:
                initial[t.offset:t.end] = t.tensor().detach().float().cpu().numpy().reshape(-1)
        self.worker.start(initial, None if evaluate is None else self._evaluator(evaluate))

    def _evaluator(self, evaluate):
        try:
            twin = copy.deepcopy(self.model).eval()
        except RuntimeError as error:
            raise ValueError(f"evaluate: got a model that cannot be copied ({str(error).splitlines()[0]}), expected one that can, as with "
                             "torch.nn.utils.parametrizations.weight_norm, or attach() before its first forward pass") from error
        tensors = {**dict(twin.named_parameters()), **dict(twin.named_buffers())}
        of_run = [(t, tensors[name]) for t, name in zip(self._tensors, self._names())]
        exchanged = {id(tensor) for _, tensor in of_run}
        threads = torch.get_num_threads()
        names_of_own = [name for name, buffer in twin.named_buffers() if id(buffer) not in exchanged]  # as counters

        def measure(flat):
            torch.set_num_threads(threads)  # a thread that has not asked for their number takes all cores
            own = dict(self.model.named_buffers())
            with torch.no_grad():
                for t, tensor in of_run:
                    tensor.copy_(torch.from_numpy(flat[t.offset:t.end]).view(tensor.shape))
                for name in names_of_own:
                    tensors[name].copy_(own[name])
                torch.clear_autocast_cache()
                return evaluate(twin)
        return measure

    def _names(self):
        by_id = {id(each): name for name, each in (*self.model.named_parameters(), *self.model.named_buffers())}
        return [by_id[id(t.tensor())] for t in self._tensors]

    # ---- the hooks

    def _hook(self, overlap):
        self._handles.append(self.optimizer.register_step_pre_hook(self._before_step))
        self._handles.append(self.optimizer.register_step_post_hook(self._after_step))
        self._handles.append(self.model.register_forward_pre_hook(Hook(self._count_samples), with_kwargs=True))
        if hasattr(self.model, "register_load_state_dict_post_hook"):
            self._handles.append(self.model.register_load_state_dict_post_hook(Hook(self._check_model)))
        if self._server_side:
            self._handles += [t.parameter.register_hook(self._see_gradient) for t in self._tensors if t.trained]
        if overlap:
            for name in compiled(self.model):
                warnings.warn(f"overlap: {name} is compiled, and hands its gradients over after the whole of its backward(): nothing "
                              "of it overlaps", stacklevel=4)
            self._ahead = Ahead(self, self._tensors)
            self._handles += [t.parameter.register_post_accumulate_grad_hook(self._ahead.hook_of(t))
                              for t in self._tensors if t.trained]

    def _see_gradient(self, _):
        self._samples.had_gradients = True

    def _count_samples(self, model, args, kwargs):
        if model is not self.model:  # a copy that shares its hooks
            return
        self._depth = 0  # no step() is under way, though one may have raised
        if self.over or not (model.training and torch.is_grad_enabled()):  # over: the step after it does not happen
            return
        self._samples.forget_thrown_away(self._tensors)
        self._samples.saw(args, kwargs)

    def _before_step(self, optimizer, args, kwargs):
        self._depth += 1
        if self._depth > 1:
            return
        try:
            self.worker.check_goes_on()
            if self.worker.under_way is None:
                raise RuntimeError("optimizer.step(): no round is under way, expected none of an earlier step's errors")
            if any(argument is not None for argument in (*args[1:], *kwargs.values())):  # args[0]: the optimizer
                raise ValueError("optimizer.step(): got a closure, expected none: backward() comes before step()")
            self._check_groups()
            self._warn_of_what_does_not_count()
            self._warn_if_not_loaded()
            scaled = self._scaling.of_step()
            if self._server_side:
                self._push_gradients(scaled)
            elif scaled is not None:
                self._take_scaled(scaled)
        except BaseException:
            self._depth = 0
            raise

    def _after_step(self, optimizer, args, kwargs):
        self._depth -= 1
        if self._depth > 0:
            return
        for parameter, gradient in self._kept:
            parameter.grad = gradient
        self._kept = []
        if not self._server_side:
            self._taken += 1
            if self._taken < self._local_steps:
                torch.clear_autocast_cache()  # as where parameters are received
                return
            self._push_delta()
        self._taken = self._skipped = 0
        expected = self.clock
        self._receive()
        if self.clock < expected:
            self._go_back(expected)

    def _go_back(self, expected):
        """The servers have come back with a checkpoint (cluster.reconnect_timeout); the model has its parameters by now."""
        if self._on_resume is not None:
            self._on_resume(self)
        elif not self._server_side and self.optimizer.state:
            raise gone_back("optimizer.step()", expected, self.clock)

    def _named_own_buffers(self):
        exchanged = {id(t.tensor()) for t in self._tensors}
        return [(clean(name), buffer) for name, buffer in self.model.named_buffers() if id(buffer) not in exchanged]

    def _options_of_groups(self):
        return [{what: float(group.get(what, 0)) for what in ("lr", "weight_decay")} for group in self.optimizer.param_groups]

    def _warn_of_what_does_not_count(self):
        """Once each: a scheduler's rates where the servers have their own, and buffers that will not be those of other nodes."""
        if self._own_buffers is not None:
            changed, self._own_buffers = self._own_buffers.changed(self._named_own_buffers()), None
            if changed:
                self.worker.warn(f"training changes buffers that are each node's own: {changed}; attach(buffers=[…]) averages those "
                                 "that it names")
        if not self._server_side or self._groups is None:
            return
        for before, now in zip(self._groups, self._options_of_groups()):
            for what, where in (("lr", "the rate is train.optimizer.schedule's"), ("weight_decay", "the decay is train.optimizer's")):
                if now[what] != before[what]:
                    self.worker.warn(f"the local optimizer's {what} has changed from {before[what]:g} to {now[what]:g}: with mode='server' "
                                     f"{where}")
                    self._groups = None
                    return

    def _check_groups(self):
        now = {id(p) for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad and not is_empty(p)}
        if now <= self.trained:
            return
        names = {id(p): clean(name) for name, p in self.model.named_parameters()}
        name = next(names.get(i, "a tensor that is not the model's") for i in now - self.trained)
        raise ValueError(f"optimizer: steps '{name}', which was not trained at attach(), expected the parameters of then")

    def _check_model(self, *_):
        now = {id(p) for p in self.model.parameters() if not is_empty(p)}
        parameters = [t for t in self._tensors if t.parameter is not None]
        lost = [t.name for t in parameters if id(t.parameter) not in now]
        if lost or len(now) != len(parameters):
            raise ValueError(f"model: load_state_dict() has replaced parameters ('{lost[0] if lost else 'one more'}'), "
                             "expected values in place (no assign=True)")
        self._received = False  # what is frozen comes back, too

    # ---- the exchange

    def _push_gradients(self, scaled):
        if self._ahead is not None:
            if scaled is not None:
                raise ValueError("overlap: got a GradScaler, expected none: gradients have left with its scale")
            self._ahead.check()
        out = self.outgoing()
        scale = None if scaled is None else scaled.scale
        gradients = [None if t.parameter is None else t.parameter.grad for t in self._tensors]
        with torch.no_grad():
            for t, gradient in zip(self._tensors, gradients):
                if self._ahead is None or not self._ahead.has_left(t):
                    t.write(out[t.offset:t.end], gradient, scale)
            if self._ahead is not None:
                self._ahead.complete()
            self.way.wait()
            self.leave(0, self.worker.floats if self._ahead is None else self._ahead.left_from())
            if scaled is not None and scaled.found_inf:
                self._contribute_nothing()
        self._finish_round()
        self._hide_gradients()

    def _contribute_nothing(self):
        """The round's clock closes without this worker, in an all-reduce without any (train.on_nan: skip)."""
        self._flat(self.worker.under_way.gradient).fill_(float("nan"))

    def _hide_gradients(self):
        """From step(): it leaves a parameter without a gradient as it is."""
        self._kept = [(t.parameter, t.parameter.grad) for t in self._tensors if t.parameter is not None]
        for parameter, _ in self._kept:
            parameter.grad = None

    def _take_scaled(self, scaled):
        """The model's own optimizer is about to step. One that is not fused finds what unscale_() would have left, or nothing."""
        self._skipped += scaled.found_inf
        if self._scaling.is_fused:
            return
        if scaled.found_inf:
            self._hide_gradients()
        elif scaled.scale is not None:
            for t in self._tensors:
                if t.trained and t.parameter.grad is not None:
                    t.parameter.grad.div_(scaled.scale)

    def outgoing(self):
        """Where the round's gradient is written."""
        return self.way.outgoing(self._flat(self.worker.under_way.gradient))

    def leave(self, begin, end):
        """Elements [begin, end) have been, and have come."""
        self.way.leave(self._flat(self.worker.under_way.gradient), begin, end)

    def _push_delta(self):
        flat, out = self._flat(self.worker.under_way.gradient), self.outgoing()
        before = self._flat(self.worker.under_way.parameters)
        with torch.no_grad():
            # Without local steps the weights that all nodes look at are those that came.
            instead = vectors_to_send(self.model, self._tensors, before) if self._local_steps > 1 else {}
            for t in self._tensors:
                t.write_now(out[t.offset:t.end], instead.get(t.name))
            self.way.wait()
            self.leave(0, self.worker.floats)
            for t in self._tensors:
                t.make_delta(flat[t.offset:t.end], before[t.offset:t.end])
            if self._skipped == self._taken:
                self._contribute_nothing()
        # The run may go on without what is not finite, but not with this state. In parts: what is looked at is copied several times.
        is_checked = self._skipped < self._taken
        if is_checked and not all(torch.isfinite(part).all() for part in flat.split(1 << 18)):
            self.worker.warn("the parameters are no longer finite; the optimizer's state begins anew")
            self.optimizer.state.clear()
        self._finish_round()

    def _finish_round(self):
        loss, correct, samples = self._samples.of_round(self._unseen() * max(self._taken, 1))
        self.worker.finish(loss, correct=correct, samples=samples)

    def _unseen(self):
        """Samples of a mini-batch that model() was not given."""
        return self.worker.under_way.samples if self.worker.under_way is not None else 0

    def _receive(self):
        """The next round's parameters, in place; nothing where the run is over."""
        round = self.worker.begin()
        if self._ahead is not None:
            self._ahead.begin()
        if round is None:
            return
        flat = self.way.incoming(self._flat(round.parameters))
        with torch.no_grad():
            for t in self._tensors:
                if t.trained or t.is_averaged or not self._received:  # the others never change
                    tensor = t.tensor()
                    staging.copy(tensor, flat[t.offset:t.end].view(tensor.shape))
        self.way.wait()
        torch.clear_autocast_cache()  # of what the parameters were
        self._received = True

    def _flat(self, array):
        """The worker's array as a tensor over the same memory."""
        kept = self._views.get(id(array))
        if kept is None or kept[0] is not array:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # read-only memory, which is only read here
                kept = self._views[id(array)] = (array, torch.from_numpy(array))
        return kept[1]


def compiled(model: torch.nn.Module) -> List[str]:
    """What of a model torch.compile() or compile() has taken, the outermost. What is compiled around the model it cannot say."""
    found = []
    for name, module in model.named_modules():
        if "_orig_mod" in module._modules or getattr(module, "_compiled_call_impl", None) is not None:
            if not any(name.startswith(outer and outer + ".") for outer in found):
                found.append(name)
    return [f"'{clean(name)}'" if clean(name) else "the model" for name in found]
