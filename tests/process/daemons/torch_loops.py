"""Training loops in PyTorch, each a process that torch_test.py starts, on numbers that are a function of step and node:

    torch_loops.py LOOP CONFIG NODE [argument…]     LOOP: a function below

What a loop finds wrong is an exception; its last lines on standard output say what it has seen.
"""

import os
import sys
import warnings

import torch
from torch_models import MADE, SAMPLES, STEPS, batch, distance, measure_of, momentum, perceptron, plain_run, plain_sgd

import paceline


def equal(config, node, made, mode, overlap, device="cpu"):
    """Compares each step's parameters, and the model of the run's end, with plain PyTorch's."""
    import paceline.torch
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    (make, shape, followed), node = MADE[made], int(node)
    model = make().to(device)
    if node:  # node 0's count
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(9.0)
    make_optimizer = followed if mode == "server" else plain_sgd
    optimizer, worst, step = make_optimizer(model), 0.0, 0
    with paceline.torch.attach(model, optimizer, config, node=node, mode=mode, overlap=overlap == "overlap",
                               evaluate=measure_of(shape)) as run:
        expected = plain_run(int(run.worker.value("cluster.nodes")), make_optimizer, made, device)
        while True:
            if not run.over:  # after the last step the model stays as it is
                worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), expected[step])))
            x, y = (each.to(device) for each in batch(step, node, shape))
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            run.report(loss)
            optimizer.step()
            step += 1
    assert step == STEPS, step
    assert run.position == STEPS * SAMPLES, run.position  # not what model() was given after the run's end
    names = [name for name, _ in model.named_parameters()]
    print("names:", " ".join(names))
    if node == 0:
        final = paceline.read_model(os.path.join(run.out, "model.bin"))
        worst = max(worst, *(distance(torch.from_numpy(final[n]), q) for n, q in zip(names, expected[STEPS])))
    print("worst:", worst)


