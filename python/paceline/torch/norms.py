"""Running statistics of a mini-batch that goes through batch norms in micro-batches (Huang et al. 2018, section 2.2)."""

import torch

_BATCH, _INSTANCE = torch.nn.modules.batchnorm._BatchNorm, torch.nn.modules.instancenorm._InstanceNorm


class _Norm:
    def __init__(self, module):
        self.module, self.instances = module, isinstance(module, _INSTANCE)
        self.before = (module.running_mean.clone(), module.running_var.clone())
        self.momentum, self.tracked = module.momentum, int(module.num_batches_tracked)
        # In double: squares of a channel far from 0 cancel.
        self.n, self.sum, self.squares = 0, *(torch.zeros_like(each, dtype=torch.float64) for each in self.before)
        module.momentum = 1.0  # the running statistics then are those of the last micro-batch

    def add(self, x):
        mean, variance = self.module.running_mean.double(), self.module.running_var.double()
        if self.instances:  # means over them
            self.n += len(x)
            self.sum += len(x) * mean
            self.squares += len(x) * variance
            return
        n = x.numel() // x.shape[1]
        self.n += n
        self.sum += n * mean
        self.squares += (n - 1) * variance + n * mean * mean

    def end(self, done):
        module = self.module
        module.momentum = self.momentum
        if not done or self.n == 0:
            values = self.before
        else:
            mean = self.sum / self.n
            squares = self.squares if self.instances else (self.squares - self.n * mean * mean).clamp(min=0)
            variance = squares / (self.n if self.instances else self.n - 1)
            # Without a momentum a batch norm takes the mean over all, and an instance norm stays as it is.
            all_alike = 0.0 if self.instances else 1.0 / (self.tracked + 1)
            way = all_alike if self.momentum is None else self.momentum
            values = [old + way * (new - old) for old, new in zip(self.before, (mean, variance))]
        module.running_mean.copy_(values[0])
        module.running_var.copy_(values[1])
        counted = done and self.n > 0 and not self.instances  # PyTorch's instance norm does not count
        module.num_batches_tracked.fill_(self.tracked + int(counted))


class Norms:
    """Those of a stage during a step, which is a `with`: a micro-batch is normalised by itself, and running statistics take one
    step, to those of the whole mini-batch; what is computed again does not count. `counts` is to say so."""

    def __init__(self, stage: torch.nn.Module):
        self._modules = [m for m in stage.modules() if isinstance(m, (_BATCH, _INSTANCE)) and m.track_running_stats
                         and m.running_mean is not None]
        self._norms, self._handles = [], []
        self.counts = True

    def __enter__(self):
        with torch.no_grad():
            self._norms = [_Norm(module) for module in self._modules if module.training]
        self._handles = [norm.module.register_forward_hook(self._hook_of(norm)) for norm in self._norms]
        return self

    def _hook_of(self, norm):
        def add(_, args, __):
            if self.counts:
                with torch.no_grad():
                    norm.add(args[0])
        return add

    def __exit__(self, kind, *_):
        for handle in self._handles:
            handle.remove()
        with torch.no_grad():
            for norm in self._norms:
                norm.end(kind is None)
        self._norms, self._handles = [], []
