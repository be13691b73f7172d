"""What paceline.torch refuses, steps without effect, and memory that is not the worker's: as torch_loops.py, each function a process.

    torch_edges.py LOOP CONFIG NODE [argument…]     LOOP: a function below
"""

import itertools
import os
import signal
import sys
import types

import torch
from torch_models import SAMPLES, batch, distance, momentum, perceptron, plain_sgd

import paceline


class LateCopies:
    """In the place of a GPU: what is asked for comes after the next mark, or where it is waited for."""

    def __init__(self, staging):
        self.asked, self.come, self.waits, self.sizes = [], 0, 0, []
        for name in ("pinned", "copy", "event", "wait"):
            setattr(staging, name, getattr(self, name))
        staging.is_gpu, staging.on_host = lambda device: True, lambda device: False

    def pinned(self, floats):
        self.sizes.append(floats)
        return torch.full((floats,), float("nan"))

    def copy(self, to, tensor):
        self.asked.append((to, tensor))

    def complete(self, count):
        with torch.no_grad():
            for to, tensor in self.asked[self.come:count]:
                to.copy_(tensor)
        self.come = max(self.come, count)

    def event(self, device):
        late = self
        late.complete(len(late.asked) - 1)

        class Event:
            behind = len(late.asked)

            def query(self):
                return late.come >= self.behind

            def synchronize(self):
                late.complete(self.behind)
        return Event()

    def wait(self, device):
        self.waits += 1
        self.complete(len(self.asked))


def staged(config, node, mode, overlap):
    """A model whose gradients and parameters pass through memory that is not the worker's, as on a GPU: as plain PyTorch."""
    import types

    import paceline.torch
    from paceline.torch import staging
    torch.set_num_threads(1)
    waited = []
    for device in ("cpu", "cuda", "xpu"):  # only those of a GPU are waited for by us
        staging.copy(types.SimpleNamespace(device=torch.device(device), copy_=lambda _, non_blocking: waited.append(not non_blocking)),
                     torch.zeros(1))
    assert waited == [True, False, True], waited
    late = LateCopies(staging)
    twin, model = (torch.nn.Sequential(perceptron(), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 6000)) for _ in range(2))
    model.load_state_dict(twin.state_dict())
    optimizer, plain = momentum(model), momentum(twin)
    with paceline.torch.attach(model, optimizer, config, node=int(node), mode=mode, overlap=overlap == "overlap") as run:
        for step in range(6):
            x, y = batch(step, 0)
            for each, stepper in ((twin, plain), (model, optimizer)):
                stepper.zero_grad()
                torch.nn.functional.cross_entropy(each(x), y).backward()
                stepper.step()
        print("clock:", run.worker.under_way.clock)
    assert late.sizes == [sum(p.numel() for p in model.parameters()) + 6]  # the running means and variances
    assert all(torch.allclose(p, q, atol=1e-6) for p, q in zip(model.buffers(), twin.buffers()))
    assert late.waits == 1 + 6 * 2, late.waits  # a round waits once for what leaves, and once for what comes
    print("worst:", max(distance(p, q) for p, q in zip(model.parameters(), twin.parameters())))


def dlpack(config, node):
    """A loop over tensors that share the worker's memory."""
    with paceline.Worker(config, int(node)) as worker:
        worker.add_tensor("counts", (3,))
        worker.start(torch.tensor([1.0, 2.0, 3.0]))
        for round in worker:
            gradient = torch.from_dlpack(round.gradient)
            assert gradient.data_ptr() == round.gradient.ctypes.data
            gradient[:2] = 0.0
            worker.copy_gradient(2, torch.tensor([-1.0]))
            worker.finish()
        out = worker.value("run.out")
    print("counts:", paceline.read_model(os.path.join(out, "model.bin"))["counts"].tolist())


