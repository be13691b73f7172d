"""A PyTorch loop as a Paceline worker:

    import paceline.torch
    with paceline.torch.attach(model, optimizer, "my.yaml", node=rank):
        for x, y in loader:
            loss = loss_of(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()

Two ways:

    mode="server"   gradients go to the servers, whose optimizer (train.optimizer) takes the step. optimizer.step() sends
                    them, and returns with the parameters of the next round in the model. The optimizer's own update does
                    not happen; of its groups, the ratios of the learning rates and of the weight decays count.
    mode="worker"   the model's own optimizer takes the steps, and after `local_steps` of them what has changed goes to the
                    servers, which average it (train.optimizer: {kind: sgd, lr: 1}), or take an
                    outer step with it (DiLoCo's: momentum with nesterov).

Parameters change in optimizer.step() alone, in place. When the run is over, the next step() raises paceline.RunOver, which
attach() takes back: the lines behind the `with` follow.
"""

import copy
import os
import warnings
import weakref
from typing import Callable, Optional, Sequence, Tuple

import numpy as np
import torch

from paceline.worker import RunOver, Worker

__all__ = ["Attached", "attach"]

_NORMS = (torch.nn.modules.batchnorm._NormBase, torch.nn.LayerNorm, torch.nn.GroupNorm)

_attached: "weakref.WeakKeyDictionary" = weakref.WeakKeyDictionary()  # optimizers and models, while attached


def attach(model: torch.nn.Module, optimizer: torch.optim.Optimizer, config: str, node: Optional[int] = None, *,
           mode: str = "server", local_steps: int = 1, overlap: bool = False,
           evaluate: Optional[Callable[[torch.nn.Module], Tuple[float, int, int]]] = None,
           overrides: Sequence[str] = (), existing: str = "refuse") -> "Attached":
    """Makes the loop around `model` and `optimizer` node `node` of the run that `config`, a YAML file, describes.

    Waits until all nodes have joined, and puts node 0's parameters into the model. node: from 0 on; None: RANK of the
    environment, as torchrun sets it. overlap: gradients leave while backward computes the rest, so nothing may change them
    any more: no accumulation over several backward(), no clipping, no GradScaler. evaluate(model) returns (mean loss,
    correct, samples) on test data; it is given a copy of the model, in eval mode, on a thread of its own. overrides,
    existing: as paceline.Worker.
    Errors: paceline.Error for what the run refuses; ValueError for a model that cannot be exchanged: what, where, expected.
    """
    if not hasattr(optimizer, "register_step_post_hook"):
        raise ValueError(f"torch {torch.__version__}: has no step hooks, expected 2.0 or newer")
    return Attached(model, optimizer, config, _node_of(node), mode=mode, local_steps=local_steps, overlap=overlap,
                    evaluate=evaluate, overrides=overrides, existing=existing)


def _node_of(node: Optional[int]) -> int:
    if node is not None:
        return node
    if "RANK" not in os.environ:
        raise ValueError("node: got none, expected node=…, or RANK in the environment (torchrun sets it)")
    return int(os.environ["RANK"])


def _clean(name: str) -> str:
    return ".".join(segment for segment in name.split(".") if segment != "_orig_mod")  # torch.compile's wrapper


class _Tensor:
    """A parameter and its place in the flat vector."""

    def __init__(self, name, parameter, offset):
        self.name, self.parameter, self.offset = name, parameter, offset
        self.end = offset + parameter.numel()


