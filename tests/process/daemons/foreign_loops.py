"""Training loops of a user's own, each a process that foreign_test.py starts:

    foreign_loops.py LOOP CONFIG NODE [argument…]     LOOP: a function below

What a loop finds wrong is an exception; its last lines on standard output say what it has seen.
"""

import os
import signal
import sys

import numpy as np

import paceline

if sys.argv[1] in ("equal", "local", "unusual", "scaled", "refused"):
    import torch


def worker_of(config, node, *overrides):
    return paceline.Worker(config, int(node), overrides=overrides)


def counting(config, node, *overrides):
    """Adds 1 to its own element each round; looks at read-my-writes."""
    with worker_of(config, node, *overrides) as worker:
        nodes = int(worker.value("cluster.nodes"))
        worker.add_tensor("counts", (nodes,))
        worker.start(np.zeros(nodes, np.float32))
        one = nodes if worker.value("sync.combine") == "mean" else 1
        for round in worker:
            assert round.parameters[worker.node] == round.clock, (round.clock, round.parameters)
            round.gradient[:] = 0
            round.gradient[worker.node] = -one
            worker.finish(loss=1.0)
    print("over:", worker.over)


def ends_at(config, node, clock, how, *overrides):
    """A counting loop that ends in a way of its own at a clock."""
    with worker_of(config, node, *overrides) as worker:
        worker.add_tensor("counts", (2,))
        worker.start(np.zeros(2, np.float32))
        for round in worker:
            round.gradient[:] = 0
            if round.clock == int(clock):
                if how == "raises":
                    raise ArithmeticError("no gradient today")
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "is interrupted":
                    os.kill(os.getpid(), signal.SIGINT)
                if how == "breaks":
                    break
                if how == "says nan":
                    round.gradient[0] = np.nan
            worker.finish(loss=1.0)


def of_shape(config, node, name, *shape):
    """A layout of one tensor."""
    with worker_of(config, node) as worker:
        worker.add_tensor(name, tuple(map(int, shape)))
        worker.start(np.zeros(worker.floats, np.float32))
        for round in worker:
            round.gradient[:] = 0
            worker.finish()


def built_in(config, node):
    """The built-in network, with running means, on points below and above a diagonal."""
    random = np.random.default_rng(int(node))
    made = paceline.Network([{"kind": "dense", "out": 8}, {"kind": "batch_norm"}, {"kind": "relu"}, {"kind": "dense", "out": 2}], 2,
                            batch_size=16, seed=3)
    with worker_of(config, node) as worker:
        worker.add_network(made)
        worker.start(made.initial())
        for round in worker:
            x = random.random((round.samples, 2))
            loss, correct = made.gradient(round.parameters, x, x[:, 0] > x[:, 1], round.gradient, round.position)
            worker.finish(loss, correct=correct, samples=round.samples)
    print("classes:", made.classes)


# ---- torch: a perceptron on numbers that are a function of the step and the node

SAMPLES, STEPS = 8, 20


def perceptron():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def batch(step, node):
    generator = torch.Generator().manual_seed(1000 * step + node)
    return torch.randn(SAMPLES, 6, generator=generator), torch.randint(0, 3, (SAMPLES,), generator=generator)


def plain_run(nodes, make_optimizer):
    """The parameters before each step, and behind the last, of one process with the mini-batches of all nodes."""
    model = perceptron()
    optimizer, seen = make_optimizer(model), []
    for step in range(STEPS):
        seen.append([p.detach().clone() for p in model.parameters()])
        parts = [batch(step, node) for node in range(nodes)]
        x, y = torch.cat([x for x, _ in parts]), torch.cat([y for _, y in parts])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return seen + [[p.detach().clone() for p in model.parameters()]]


def distance(p, q):
    return float((p.detach() - q.detach()).abs().max())


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)


def plain_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.2)


def measure(model):
    assert not model.training
    x, y = batch(STEPS, 0)
    said = model(x)
    return torch.nn.functional.cross_entropy(said, y), (said.argmax(1) == y).sum(), len(y)