def scaled(config, node, fused, mode, clips):
    """GradScaler, whose third step finds an inf on node 0: what is exchanged has no scale, and that step is the other nodes' alone. As
    plain PyTorch without a scale, by the mean of the nodes' gradients."""
    import paceline.torch

    def clip(model):
        if clips == "clips":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)

    def loss_of(model, step, node):
        x, y = batch(step, node)
        return torch.nn.functional.cross_entropy(model(x), y)

    def sgd(model):
        return torch.optim.SGD(model.parameters(), lr=0.2, fused=fused == "fused")
    torch.set_num_threads(1)
    model, twin, node, worst = perceptron(), perceptron(), int(node), 0.0
    optimizer, plain, scaler = sgd(model), sgd(twin), torch.amp.GradScaler("cpu", init_scale=1024.0)
    os.environ["RANK"] = str(node)
    with paceline.torch.attach(model, optimizer, config, mode=mode) as run:
        nodes = int(run.worker.value("cluster.nodes"))
        for step in range(6):
            optimizer.zero_grad()
            scaler.scale(loss_of(model, step, node) * (float("inf") if (step, node) == (2, 0) else 1)).backward()
            if clips == "clips":
                scaler.unscale_(optimizer)
                clip(model)
            scaler.step(optimizer)
            scaler.update()
            gradients = []
            for at in range(step == 2, nodes):
                twin.zero_grad()
                loss_of(twin, step, at).backward()
                clip(twin)
                gradients.append([p.grad for p in twin.parameters()])
            if gradients:
                for p, *each in zip(twin.parameters(), *gradients):
                    p.grad = torch.stack(each).mean(0)
                plain.step()
            worst = max(worst, *(distance(p, q) for p, q in zip(model.parameters(), twin.parameters())))
        print("clock:", run.worker.under_way.clock)
    assert "_step_supports_amp_scaling" not in vars(optimizer) or fused == "fused"
    print("worst:", worst)