class Attached:
    """What attach() returns: a context, inside of which the loop is a worker."""

    def __init__(self, model, optimizer, config, node, *, mode, local_steps, overlap, evaluate, overrides, existing):
        self.model, self.optimizer = model, optimizer
        self._server_side = self._check(mode, local_steps, overlap)
        self._local_steps, self._taken = local_steps, 0
        self._depth = 0          # of step(), which a subclass's may call again
        self._handles = []
        self._kept = None        # gradients, while step() does not see them
        self._forget_samples()
        self._finished = False
        self._received = False
        self._views: dict = {}   # arrays of the worker as tensors, by their ids
        self._trained = set()    # ids of what the optimizer steps
        self._ahead = None       # overlap: what has left
        self._tensors: "list[_Tensor]" = []
        self.worker = Worker(config, node, overrides=overrides, existing=existing)
        self.out = self.worker.value("run.out")  # the run's folder; on the servers' machines
        try:
            self._check_run()
            self._describe()
            self._start(evaluate)
            self._receive()
            self._hook(overlap)
        except BaseException as error:
            self._finish(type(error), error)
            raise
        _attached[model] = _attached[optimizer] = weakref.ref(self)

    # ---- for the loop

    def report(self, loss, correct: int = 0, samples: Optional[int] = None) -> None:
        """What the round says of a mini-batch: the mean loss, for the curve and for policies that follow the progress;
        samples: its size, else what model() was given since the last report(). Calls of one round add up. Without any,
        the run's training loss is 0."""
        if samples is None:
            samples = self._samples - self._accounted
        self._accounted = self._samples
        samples = int(samples)
        self._reported += samples
        self._loss_sum += float(loss.detach() if isinstance(loss, torch.Tensor) else loss) * samples
        self._correct += int(correct)

    @property
    def over(self) -> bool:
        """Whether the run is over: the model stays as it is, and the next step() ends the `with`."""
        return self.worker.over

    def close(self) -> None:
        """Ends what attach() began: the loop has come to its end, and the optimizer is its own again."""
        self._finish(None, None)

    def __enter__(self) -> "Attached":
        return self

    def __exit__(self, kind, error, _) -> bool:
        self._finish(kind, error)
        return kind is not None and issubclass(kind, RunOver)

    def _finish(self, kind, error):
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
        if mode not in ("server", "worker"):
            raise ValueError(f"mode: got {mode!r}, expected 'server' or 'worker'")
        if local_steps < 1 or (mode == "server" and local_steps != 1):
            raise ValueError(f"local_steps: got {local_steps}, expected 1, or more with mode='worker'")
        if overlap and mode == "worker":
            raise ValueError("overlap: got True with mode='worker', expected mode='server': a delta is known at the end")
        if overlap and not hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
            raise ValueError(f"overlap: torch {torch.__version__} does not tell when a gradient is done, expected 2.1 or newer")
        for what, name in ((self.model, "model"), (self.optimizer, "optimizer")):
            if what in _attached:
                raise ValueError(f"{name}: it is attached already, expected one attach() at a time")
        if isinstance(self.model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            raise ValueError(f"model: got a {type(self.model).__name__}, expected the model itself (model.module)")
        if mode == "server" and any(group.get("maximize") for group in self.optimizer.param_groups):
            raise ValueError("optimizer: got maximize=True with mode='server', expected False: the servers' optimizer descends")
        return mode == "server"

    def _check_run(self):
        worker = self.worker
        nodes, world = worker.value("cluster.nodes"), os.environ.get("WORLD_SIZE")
        if world is not None and world != nodes:
            raise ValueError(f"cluster.nodes: got {nodes}, expected {world}, the WORLD_SIZE of the environment")
        if self._server_side:
            return
        if worker.value("train.local_steps") != "1":
            raise ValueError(f"train.local_steps: got {worker.value('train.local_steps')} with mode='worker', expected 1: those of "
                             "the model's own optimizer are attach(…, local_steps=…)")
        # The servers' is the outer optimizer: {kind: sgd, lr: 1} averages, momentum is DiLoCo's.
        for key, expected in (("sync.combine", ("mean",)), ("train.optimizer.kind", ("sgd", "momentum")),
                              ("train.optimizer.weight_decay", ("0",)), ("train.optimizer.schedule.kind", ("constant",))):
            if worker.value(key) not in expected:
                raise ValueError(f"{key}: got {worker.value(key)} with mode='worker', expected {' or '.join(expected)}: the servers "
                                 "take a mean of what the workers' optimizers have changed")

    def _describe(self):
        groups = self.optimizer.param_groups
        group_of = {id(p): group for group in groups for p in group["params"]}
        rates = [float(g.get("initial_lr", g.get("lr", 0))) for g in groups]  # initial_lr: a scheduler may begin at 0
        rate = next((each for each in rates if each > 0), None)
        if self._server_side and rate is None:
            raise ValueError("optimizer: got no group with a learning rate above 0, expected one: the ratios of the groups' rates count")
        rate_of = {id(group): each for group, each in zip(groups, rates)}
        decay = max((float(g.get("weight_decay", 0)) for g in groups), default=0.0) or 1.0
        any_decay = any(float(g.get("weight_decay", 0)) > 0 for g in groups)
        device = None
        for module_name, module in self.model.named_modules():
            for own_name, p in module.named_parameters(recurse=False):
                if any(t.parameter is p for t in self._tensors):
                    continue  # tied: once
                name = _clean(f"{module_name}.{own_name}" if module_name else own_name)
                if p.dtype != torch.float32:
                    raise ValueError(f"parameter '{name}': got {p.dtype}, expected torch.float32")
                if device is not None and p.device != device[1]:
                    raise ValueError(f"parameter '{name}': got device {p.device}, expected {device[1]}, where "
                                     f"'{device[0]}' is: a model on one device")
                device = device or (name, p.device)
                group = group_of.pop(id(p), None)
                trainable = p.requires_grad and group is not None
                role = "norm" if isinstance(module, _NORMS) else "bias" if own_name == "bias" else "weight"
                factors = {}
                if trainable and self._server_side:
                    factors["lr_factor"] = rate_of[id(group)] / rate
                    if any_decay:
                        factors["decay_factor"] = float(group.get("weight_decay", 0)) / decay
                offset = self.worker.add_tensor(name, p.shape, role=role, trainable=trainable, **factors)
                self._tensors.append(_Tensor(name, p, offset))
                if trainable:
                    self._trained.add(id(p))
        if group_of:
            shape = tuple(next(p for g in groups for p in g["params"] if id(p) in group_of).shape)
            raise ValueError(f"optimizer: steps a tensor {shape} that is no parameter of the model, expected the model's own")
        if not self._tensors:
            raise ValueError("model: has no parameter, expected at least one")
        self._device = device[1]

    def _start(self, evaluate):
        initial = np.empty(self.worker.floats, np.float32)
        with torch.no_grad():
            for t in self._tensors:
                initial[t.offset:t.end] = t.parameter.detach().cpu().numpy().reshape(-1)
        self.worker.start(initial, None if evaluate is None else self._evaluator(evaluate))

    def _evaluator(self, evaluate):
        twin = copy.deepcopy(self.model).eval()
        parameters = [dict(twin.named_parameters())[name] for name in self._names()]

        def measure(flat):
            with torch.no_grad():
                for t, p in zip(self._tensors, parameters):
                    p.copy_(torch.from_numpy(flat[t.offset:t.end]).view(p.shape))
                for own, other in zip(self.model.buffers(), twin.buffers()):
                    other.copy_(own)
                return evaluate(twin)
        return measure

    def _names(self):
        by_id = {id(p): name for name, p in self.model.named_parameters()}
        return [by_id[id(t.parameter)] for t in self._tensors]

    # ---- the hooks

    def _hook(self, overlap):
        self._handles.append(self.optimizer.register_step_pre_hook(self._before_step))
        self._handles.append(self.optimizer.register_step_post_hook(self._behind_step))
        self._handles.append(self.model.register_forward_pre_hook(self._count_samples, with_kwargs=True))
        if hasattr(self.model, "register_load_state_dict_post_hook"):
            self._handles.append(self.model.register_load_state_dict_post_hook(lambda *_: self._check_model()))
        if overlap:
            self._ahead = _Ahead(self)
            self._handles += [t.parameter.register_post_accumulate_grad_hook(self._ahead.hook_of(t))
                              for t in self._tensors if id(t.parameter) in self._trained]

    def _count_samples(self, model, args, kwargs):
        self._depth = 0  # no step() is under way, though one may have raised
        if not (model.training and torch.is_grad_enabled()):
            return
        if self._server_side and all(t.parameter.grad is None for t in self._tensors):
            self._forget_samples()  # of gradients that were thrown away, as where a GradScaler leaves a step out
        tensor = next((a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor) and a.dim() > 0), None)
        if tensor is not None:
            self._samples += tensor.shape[0]

    def _before_step(self, optimizer, args, kwargs):
        self._depth += 1
        if self._depth > 1:
            return
        try:
            if self.over:
                raise RunOver("the run is over")
            if self.worker.under_way is None:
                raise RuntimeError("optimizer.step(): no round is under way, expected none of an earlier step's errors")
            if any(argument is not None for argument in (*args[1:], *kwargs.values())):  # args[0]: the optimizer
                raise ValueError("optimizer.step(): got a closure, expected none: backward() comes before step()")
            self._check_groups()
            if self._server_side:
                self._push_gradients()
        except BaseException:
            self._depth = 0
            raise

    def _behind_step(self, optimizer, args, kwargs):
        self._depth -= 1
        if self._depth > 0:
            return
        if self._server_side:
            for t, gradient in zip(self._tensors, self._kept):
                t.parameter.grad = gradient
            self._kept = None
        else:
            self._taken += 1
            if self._taken < self._local_steps:
                return
            self._push_delta()
        self._taken = 0
        self._receive()

    def _check_groups(self):
        now = {id(p) for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad}
        if now <= self._trained:
            return
        names = {id(p): _clean(name) for name, p in self.model.named_parameters()}
        name = next(names.get(i, "a tensor that is not the model's") for i in now - self._trained)
        raise ValueError(f"optimizer: steps '{name}', which was not trained at attach(), expected the parameters of then")

    def _check_model(self):
        now = {id(p) for p in self.model.parameters()}
        lost = [t.name for t in self._tensors if id(t.parameter) not in now]
        if lost or len(now) != len(self._tensors):
            raise ValueError(f"model: load_state_dict() has replaced parameters ('{lost[0] if lost else 'one more'}'), "
                             "expected values in place (no assign=True)")

    # ---- the exchange

    def _scale(self):
        """What GradScaler with a fused optimizer leaves to step(): the scale still in the gradients, and whether any is inf."""
        scale, found = getattr(self.optimizer, "grad_scale", None), getattr(self.optimizer, "found_inf", None)
        return (None if scale is None else float(scale)), found is not None and float(found) > 0

    def _push_gradients(self):
        scale, found_inf = self._scale()
        if scale is not None and self.worker.value("train.on_nan") != "skip":
            raise ValueError("train.on_nan: got stop with a GradScaler and a fused optimizer, expected skip: the first overflow would "
                             "end the run")
        if self._ahead is not None:
            if scale is not None:
                raise ValueError("overlap: got a GradScaler, expected none: gradients have left with its scale")
            self._ahead.check()
        flat = self._flat(self.worker.under_way.gradient)
        self._kept = [t.parameter.grad for t in self._tensors]
        with torch.no_grad():
            for t, gradient in zip(self._tensors, self._kept):
                if self._ahead is not None and self._ahead.has_left(t):
                    continue
                self._write(flat[t.offset:t.end], t, gradient, scale)
            if found_inf:  # of this worker alone: its clock closes without it (train.on_nan: skip)
                flat.fill_(float("nan"))
        self._finish_round()
        for t in self._tensors:
            t.parameter.grad = None  # step() leaves a parameter without a gradient as it is

    def _write(self, place, t, gradient, scale=None):
        if gradient is None or id(t.parameter) not in self._trained:
            place.zero_()
            return
        if gradient.is_sparse:
            gradient = gradient.to_dense()
        place.copy_(gradient.reshape(-1))
        if scale is not None:
            place.div_(scale)

    def _push_delta(self):
        flat = self._flat(self.worker.under_way.gradient)
        before = self._flat(self.worker.under_way.parameters)
        with torch.no_grad():
            for t in self._tensors:
                place = flat[t.offset:t.end]
                if id(t.parameter) in self._trained:
                    place.copy_(t.parameter.detach().reshape(-1))
                    torch.sub(before[t.offset:t.end], place, out=place)
                else:
                    place.zero_()
        if not torch.isfinite(flat).all():  # the run may go on without this round, but not with this state
            warnings.warn("the parameters are no longer finite; the optimizer's state begins anew", stacklevel=3)
            self.optimizer.state.clear()
        self._finish_round()

    def _finish_round(self):
        samples = self._reported or self._samples or None
        self.worker.finish(self._loss_sum / self._reported if self._reported else 0.0, correct=self._correct, samples=samples)
        self._forget_samples()

    def _forget_samples(self):
        self._loss_sum, self._correct, self._reported = 0.0, 0, 0  # of report()
        self._samples, self._accounted = 0, 0                      # what model() was given; of it, reported

    def _receive(self):
        """The next round's parameters, in place; nothing where the run is over."""
        round = self.worker.begin()
        if self._ahead is not None:
            self._ahead.begin()
        if round is None:
            return
        flat = self._flat(round.parameters)
        with torch.no_grad():
            for t in self._tensors:
                if not self._received or id(t.parameter) in self._trained:  # the others never change
                    t.parameter.copy_(flat[t.offset:t.end].view(t.parameter.shape))
        self._received = True

    def _flat(self, array):
        """The worker's array as a tensor over the same memory."""
        kept = self._views.get(id(array))
        if kept is None or kept[0] is not array:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # read-only memory, which is only read here
                kept = self._views[id(array)] = (array, torch.from_numpy(array))
        return kept[1]