def local(config, node, breaks):
    """Three steps of Adam, with a scheduler, between two exchanges: as loops of plain PyTorch whose parameters are averaged, but
    those of a node that are no longer finite: its Adam begins anew (train.on_nan: skip)."""
    import paceline.torch
    nodes, local_steps, rounds = 2, 3, 4
    torch.set_num_threads(1)

    def step_of(model, optimizer, scheduler, step, node):
        x, y = batch(step, node)
        optimizer.zero_grad()
        (torch.nn.functional.cross_entropy(model(x), y) * (float("inf") if breaks == "breaks" and (step, node) == (4, 1) else 1)).backward()
        optimizer.step()
        scheduler.step()

    def adam(model):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.7)
    twins = [perceptron() for _ in range(nodes)]
    optimizers, expected = [adam(twin) for twin in twins], []
    for step in range(rounds * local_steps):
        for at, twin in enumerate(twins):
            step_of(twin, *optimizers[at], step, at)
        if step % local_steps == local_steps - 1:
            finite = [all(torch.isfinite(p).all() for p in twin.parameters()) for twin in twins]
            with torch.no_grad():
                for parameters in zip(*(twin.parameters() for twin in twins)):
                    mean = torch.stack([p for p, counts in zip(parameters, finite) if counts]).mean(0)
                    for p in parameters:
                        p.copy_(mean)
            for (optimizer, _), counts in zip(optimizers, finite):
                if not counts:
                    optimizer.state.clear()
            expected.append([p.detach().clone() for p in twins[0].parameters()])
    model, worst = perceptron(), 0.0
    optimizer, scheduler = adam(model)
    with paceline.torch.attach(model, optimizer, config, node=int(node), mode="worker", local_steps=local_steps) as run:
        for step in range(rounds * local_steps):
            step_of(model, optimizer, scheduler, step, int(node))
            if step % local_steps == local_steps - 1 and not run.over:
                worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), expected[step // local_steps])))
    assert run.over
    print("worst:", worst)


def resumed(config, node, kept, waits_at, hook="hook"):
    """Adam of the loop's own, whose state it keeps by clock, and goes on from where the run does, also where the servers alone
    have ended; at a clock it waits to be released."""
    import paceline.torch
    torch.set_num_threads(1)
    model, waits_at, began = perceptron(), int(waits_at), {}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def load(run):
        print("goes on at:", run.clock)
        here = {**began, "clock": run.clock}
        older = {name: value for name, value in here.items() if name != "parameters"}
        for wrong in ({**here, "clock": run.clock + 1}, {**here, "optimizer": None}, {**here, "parameters": began["parameters"][::-1]},
                      older):
            try:
                run.load_state_dict(wrong)
            except ValueError as error:
                print("refused:", error)
        run.load_state_dict(torch.load(f"{kept}-{node}-{run.clock}"))
        assert run.position == run.clock * 2 * SAMPLES, run.position
    try:
        with paceline.torch.attach(model, optimizer, config, node=int(node), mode="worker", local_steps=2, existing="continue",
                                   on_resume=load if hook == "hook" else None) as run:
            began.update(run.state_dict())
            if run.clock > 0:
                load(run)
            while not run.over:
                if run.clock == waits_at:
                    open(f"{kept}-{node}-release").close()  # a fifo
                    waits_at = -1
                torch.save(run.state_dict(), f"{kept}-{node}-{run.clock}")
                for step in range(2):
                    x, y = batch(run.position // SAMPLES, int(node))
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(x), y).backward()
                    optimizer.step()
                    if step == 0:
                        try:
                            run.load_state_dict(began)
                        except ValueError as error:
                            assert str(error).startswith("load_state_dict(): got 1 of 2 local steps"), error
    except RuntimeError as error:
        print(error)
    print("clock:", run.clock)


def buffers(config, node, mode):
    """Running statistics of two nodes, and a buffer that is named, are averaged in each round; counters and masks are each node's own,
    also one with -inf, and what changes is warned of."""
    import paceline.torch
    torch.set_num_threads(1)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.norm, self.last = torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 3)
            self.register_buffer("mask", torch.ones(3), persistent=False)
            self.register_buffer("later", torch.full((6, 6), float("-inf")).triu(1))  # as for attention
            self.register_buffer("ema", torch.zeros(6))
            self.register_buffer("peak", torch.zeros(6))

        def forward(self, x):
            self.ema.mul_(0.5).add_(x.mean(0))
            self.peak = torch.maximum(self.peak, x.amax(0))
            return self.last(self.norm(x) @ torch.softmax(self.later, 1).T) * self.mask
    nodes, steps, seen = 2, 5, []
    twins = [Model() for _ in range(nodes)]
    expected = []

    def averaged(model):
        return [model.norm.running_mean, model.norm.running_var, model.ema]
    for step in range(steps):
        for at, twin in enumerate(twins):
            twin(batch(step, at)[0])
        with torch.no_grad():
            for tensors in zip(*(averaged(twin) for twin in twins)):
                mean = torch.stack(tensors).mean(0)
                for tensor in tensors:
                    tensor.copy_(mean)
        expected.append([tensor.clone() for tensor in averaged(twins[0])])
    model = Model()
    model.mask.fill_(1 + int(node))

    def measure(copy):
        assert torch.equal(copy.mask, model.mask)
        seen.append([tensor.clone() for tensor in averaged(copy)])
        return 0.0, 0, 1
    chosen = ["ema"] if mode == "server" else lambda name, tensor: name == "ema" or name.startswith("norm.running_")
    with paceline.torch.attach(model, optimizer := plain_sgd(model), config, node=int(node), mode=mode, evaluate=measure,
                               buffers=chosen) as run:
        for step in range(steps):
            x, y = batch(step, int(node))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if not run.over:
                seen.append([tensor.clone() for tensor in averaged(model)])
    assert int(model.norm.num_batches_tracked) == steps and float(model.mask[0]) == 1 + int(node)
    if int(node) == 0:
        final = paceline.read_model(os.path.join(run.out, "model.bin"))
        assert sorted(final) == ["ema", "last.bias", "last.weight", "norm.bias", "norm.running_mean", "norm.running_var", "norm.weight"]
        seen.append([torch.from_numpy(final[name]) for name in ("norm.running_mean", "norm.running_var", "ema")])
    print("seen:", len(seen))
    print("worst:", max(min(max(distance(p, q) for p, q in zip(one, other)) for other in expected) for one in seen),
          max(distance(p, q) for one, other in zip(seen[-1:], expected[-1:]) for p, q in zip(one, other)))