def equal(config, node, mode, overlap, *overrides):
    """Compares each step's parameters, and the model of the run's end, with plain PyTorch's."""
    import paceline.torch
    torch.set_num_threads(1)
    model, node = perceptron(), int(node)
    if node:  # node 0's count
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(9.0)
    make_optimizer = momentum if mode == "server" else plain_sgd
    optimizer, worst, step = make_optimizer(model), 0.0, 0
    with paceline.torch.attach(model, optimizer, config, node=node, mode=mode, overlap=overlap == "overlap",
                               evaluate=measure, overrides=overrides) as run:
        expected = plain_run(int(run.worker.value("cluster.nodes")), make_optimizer)
        while True:
            if not run.over:  # behind the last step the model stays as it is
                worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), expected[step])))
            x, y = batch(step, node)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            run.report(loss)
            optimizer.step()
            step += 1
    assert step == STEPS, step
    names = [name for name, _ in model.named_parameters()]
    print("names:", " ".join(names))
    if node == 0:
        final = paceline.read_model(os.path.join(run.out, "model.bin"))
        worst = max(worst, *(distance(torch.from_numpy(final[n]), q) for n, q in zip(names, expected[STEPS])))
    print("worst:", worst)


def local(config, node):
    """Three steps of Adam between two exchanges: as loops of plain PyTorch whose parameters are averaged."""
    import paceline.torch
    nodes, local_steps, rounds = 2, 3, 4
    torch.set_num_threads(1)

    def step_of(model, optimizer, step, node):
        x, y = batch(step, node)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    def adam(model):
        return torch.optim.Adam(model.parameters(), lr=0.01)
    twins = [perceptron() for _ in range(nodes)]
    optimizers, expected = [adam(twin) for twin in twins], []
    for step in range(rounds * local_steps):
        for at, (twin, optimizer) in enumerate(zip(twins, optimizers)):
            step_of(twin, optimizer, step, at)
        if step % local_steps == local_steps - 1:
            with torch.no_grad():
                for parameters in zip(*(twin.parameters() for twin in twins)):
                    mean = torch.stack(parameters).mean(0)
                    for p in parameters:
                        p.copy_(mean)
            expected.append([p.detach().clone() for p in twins[0].parameters()])
    model, worst = perceptron(), 0.0
    optimizer = adam(model)
    with paceline.torch.attach(model, optimizer, config, node=int(node), mode="worker", local_steps=local_steps) as run:
        for step in range(rounds * local_steps):
            step_of(model, optimizer, step, int(node))
            if step % local_steps == local_steps - 1 and not run.over:
                worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), expected[step // local_steps])))
    assert run.over
    print("worst:", worst)


def unusual(config, node):
    """Frozen, tied, unused and differently trained parameters, gradients of several passes: as plain PyTorch."""
    import paceline.torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(3)
            self.inside, self.outside = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4)
            self.outside.weight = self.inside.weight  # tied
            self.frozen, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(2, 2)
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.outside(torch.tanh(self.frozen(self.inside(x))))

    def optimizer_of(model):
        return torch.optim.SGD([{"params": [model.inside.weight]}, {"params": [model.outside.bias], "lr": 0.05},
                                {"params": [*model.frozen.parameters(), *model.unused.parameters()]}], lr=0.1)

    def train(model, optimizer, steps):
        for step in range(steps):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            for part in range(2):
                x, _ = batch(step, part)
                model(x[:, :4]).square().mean().backward()
            optimizer.step()

    torch.set_num_threads(1)
    model, twin = Model(), Model()
    train(twin, optimizer_of(twin), 6)
    with paceline.torch.attach(model, optimizer := optimizer_of(model), config, node=int(node)):
        train(model, optimizer, 6)
    assert list(model.state_dict()) == list(twin.state_dict())
    print("worst:", max(distance(p, q) for p, q in zip(model.parameters(), twin.parameters())))