class _Ahead:
    """Gradients that leave while backward computes the rest: from the layout's end on, as far as all are done."""

    def __init__(self, attached):
        self._attached = attached
        self._tensors = attached._tensors
        self._place = {id(t.parameter): i for i, t in enumerate(self._tensors)}
        self.begin()

    def begin(self):
        trained = self._attached._trained
        self._done = [id(t.parameter) not in trained for t in self._tensors]
        self._left = {}                  # by place: the gradient as it left, and its version
        self._next = len(self._tensors)  # all from here on are final

    def has_left(self, t):
        return self._place[id(t.parameter)] in self._left

    def hook_of(self, t):
        place = self._place[id(t.parameter)]

        def leave(parameter):
            worker = self._attached.worker
            if worker.under_way is None:
                return
            if place in self._left:
                raise ValueError(f"parameter '{t.name}': a second backward() before step(), expected one with overlap=True "
                                 "(gradient accumulation needs overlap=False)")
            attached = self._attached
            with torch.no_grad():
                attached._write(attached._flat(worker.under_way.gradient)[t.offset:t.end], t, parameter.grad)
            self._left[place] = (parameter.grad, parameter.grad._version)
            self._done[place] = True
            self._advance(attached, worker)
        return leave

    def _advance(self, attached, worker):
        before = self._next
        while self._next > 0 and self._done[self._next - 1]:
            self._next -= 1
            t = self._tensors[self._next]
            if id(t.parameter) not in attached._trained:
                attached._flat(worker.under_way.gradient)[t.offset:t.end].zero_()
        if self._next < before:
            worker.final_from(self._tensors[self._next].offset)

    def check(self):
        for place, (gradient, version) in self._left.items():
            t = self._tensors[place]
            if t.parameter.grad is not gradient or gradient._version != version:
                raise ValueError(f"parameter '{t.name}': its gradient has changed after it left, expected overlap=False for "
                                 "clipping and the like")
