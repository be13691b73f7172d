"""A PyTorch model that is cut into stages over the nodes of a group: what pipeline() returns."""

import contextlib
import copy
import itertools
import warnings
from typing import Optional

import numpy as np
import torch

from paceline._resumed import Resumed
from paceline.stage import Did, Stage
from paceline.torch.averaged import is_running_statistic
from paceline.torch.cut import shapes_of
from paceline.torch.norms import Norms
from paceline.torch.tensors import Exchanged, buffers_of_weights, check_is_whole, clean, role_of
from paceline.worker import RunOver, Worker, check_world


class _States:
    """Of the random numbers that a stage draws: the processor's, and those of its device."""

    def __init__(self, device):
        self._cuda = [device] if device.type == "cuda" else []

    def now(self):
        return torch.get_rng_state(), [torch.cuda.get_rng_state(device) for device in self._cuda]

    @contextlib.contextmanager
    def at(self, state):
        """Draws once more what was drawn then; those of now go on after it."""
        with torch.random.fork_rng(devices=self._cuda):
            torch.set_rng_state(state[0])
            for device, each in zip(self._cuda, state[1]):
                torch.cuda.set_rng_state(each, device)
            yield


class Pipeline:
    """A context, inside of which each step() is one of the run. `model`: this node's part of the whole one."""

    def __init__(self, model, loss, config, node, *, example, balance, evaluate, overrides, existing, hang_timeout):
        if not isinstance(model, torch.nn.Sequential):
            raise ValueError(f"model: got a {type(model).__name__}, expected a torch.nn.Sequential")
        check_is_whole(model)
        self._whole, self._loss, self._balance = model, loss, list(balance)
        self._check_cut()
        shapes = shapes_of(model, example)
        self.worker = Worker(config, node, overrides=overrides, existing=existing, hang_timeout=hang_timeout)
        self._position = 0  # samples of the group's mini-batches, also ahead of a resume
        self._finished = False
        try:
            check_world(self.worker)
            stages = int(self.worker.value("pipeline.stages"))
            if stages != len(self._balance):
                raise ValueError(f"balance: got {len(self._balance)} stages, expected {stages}, pipeline.stages")
            self.stage, self.stages = node % stages, stages
            self.group, self.groups = node // stages, int(self.worker.value("cluster.nodes")) // stages
            ends = [0, *itertools.accumulate(self._balance)]
            first, last = ends[self.stage], ends[self.stage + 1]
            self.model = model[first:last]
            self._shape_in = shapes[first - 1] if first else None
            self._shape_out = shapes[last - 1] if last < len(model) else None
            named = list(model._modules.items())  # each that stands there more than once, too
            self._describe([named[begin:end] for begin, end in zip(ends, ends[1:])])
            self._begin(evaluate)
            self._resumed = Resumed(self.worker, rejoins=False)
            self._whole = None  # the rest of it need not stay here
        except BaseException as error:
            self._finish(type(error), error)
            raise

    # ---- for the loop

    def step(self, x: Optional[torch.Tensor] = None, y: Optional[torch.Tensor] = None, samples: Optional[int] = None) -> float:
        """The next step of the run, with a mini-batch that all stages of the group have in common: the first stage needs its
        `x`, the last its `y`; who has neither says how many samples there are. Returns its mean loss. Raises RunOver where
        the run is over, which the `with` takes back."""
        self.worker.check_goes_on()
        given = samples if samples is not None else len(x) if x is not None else len(y) if y is not None else None
        if given is None or (x is None and self.is_first) or (y is None and self.is_last):
            needed = "x" if self.is_first else "y" if self.is_last else "x, y or samples"
            raise ValueError(f"step(): got no {needed} at stage {self.stage}, expected one")
        for name, batch in (("x", x), ("y", y)):
            if batch is not None and len(batch) != given:
                raise ValueError(f"step(): got {len(batch)} rows of {name}, expected {given}")
        self._warn_if_not_loaded()
        self._x, self._y = x, y
        self._graphs, self._dropped = {}, {}
        with self._norms:
            loss, correct, share = self._steps.step(given)
        self._write_buffers(given / share)
        self.worker.finish(loss, correct=correct, samples=share)
        self._position += given
        self._receive()
        return loss

    @property
    def clock(self) -> int:
        """Steps that have been taken; of a run that goes on, those of its checkpoint, too."""
        return self.worker.clock

    @property
    def position(self) -> int:
        """Samples of the group's mini-batches so far, also ahead of a resume (load_state_dict()): where the data goes on.
        Asked for before that it is 0, with a warning."""
        if not self._finished:
            self._warn_if_not_loaded()
        return self._position

    def state_dict(self) -> dict:
        """What a checkpoint of the servers does not have: "clock", "over" and "position". To be kept by clock; all stages have the
        same, however the model is cut. Random numbers, as dropout's, are the loop's own."""
        return {"clock": self.clock, "over": self.over, "position": self._position}

    def load_state_dict(self, state: dict) -> None:
        """After a resume, ahead of the first step: the state of run.clock, or where not under bsp another that attach()'s
        takes. Errors: ValueError for that of another clock."""
        self._resumed.check_clock(state)
        self._position = state["position"]
        self._resumed.was_loaded()

    def _warn_if_not_loaded(self):
        self._resumed.warn_if_not_loaded("run.position begins at 0")

    @property
    def is_first(self) -> bool:
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        return self.stage + 1 == self.stages

    @property
    def over(self) -> bool:
        """Whether the run is over: the model stays as it is, and the next step() ends the `with`."""
        return self.worker.over

    def close(self) -> None:
        """Ends what pipeline() began: the loop has come to its end."""
        self._finish(None, None)

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, kind, error, _) -> bool:
        self._finish(kind, error)
        return kind is not None and issubclass(kind, RunOver)

    def _finish(self, kind, error):
        if not self._finished:
            self._finished = True
            self.worker.__exit__(kind, error, None)

    # ---- the model

    def _check_cut(self):
        if any(not isinstance(each, int) or each < 1 for each in self._balance) or sum(self._balance) != len(self._whole):
            raise ValueError(f"balance: got {self._balance}, expected numbers above 0 that add up to the {len(self._whole)} modules")
        owners, begin = {}, 0
        for stage, modules in enumerate(self._balance):
            for name, parameter in self._whole[begin:begin + modules].named_parameters():
                if owners.setdefault(id(parameter), stage) != stage:
                    raise ValueError(f"parameter '{name}' of stage {stage}: is in stage {owners[id(parameter)]}, too, expected one stage")
            begin += modules

    def _describe(self, modules):
        """The layout, stage by stage, and what of it is this one's. `modules`: of each stage, by name."""
        ends, own = [], []
        for stage, named in enumerate(modules):
            seen = set()
            added = [tensor for name, module in named for tensor in self._add(name, module, seen)]
            if not added:
                raise ValueError(f"balance: stage {stage} has no parameters, expected some in each")
            if stage == self.stage:
                own, self._offset = added, self.worker.floats - sum(t.end - t.offset for t in added)
            ends.append(self.worker.floats)
        meta = next((t.name for t in own if t.tensor().device.type == "meta"), None)
        if meta is not None:
            raise ValueError(f"tensor '{meta}': is on the device meta at its own stage, expected values")
        self._tensors, self._trained = own, [t for t in own if t.trained]
        self.device = own[0].tensor().device
        self._norms, self._states = Norms(self.model), _States(self.device)
        self._bytes = {}  # that are kept for the way back, by samples
        self._steps = Stage(self.worker, self.stage, ends, _floats(self._shape_in), _floats(self._shape_out), self._forward,
                            self._backward)

    def _add(self, child, module, seen):
        """The tensors of a child of the model that are not in the layout yet, added to it."""
        of_weights = buffers_of_weights(module)
        for path, each in module.named_modules():
            for own_name, tensor in (*each.named_parameters(recurse=False), *each.named_buffers(recurse=False)):
                name = clean(".".join(part for part in (child, path, own_name) if part))
                is_parameter = isinstance(tensor, torch.nn.Parameter)
                if id(tensor) in seen or not (is_parameter or id(tensor) in of_weights or is_running_statistic(each, own_name, tensor)):
                    continue
                seen.add(id(tensor))
                if is_parameter and tensor.dtype != torch.float32:
                    raise ValueError(f"parameter '{name}': got {tensor.dtype}, expected torch.float32")
                fixed = of_weights.get(id(tensor), False)
                averaged = not is_parameter and not fixed
                role = "buffer" if averaged else role_of(each, own_name)
                trained = is_parameter and tensor.requires_grad
                offset = self.worker.add_tensor(name, tensor.shape, role=role, trainable=trained or averaged, may_be_unused=trained)
                yield Exchanged(name, each, own_name, offset, trained, fixed)

    def _begin(self, evaluate):
        initial = np.empty(self.worker.floats, np.float32)
        if self.worker.node == 0:  # whose values the run begins with
            tensors = self._by_name(self._whole)
            offset = 0
            for name, shape in self.worker.tensors:
                tensor = tensors[name]
                if tensor.device.type == "meta":
                    raise ValueError(f"tensor '{name}': is on the device meta at node 0, expected the values that the run begins with")
                size = int(np.prod(shape, dtype=np.int64))
                initial[offset:offset + size] = tensor.detach().float().cpu().numpy().reshape(-1)
                offset += size
        self.worker.start(initial, None if evaluate is None else self._evaluator(evaluate))
        self._receive()

    @staticmethod
    def _by_name(model):
        return {clean(name): tensor for name, tensor in (*model.named_parameters(remove_duplicate=False), *model.named_buffers())}

    def _evaluator(self, evaluate):
        twin = copy.deepcopy(self._whole).eval()
        tensors = self._by_name(twin)
        lacking = next((name for name, tensor in tensors.items() if tensor.device.type == "meta"), None)
        if lacking is not None:
            raise ValueError(f"evaluate: tensor '{lacking}' is on the device meta, expected the whole model where it is evaluated")
        threads = torch.get_num_threads()

        def measure(flat):
            torch.set_num_threads(threads)  # a thread that has not asked for their number takes all cores
            offset = 0
            with torch.no_grad():
                for name, shape in self.worker.tensors:
                    size = int(np.prod(shape, dtype=np.int64))
                    tensors[name].copy_(torch.from_numpy(flat[offset:offset + size]).view(shape))
                    offset += size
                torch.clear_autocast_cache()
                return evaluate(twin)
        return measure

    # ---- a micro-batch

    def _forward(self, given):
        first, rows = given.first, given.samples
        again = self._dropped.pop(first, None)
        if not given.kept:
            self._dropped[first] = self._states.now()
        self._norms.counts = again is None
        with contextlib.ExitStack() as around:
            if again is not None:
                around.enter_context(self._states.at(again))
            around.enter_context(torch.set_grad_enabled(given.kept))
            if given.kept and rows not in self._bytes:
                around.enter_context(self._counting(rows))
            came = self._x[first:first + rows] if self.is_first else torch.from_numpy(given.came).view(rows, *self._shape_in)
            if not self.is_first:
                came.requires_grad_(given.kept)
            # A module may work in place, which neither a leaf allows nor what is taken forward twice. The library's memory is
            # another micro-batch's after this call. And rounding goes by alignment, which then is the same each time.
            x = came.to(self.device, copy=True)
            out = self.model(x)
            result, correct = (out, 0) if not self.is_last else self._lose(out, self._y[first:first + rows])
        if given.kept:
            self._graphs[first] = (came, result)
        kept = self._bytes[rows] if given.kept else 0
        if self.is_last:
            return Did(kept, float(result.detach()) * rows, correct)
        shape = tuple(out.shape)
        if shape != (rows, *self._shape_out):
            raise ValueError(f"stage {self.stage}: gives {shape} for {rows} samples, expected {(rows, *self._shape_out)}")
        torch.from_numpy(given.out).view(shape).copy_(out.detach())
        return Did(kept)

    def _lose(self, out, y):
        """The mean loss of the micro-batch, and how many are correct where the loss says that."""
        result = self._loss(out, y.to(self.device))
        return result if isinstance(result, tuple) else (result, None)

    @contextlib.contextmanager
    def _counting(self, rows):
        """How many bytes are kept for the way back of so many samples: the same each time, so it is looked at once."""
        targets = () if self._y is None else (self._y,)  # the loop's own
        known = {each.untyped_storage().data_ptr() for each in (*self.model.parameters(), *targets)}
        kept = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in known:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor.detach(), tensor._version  # itself would keep its own graph alive

        def unpack(packed):
            tensor, version = packed
            if tensor._version != version:  # autograd looks at this itself where there are no hooks
                raise RuntimeError(f"a tensor of {tuple(tensor.shape)} that is needed for the way back was modified in place")
            return tensor
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
        self._bytes[rows] = sum(kept.values())

    def _backward(self, given):
        came, result = self._graphs.pop(given.first)
        gradient = torch.from_numpy(given.gradient)
        gradient.fill_(-0.0)  # of a parameter that no micro-batch has a gradient for: no step with it (may_be_unused)
        inputs = [t.parameter for t in self._trained] + ([] if self.is_first else [came])
        if not result.requires_grad or not inputs:
            if given.in_gradient is not None:
                given.in_gradient[:] = 0
            return
        if self.is_last:
            out = torch.full_like(result, given.samples / given.divisor)  # of the mean
        else:
            out = torch.from_numpy(given.out_gradient).view(result.shape).to(self.device)
        found = torch.autograd.grad(result, inputs, out, allow_unused=True)
        with torch.no_grad():
            for t, each in zip(self._trained, found):
                if each is not None:
                    place = gradient[t.offset - self._offset:t.end - self._offset]
                    place.view(each.shape).copy_(each.to_dense() if each.is_sparse else each).add_(0.0)  # it has no -0.0
            if not self.is_first:
                back = torch.from_numpy(given.in_gradient).view(came.shape)
                back.zero_() if found[-1] is None else back.copy_(found[-1])

    # ---- the exchange

    def _write_buffers(self, scale):
        """What they have come to, as often as the stages' workers are counted for it: those of the others say nothing of it."""
        gradient = torch.from_numpy(self.worker.under_way.gradient)
        with torch.no_grad():
            for t in self._tensors:
                if t.is_averaged:
                    torch.mul(t.tensor().reshape(-1).to("cpu"), scale, out=gradient[t.offset - self._offset:t.end - self._offset])

    def _receive(self):
        round = self.worker.begin()
        if round is None:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # read-only memory, which is only read here
            flat = torch.from_numpy(round.parameters)
        with torch.no_grad():
            for t in self._tensors:
                tensor = t.tensor()
                tensor.copy_(flat[t.offset - self._offset:t.end - self._offset].view(tensor.shape))
        torch.clear_autocast_cache()  # of what the parameters were


def _floats(shape):
    return 0 if shape is None else int(np.prod(shape, dtype=np.int64))