def refused(config, node):
    """What attach() and step() refuse, a line each."""
    import paceline.torch
    from paceline import _outer
    from paceline.torch import rules
    from paceline.torch.attached import _DATA
    model = perceptron()
    optimizer = plain_sgd(model)

    def report(what, call):
        try:
            call()
            print(what, "was taken")
        except (ValueError, paceline.Error) as error:
            print(f"{what}: {error}")

    def attach(model, optimizer, node=int(node), **options):
        return paceline.torch.attach(model, optimizer, config, node=node, **options)
    for name, wrong in (("node", -1), ("node", True), ("node", 0.0), ("local_steps", 2.5), ("local_steps", 0), ("local_steps", 2),
                        ("overrides", "a=b"), ("overrides", [1]), ("hang_timeout", "10s"), ("evaluate", 3), ("hang_timeout", 0)):
        report("argument", lambda: attach(model, optimizer, **{name: wrong}))
    report("double", lambda: attach((double := perceptron().double()), plain_sgd(double)))
    spread = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Linear(3, 3, device="meta"))
    report("spread", lambda: attach(spread, plain_sgd(spread)))
    report("swapped", lambda: attach(optimizer, model))
    report("two", lambda: attach(model, [optimizer, plain_sgd(model)]))
    report("others", lambda: attach(model, plain_sgd(perceptron())))
    report("nothing", lambda: attach(model, torch.optim.SGD([{"params": []}], lr=0.1)))
    os.environ["WORLD_SIZE"] = "3"
    report("world", lambda: attach(model, optimizer))
    os.environ["WORLD_SIZE"] = "x"
    report("words", lambda: attach(model, optimizer))
    del os.environ["WORLD_SIZE"]
    os.environ["RANK"] = "-1"
    report("rank", lambda: attach(model, optimizer, node=None))
    os.environ["PACELINE_LAUNCHED"] = "nonsense"
    report("launched", lambda: attach(model, optimizer))
    del os.environ["PACELINE_LAUNCHED"]
    report("mode", lambda: attach(model, optimizer, mode="both"))
    norm = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3))
    for wrong in ("none", 3, ["1.running_mean", "1.num_batches_tracked"]):
        report("buffers", lambda: attach(norm, plain_sgd(norm), buffers=wrong))
    norm.register_buffer("fine", torch.zeros(3, dtype=torch.float64))
    report("buffers", lambda: attach(norm, plain_sgd(norm), buffers=["fine"]))
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(3))
    report("lazy", lambda: attach(lazy, plain_sgd(lazy)))
    report("balance", lambda: attach(model, optimizer, overrides=["train.batch_balance=speed"]))
    normed = torch.nn.utils.weight_norm(torch.nn.Linear(6, 3))
    normed(torch.zeros(1, 6))
    report("copied", lambda: attach(normed, plain_sgd(normed), evaluate=lambda twin: (0.0, None, 1)))
    report("worker", lambda: attach(model, optimizer, mode="worker", overrides=["sync.policy=asp"]))
    report("local", lambda: attach(model, optimizer, mode="worker", overrides=[
        "train.local_steps=5", "train.inner_optimizer.kind=sgd", "train.inner_optimizer.lr=0.1"]))
    report("layers", lambda: attach(model, optimizer, overrides=["train.model=layers", "train.layers=[{kind: flatten}, {kind: dense, out: 10}]"]))

    class Free(torch.optim.SGD):
        def eval(self):
            pass
    report("free", lambda: attach(model, Free(model.parameters(), lr=0.1), mode="worker"))
    without = config + ".without"
    with open(config, encoding="utf-8") as given, open(without, "w", encoding="utf-8") as file:
        file.write(given.read().replace(", lr: 0.1", ""))
    double = perceptron().double()
    for what, *overrides in (("no rate",), ("null", "train.optimizer.lr=null"), ("rate", "train.optimizer.lr=0.01")):
        report(what, lambda: paceline.torch.attach(double, plain_sgd(double), without, node=int(node), mode="worker", overrides=overrides))
    normed = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.BatchNorm1d(3))
    for what, *overrides in (("coded", "cluster.gradient_encoding=int8"),
                             ("stale", "train.optimizer.staleness=inverse", "sync.policy=ssp", "sync.combine=mean")):
        report(what, lambda: attach(normed, plain_sgd(normed), overrides=overrides))

    class Own(torch.optim.RMSprop):
        pass

    def of_kind(kind, make, *others, groups=None, **options):
        """After the rule comes the model, which is refused."""
        return attach(double, make(groups or double.parameters(), lr=0.1, **options),
                      overrides=[f"train.optimizer.kind={kind}", *(f"train.optimizer.{each}" for each in others)])
    optim = torch.optim
    for what, kind, make, options in (("kind", "sgd", optim.RMSprop, {}), ("subclass", "sgd", Own, {}), ("adam", "sgd", optim.Adam, {}),
                                      ("no kind", "adam", optim.NAdam, {}), ("rule", "adam", optim.Adam, {"amsgrad": True}),
                                      ("plain", "sgd", optim.SGD, {"momentum": 0.9}), ("ascent", "sgd", optim.SGD, {"maximize": True}),
                                      ("damped", "momentum", optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
                                      ("centered", "rmsprop", optim.RMSprop, {"centered": True}),
                                      ("slowed", "adagrad", optim.Adagrad, {"lr_decay": 0.1})):
        report(what, lambda: of_kind(kind, make, **options))
    for kind, make in (("momentum", optim.SGD), ("lars", optim.SGD), ("adam", optim.Adam), ("adam", optim.AdamW), ("lamb", optim.AdamW),
                       ("adagrad", optim.Adagrad), ("rmsprop", Own), ("adadelta", optim.Adadelta)):
        report(f"{kind} by {make.__name__}", lambda: of_kind(kind, make))
    decay = ("weight_decay=0.01", "decoupled=true")
    for what, make, others in (("decay", optim.AdamW, decay[:1]), ("no decay", optim.Adam, decay), ("decay of both", optim.AdamW, decay)):
        report(what, lambda: of_kind("adam", make, *others))
    unlike = [{"params": [p], "betas": (beta, 0.999)} for p, beta in zip(double.parameters(), (0.9, 0.8, 0.9, 0.9))]
    report("groups", lambda: of_kind("adam", optim.Adam, groups=unlike))
    servers = {"kind": "adam", "lr": "0.001", "beta1": "0.9", "beta2": "0.999", "epsilon": "1e-08", "weight_decay": "0", "decoupled": "false",
               "rho": "0.99"}
    for kind, own, output in (
            ("adam", optim.AdamW(model.parameters(), betas=(0.8, 0.999), eps=1e-3), {"lr", "beta1"}),
            ("adam", optim.Adam([{"params": [p], "weight_decay": d} for p, d in zip(model.parameters(), (0.0, 0.5))]), set()),
            ("rmsprop", optim.RMSprop(model.parameters(), lr=0.001, alpha=0.9), set())):
        print("differ:", rules.defaults_that_differ(own, lambda key: {**servers, "kind": kind}[key.rpartition(".")[2]], output))
    for rate in ("0.1", "0.5", "1", "3.2"):
        printed = []
        _outer.warn(types.SimpleNamespace(value={"train.optimizer.lr": rate}.get, warn=printed.append))
        print("outer:", rate, len(printed), *printed)
    for override, is_data in (("cluster.endpoints=['tcp://data.lan:4000', 'tcp://big-data:4000']", False), ("data.path=p", True),
                              ("data={path: p}", True), ("data.path=null", False), ("run.name=data: p", False)):
        assert bool(rules.given_keys(config, [override], [_DATA])) == is_data, override
    report("parallel", lambda: attach(torch.nn.DataParallel(model), optimizer))
    report("parallel", lambda: attach((inner := torch.nn.Sequential(torch.nn.DataParallel(model))), plain_sgd(inner)))
    report("parallel", lambda: attach(type("Mine", (torch.nn.DataParallel,), {})(model), optimizer))
    parts = perceptron()
    parts[0].weight.placements = ()  # as a DTensor has
    report("parts", lambda: attach(parts, plain_sgd(parts)))
    with attach(model, optimizer := torch.optim.SGD(model.parameters(), lr=0.5, weight_decay=0.25), overrides=["data.path=pictures"]):
        report("twice", lambda: attach(model, plain_sgd(model)))
        report("shared", lambda: attach(perceptron(), optimizer))
        report("closure", lambda: optimizer.step(lambda: None))
        report("assigned", lambda: model.load_state_dict({n: t.clone() for n, t in model.state_dict().items()}, assign=True))
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))]})
        report("added", optimizer.step)