def parametrized(seed):
    """Weights that buffers are part of, unlike for each seed."""
    from torch.nn.utils import parametrizations, prune, spectral_norm
    torch.manual_seed(seed)
    model = torch.nn.Sequential(parametrizations.orthogonal(torch.nn.Linear(6, 8)), torch.nn.Tanh(),
                                parametrizations.spectral_norm(torch.nn.Linear(8, 8)), torch.nn.Tanh(),
                                spectral_norm(torch.nn.Linear(8, 8)), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    with torch.no_grad():  # what is pruned with a graph cannot be copied
        prune.random_unstructured(model[-1], "weight", 0.5)
    return model


class Drawn(torch.nn.Module):
    """A parametrization that draws a number and counts how often."""

    def __init__(self):
        super().__init__()
        self.register_buffer("looks", torch.zeros(1))

    def forward(self, weight):
        if self.training:
            self.looks += 1
            torch.rand(1)
        return weight


def evaluated():
    """What a node sends of a spectral norm beside others leaves them, and the generator, as they were."""
    from paceline.torch.spectral import vectors_to_send
    from torch.nn.utils import parametrizations, parametrize
    model = torch.nn.Linear(8, 8)
    for _ in range(2):
        parametrizations.spectral_norm(model)
    parametrize.register_parametrization(model, "weight", Drawn())
    before, state = {name: tensor.clone() for name, tensor in model.state_dict().items()}, torch.get_rng_state()
    with torch.no_grad():
        vectors_to_send(model, [], torch.zeros(0))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def woven(config, node, mode, local_steps, own):
    """Nodes of unlike seeds, and a final model in one of another, are as plain loops that begin with node 0's whole state."""
    import paceline.torch
    evaluated()
    nodes, rounds, node, local_steps = 2, 3, int(node), int(local_steps)
    torch.set_num_threads(1)

    def step_of(model, optimizer, step, node):
        x, _ = batch(step, node)
        optimizer.zero_grad()
        (model(x) - x[:, :3]).square().mean().backward()  # which draws singular values together
        optimizer.step()

    def output_of(model):
        with torch.no_grad():
            return model.eval()(batch(99, 0)[0])
    twins = [parametrized(1) for _ in range(nodes)]
    optimizers, expected = [plain_sgd(twin) for twin in twins], []
    for step in range(rounds * local_steps + 1):
        if step % local_steps == 0:
            with torch.no_grad():
                for at in range(nodes if local_steps > 1 and step > 0 else 0):  # those of before, and two power iterations
                    twins[at].load_state_dict({name: tensor for name, tensor in expected[-1].items() if name.endswith(("_u", "_v"))},
                                              strict=False)
                    twins[at](batch(step, at)[0]), twins[at](batch(step, at)[0])
                for tensors in zip(*(twin.state_dict().values() for twin in twins)):
                    mean = torch.stack(tensors).mean(0)
                    for tensor in tensors:
                        tensor.copy_(mean)
            expected.append({name: tensor.clone() for name, tensor in twins[0].state_dict().items()})
        for at in range(nodes):
            step_of(twins[at], optimizers[at], step, at)
    twins[0].load_state_dict(expected[-1])
    measured, worst = [], 0.0
    model = parametrized(1 + node)
    with paceline.torch.attach(model, optimizer := plain_sgd(model), config, node=node, mode=mode, local_steps=local_steps, buffers=own,
                               evaluate=lambda copy: measured.append(output_of(copy)) or (0.0, 0, 1)) as run:
        for step in range(rounds * local_steps):
            if step % local_steps == 0:
                worst = max(worst, *(distance(tensor, expected[step // local_steps][name]) for name, tensor in model.state_dict().items()))
            step_of(model, optimizer, step, node)
        assert run.over
    if node == 0:
        final = paceline.read_model(os.path.join(run.out, "model.bin"))
        other = parametrized(9)
        other.load_state_dict({name: torch.from_numpy(array) for name, array in final.items()}, strict=False)
        worst = max(worst, distance(output_of(other), output_of(twins[0])), distance(measured[-1], output_of(twins[0])))
        print("largest singular value:", max(float(torch.linalg.matrix_norm(other[layer].weight.detach(), 2)) for layer in (2, 4)))
    print("worst:", worst)


def cast(config, node, mode, local_steps):
    """One autocast around the whole loop, and one for all evaluations, are as plain PyTorch with one for each step. The thread
    that evaluates has this one's number of threads, which is no machine's, and its way with denormal numbers."""
    import contextlib
    import ctypes

    import paceline.torch
    torch.set_num_threads(threads := os.cpu_count() + 1)
    torch.set_flush_denormal(True)

    def low():
        return torch.autocast("cpu", torch.bfloat16)

    def train(model, optimizer, around_step):
        seen = []
        for step in range(6):
            x, y = batch(step, 0)
            optimizer.zero_grad()
            with around_step():
                loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            seen.append([p.detach().clone() for p in model.parameters()])
        return seen

    def measure(copy):
        assert ctypes.CDLL(None).omp_get_max_threads() == threads  # PyTorch would set it where it is asked
        assert float((torch.full((9,), 1e-38) * 1e-3).max()) == 0.0
        torch.set_autocast_enabled("cpu", True)  # for good: no block ends, which would forget the casts
        measured.append(copy(batch(99, 0)[0]).float())
        return 0.0, 0, 1
    model, twin, measured = perceptron(), perceptron(), []
    expected = train(twin, plain_sgd(twin), low)
    with low(), paceline.torch.attach(model, optimizer := plain_sgd(model), config, node=int(node), mode=mode, local_steps=int(local_steps),
                                      evaluate=measure) as run:
        seen = train(model, optimizer, contextlib.nullcontext)
        assert run.over
    with low():
        measured[-1] -= twin(batch(99, 0)[0])
    print("worst:", max(distance(p, q) for one, other in zip(seen[:-1], expected) for p, q in zip(one, other)),
          float(measured[-1].detach().abs().max()))


def unusual(config, node):
    """Frozen, tied, unused, empty and differently trained parameters, gradients of several passes and sparse ones: as plain PyTorch. A
    scheduler of the loop's has no effect, and is warned of."""
    import paceline.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.inside, self.outside = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4)
            self.outside.weight = self.inside.weight  # tied
            self.frozen, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(2, 2)
            self.frozen.requires_grad_(False)
            self.left_out = torch.nn.Linear(2, 2)  # of the optimizer
            self.rows, self.empty = torch.nn.Embedding(5, 4, sparse=True), torch.nn.Parameter(torch.zeros(0, 4))

        def forward(self, x):
            return self.outside(torch.tanh(self.frozen(self.inside(x)) + self.rows(torch.tensor([3]))))

    def optimizer_of(model):
        return torch.optim.SGD([{"params": [model.inside.weight]}, {"params": [model.outside.bias], "lr": 0.05},
                                {"params": [*model.frozen.parameters(), *model.unused.parameters(), *model.rows.parameters(), model.empty]}],
                               lr=0.1)

    def train(model, optimizer, steps, scheduler=None):
        for step in range(steps):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            for part in range(2):
                x, _ = batch(step, part)
                model(x[:, :4]).square().mean().backward()
            optimizer.step()
            if scheduler is not None:
                scheduler.step()

    torch.set_num_threads(1)
    model, twin = Model(), Model()
    train(twin, optimizer_of(twin), 6)
    with warnings.catch_warnings(record=True) as output:
        attached = paceline.torch.attach(model, optimizer := optimizer_of(model), config, node=int(node))
    print("warned:", [str(each.message) for each in output if each.filename == __file__])
    with attached:
        model.load_state_dict({name: tensor + 1 for name, tensor in model.state_dict().items()})
        optimizer.step()  # without a gradient: it brings the run's parameters back
        train(model, optimizer, 6, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.1))
    assert list(model.state_dict()) == list(twin.state_dict())
    print("worst:", max(distance(p, q) for p, q in zip(model.parameters(), twin.parameters()) if p.numel()))


def unused(config, node, overlap):
    """Branches that a step of a node uses or does not: where nobody has a gradient, neither decay nor momentum moves a parameter.
    As plain PyTorch with the mini-batches of all nodes."""
    import paceline.torch
    turns = [("ab", "ab"), ("a", "b"), ("a", "a"), ("", "a"), ("", ""), ("b", "b")]  # what each of two nodes uses, step by step

    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.first, self.a, self.b = torch.nn.Linear(6, 6), torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
            self.never, self.zero = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(()))

        def forward(self, x, used):
            inside = torch.tanh(self.first(x))
            return sum((getattr(self, name)(inside) for name in used), inside[:, :3])

    def optimizer_of(model):
        decays, free = [*model.a.parameters(), *model.b.parameters(), model.zero], [*model.first.parameters(), *model.never.parameters()]
        return torch.optim.SGD([{"params": free, "weight_decay": 0.0}, {"params": decays}], lr=0.2, momentum=0.9, weight_decay=0.1)

    def backward(model, step, node, share):
        x, y = batch(step, node)
        loss = torch.nn.functional.cross_entropy(model(x, turns[step % len(turns)][node]), y)
        # The gradient of `zero` is -0.0: it is used, and so it decays.
        (share * (loss + model.zero * -0.0)).backward()

    torch.set_num_threads(1)
    node, steps, worst = int(node), 2 * len(turns), 0.0
    model, twin = Branches(), Branches()
    optimizer, plain = optimizer_of(model), optimizer_of(twin)
    with paceline.torch.attach(model, optimizer, config, node=node, overlap=overlap == "overlap") as run:
        nodes = int(run.worker.value("cluster.nodes"))
        for step in range(steps):
            for each, steppers in ((model, [node]), (twin, range(nodes))):
                each.zero_grad()
                for at in steppers:
                    backward(each, step, at, 1 / len(steppers))
            optimizer.step()
            plain.step()
            if not run.over:
                worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), twin.parameters())))
    assert run.over
    print("worst:", worst)