def scaled(config, node, fused):
    """GradScaler, whose third step finds an inf: what is exchanged has no scale, and that step changes nothing."""
    import paceline.torch

    def train(model, optimizer, seen):
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for step in range(6):
            x, y = batch(step, 0)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss * (float("inf") if step == 2 else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
            seen.append([p.detach().clone() for p in model.parameters()])

    torch.set_num_threads(1)
    expected, seen = [], []
    train(twin := perceptron(), torch.optim.SGD(twin.parameters(), lr=0.2, fused=fused == "fused"), expected)
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, fused=fused == "fused")
    os.environ["RANK"], os.environ["WORLD_SIZE"] = node, "1"
    with paceline.torch.attach(model, optimizer, config) as run:
        train(model, optimizer, seen)
        print("clock:", run.worker.under_way.clock)
    print("worst:", max(distance(p, q) for one, other in zip(seen, expected) for p, q in zip(one, other)))


def refused(config, node):
    """What attach() and step() refuse, a line each."""
    import paceline.torch
    model = perceptron()
    optimizer = plain_sgd(model)

    def say(what, call):
        try:
            call()
            print(what, "was taken")
        except (ValueError, paceline.Error) as error:
            print(f"{what}: {error}")

    def attach(model, optimizer, **options):
        return paceline.torch.attach(model, optimizer, config, node=int(node), **options)
    say("double", lambda: attach((double := perceptron().double()), plain_sgd(double)))
    say("others", lambda: attach(model, plain_sgd(perceptron())))
    os.environ["WORLD_SIZE"] = "3"
    say("world", lambda: attach(model, optimizer))
    del os.environ["WORLD_SIZE"]
    say("mode", lambda: attach(model, optimizer, mode="both"))
    say("worker", lambda: attach(model, optimizer, mode="worker", overrides=["sync.policy=asp"]))
    say("local", lambda: attach(model, optimizer, mode="worker", overrides=[
        "train.local_steps=5", "train.inner_optimizer.kind=sgd", "train.inner_optimizer.lr=0.1"]))
    say("layers", lambda: attach(model, optimizer, overrides=["train.model=layers", "train.layers=[{kind: flatten}, {kind: dense, out: 10}]"]))
    with attach(model, optimizer):
        say("twice", lambda: attach(model, plain_sgd(model)))
        say("closure", lambda: optimizer.step(lambda: None))
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        say("added", optimizer.step)


# ---- jax

def regression(config, node):
    """A JAX loop of plain SGD over a tree of parameters, one of them above the size from which JAX shares memory. Each step's
    parameters are compared with a loop of NumPy's own, those of earlier steps once more at the end."""
    import jax
    import paceline.jax
    node = int(node)

    def loss_of(params, x):
        return jax.numpy.mean((x @ params["layer"]["w"] + params["layer"]["b"] - params["y"]) ** 2)

    def data(step, node):
        return np.random.default_rng([step, node]).normal(size=(4, 300)).astype(np.float32)

    def begin():
        random = np.random.default_rng(1)
        return {"layer": {"w": random.normal(size=(300, 200)).astype(np.float32) / 20, "b": np.zeros(200, np.float32)},
                "y": np.ones((), np.float32)}
    gradient = jax.jit(jax.value_and_grad(loss_of))
    expected, seen = [begin()], []
    for step in range(STEPS):
        parts = [gradient(expected[-1], data(step, of))[1] for of in range(2)]
        expected.append(jax.tree_util.tree_map(lambda p, *g: p - np.float32(0.1) * np.mean(g, axis=0, dtype=np.float32),
                                               expected[-1], *parts))
    with paceline.jax.attach(begin(), config, node=node) as run:
        while not run.over:
            seen.append(run.params)
            loss, grads = gradient(run.params, data(len(seen) - 1, node))
            run.step(grads, loss=loss, samples=4)
    assert len(seen) == STEPS, len(seen)
    print("worst:", max(float(np.abs(np.asarray(p) - np.asarray(q)).max()) for one, other in zip(seen, expected)
                        for p, q in zip(jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(other))))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