def stops(config, kept, forgets, dies_at="-1"):
    """Keeps its states and goes on from where the run does, as docs/PYTHON.md has it, but node `forgets`, which finds none. What
    follows after the `with` is done where the run is stopped, too. At a clock it is killed."""
    import paceline.torch
    torch.set_num_threads(1)
    model, node = perceptron(), os.environ["RANK"]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with paceline.torch.attach(model, optimizer, config, mode="worker", local_steps=2) as run:
        began = at = run.clock
        states = paceline.torch.States(run, f"{kept}-{began}" if node == forgets else kept)
        while True:
            x, y = batch(run.position // SAMPLES, int(node))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
            states.keep()
            if run.clock == int(dies_at):
                os.kill(os.getpid(), signal.SIGKILL)
            if at < run.clock == began + 3:
                sys.stderr.write("has three rounds\n")  # print() writes text and end apart, and others write between
            at = run.clock
    sys.stdout.write(f"{node}: from {began} to {at}, {run.position} samples, stopped: {run.worker.stopped}\n")


def files(config, _):
    """Which states a loop's files have, behind each of its rounds; checkpoints come as the policy's, and from its own machine or not."""
    import types

    from paceline.torch.states import States, needed
    print("needed:", *(sorted(needed(range(1, 13), versions, exact)) for versions, exact in (
        ((5, 10), True), ((5, 10), False), ((20,), True), ((0,), True), ((), True))))
    print("of every fifth:", *(sorted(needed(range(1, 13), versions, exact, 5)) for versions, exact in (
        ((5,), True), ((3, 7), True), ((3, 7), False), ((), True))))
    for policy, every in (("bsp", "null"), ("bsp", "5"), ("asp", "5"), ("ssp", "5")):
        values = {"sync.policy": policy, "checkpoint.every_clocks": every, "checkpoint.keep": "2", "run.out": f"{config}-{policy}-{every}",
                  "checkpoint.every": "5m" if every == "null" else "null", "sync.apply": "eager" if policy == "asp" else "versioned"}
        worker = types.SimpleNamespace(node=1, existing="continue", value=values.get)
        run = types.SimpleNamespace(worker=worker, clock=0, over=False, state_dict=lambda: {"clock": run.clock, "over": run.over},
                                    load_state_dict=lambda state: print("loads", state["clock"], end="; "))
        out, states = values["run.out"], States(run)

        def there():
            return sorted(int(name.split("-")[2][:-3]) for name in os.listdir(f"{out}/states"))
        for run.clock in range(1, 13):
            states.keep()
            states.keep()  # no round between: nothing
            if run.clock % 5 == 0:
                os.makedirs(f"{out}/checkpoint/g1-v{run.clock:012d}")
        run.clock, run.over = 13, True
        states.keep()
        print(policy, every, *there(), end="; ")
        run.clock = 10
        for _ in range(2):  # it is killed, and resumed once more
            states = States(run)
        print(*there(), end="; ")
        worker.existing = "replace"
        States(run)
        print(*there())
        for run.clock in range(5, 105, 5):  # the servers are on another machine
            worker.value = {**values, "run.out": f"{out}-elsewhere"}.get
            states = States(run, f"{out}/states") if run.clock == 5 else states
            states.keep()
        print(*there())
    def scheduler():
        return torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([torch.zeros(1)], 1.0), lambda n: 1 - n / 100)
    run.clock, worker.value, worker.existing, schedule, again = 0, values.get, "continue", scheduler(), scheduler()
    states = States(run, folder := f"{config}-also", also={"scheduler": schedule})
    for run.clock in range(1, 4):
        schedule.optimizer.step()
        schedule.step()
        states.keep()
    States(run, folder, also={"scheduler": again})
    again.optimizer.step()
    again.step()
    print(*again.get_last_lr())
    run.state_dict = lambda: {"optimizer": {}}
    for also, every in (({"scheduler": 3}, "null"), ({"scheduler": again, "scaler": again}, "null"), ({}, "5m")):
        worker.value = {**values, "checkpoint.every": every}.get
        try:
            States(run, folder, also=also)
        except ValueError as error:
            print(str(error).replace(folder, "FOLDER"))