def surprising(config, node, overlap):
    """A compiled model, whose unused parameters have zeros for None and whose hooks come late and in another order; a subclass's
    step(), whose hooks fire twice; load_state_dict() in the middle, which makes other groups: as plain PyTorch."""
    import paceline.torch
    from paceline.torch.attached import compiled as compiled_parts
    torch.set_num_threads(1)

    class Twice(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.unused, self.first, self.last = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 3)

        def forward(self, x):
            return self.last(torch.tanh(self.first(x)))

    def train(model, optimizer):
        for step in range(6):
            x, y = batch(step, 0)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            if step == 2:
                model.load_state_dict(model.state_dict())
                optimizer.load_state_dict(optimizer.state_dict())

    def compiled():
        return torch.compile(Branches(), backend="aot_eager")
    for inside in (False, True):  # compile() leaves no module of its own around it
        parts = torch.nn.Sequential(Branches(), Branches())
        (parts[1] if inside else parts).compile(backend="aot_eager")
        assert compiled_parts(parts) == (["'1'"] if inside else ["the model"])
    optimizer = momentum(Branches())  # one of the base class: from now on a subclass's hooks fire twice
    twin, model = compiled(), compiled()
    train(twin, Twice(twin.parameters(), lr=0.2, momentum=0.9))
    optimizer = Twice(model.parameters(), lr=0.2, momentum=0.9)
    with warnings.catch_warnings(record=True) as output:
        attached = paceline.torch.attach(model, optimizer, config, node=int(node), overlap=overlap == "overlap")
    print("warned:", any("the model is compiled" in str(each.message) and each.filename == __file__ for each in output))
    with attached as run:
        assert [t[0] for t in run.worker.tensors][0] == "unused.weight", run.worker.tensors
        train(model, optimizer)
        print("clock:", run.worker.under_way.clock)
        worst = max(distance(p, q) for p, q in zip(model.parameters(), twin.parameters()))
        # A graph of before a step does not take the parameters of after it for those that it was made with.
        x, y = batch(6, 0)
        stale = torch.nn.functional.cross_entropy(model(x), y)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        try:
            stale.backward()
            print("stale: taken")
        except RuntimeError as error:
            print("stale:", "modified by an inplace operation" in str(error))
    print("worst:", worst)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