def roles(_, __):
    """Which parameters are to an optimizer what."""
    from paceline.torch.tensors import role_of
    modules = [torch.nn.MultiheadAttention(4, 1, add_bias_kv=True), torch.nn.LSTM(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2)]
    modules += [torch.nn.RMSNorm(4)] if hasattr(torch.nn, "RMSNorm") else []
    for module in modules:
        print(type(module).__name__, *(f"{name}:{role_of(module, name)}" for name, _ in module.named_parameters(recurse=False)))


def loaded(_, __):
    """States of which clocks a loop may load, where its run goes on at 5."""
    import types
    from paceline._resumed import Resumed
    for policy, rejoins, clock in itertools.product(("bsp", "ssp"), (True, False), (4, 5, 6)):
        output = []
        worker = types.SimpleNamespace(clock=5, existing="continue", value={"sync.policy": policy}.get, warn=output.append)
        resumed = Resumed(worker, rejoins)
        try:
            resumed.check_clock({"clock": clock})
            print(policy, rejoins, clock, "is loaded", *output)
        except ValueError as error:
            print(policy, rejoins, clock, "is refused:", error)
    for apply, over in itertools.product(("versioned", "eager"), (False, True)):  # its last, of a stopped run
        worker.value = {"sync.policy": "ssp", "sync.apply": apply}.get
        try:
            Resumed(worker, True).check_clock({"clock": 6, "over": over})
            print(apply, over, "is loaded")
        except ValueError:
            print(apply, over, "is refused")
    output.clear()
    for _ in range(2):
        resumed.warn_if_not_loaded("it begins anew")
    print(*output)


def zeros(_, __):
    """Whether a gradient's own -0.0, also one that it has when its scale is taken from it, is one where it leaves."""
    from paceline.torch.tensors import Exchanged
    linear = torch.nn.Linear(3, 1, bias=False)
    parameter = Exchanged("weight", linear, "weight", 0, True)
    for scale in (None, 1024.0):
        place = torch.empty(3)
        parameter.write(place, torch.tensor([[-1e-44, -0.0, -1.0]]), scale)
        print(torch.logical_and(place == 0, torch.signbit(place)).any().item(), place[2].item())


def ahead(config, node, how):
    """What changes a gradient that has left already."""
    import paceline.torch
    from torch.utils.checkpoint import checkpoint
    model = perceptron() if how != "checkpoints" else torch.nn.Linear(6, 6)
    x, y = batch(0, int(node))

    def backward():
        if how == "checkpoints":  # two segments of one weight: its hook is called for each, first with a part of the gradient
            inside = x.requires_grad_()
            for _ in range(2):
                inside = checkpoint(model, inside, use_reentrant=True)
            inside.square().mean().backward()
        else:
            torch.nn.functional.cross_entropy(model(x), y).backward()
    try:
        with paceline.torch.attach(model, optimizer := plain_sgd(model), config, node=int(node), overlap=True):
            backward()
            if how == "clips":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
            elif how == "accumulates":
                backward()
            optimizer.step()
    except ValueError as error:
        print(f"{how}: {error}")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
