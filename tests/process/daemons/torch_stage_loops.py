"""Training loops in PyTorch over stages, each a process that torch_stages_test.py starts:

    torch_stage_loops.py LOOP CONFIG NODE [argument…]     LOOP: a function below
"""

import contextlib
import sys

import torch
from torch import nn

STEPS, BATCH = 12, 8


class Spare(nn.Tanh):
    """With a parameter that never has a gradient: neither momentum nor weight decay move it."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Parameter(torch.ones(3))


def perceptron():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(6, 32), Spare(), nn.Linear(32, 32), nn.ReLU(inplace=True), nn.Linear(32, 16), nn.ReLU(),
                         nn.Linear(16, 3)), (6,)


def normed():
    torch.manual_seed(7)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1),
                         nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)), (2, 4, 4)


def dropped():
    torch.manual_seed(7)
    return nn.Sequential(nn.Dropout(0.3, inplace=True), nn.Linear(6, 32), nn.Dropout(0.3), nn.Linear(32, 32), nn.ReLU(inplace=True),
                         nn.Dropout(0.3), nn.Linear(32, 3)), (6,)


def parametrized():
    """Weights that buffers are part of."""
    torch.manual_seed(7)
    return nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(),
                         nn.utils.parametrizations.spectral_norm(nn.Linear(8, 3))), (6,)


MADE = {"perceptron": perceptron, "normed": normed, "dropped": dropped, "parametrized": parametrized}


def low(made):
    """The parametrized model is computed with autocast: one around the whole loop, and in plain PyTorch one for each step."""
    return torch.autocast("cpu", torch.bfloat16) if made == "parametrized" else contextlib.nullcontext()


def batch(step, group, shape, rows, whole=False):
    """The last of an epoch of four is smaller, unless all are whole."""
    generator = torch.Generator().manual_seed(1000 * step + group)
    rows = rows - 3 if step % 4 == 3 and not whole else rows
    return torch.randn(rows, *shape, generator=generator), torch.randint(0, 3, (rows,), generator=generator)


def loss_of(output, y):
    return nn.functional.cross_entropy(output, y), (output.argmax(1) == y).sum()


def tensors_of(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def plain_run(made, groups, rows, lr, whole):
    """The state before each step, and after the last, of one process with the mini-batches of all groups."""
    model, shape = MADE[made]()
    optimizer, seen, losses = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=0.01), [], []
    for step in range(STEPS):
        seen.append(tensors_of(model))
        parts = [batch(step, group, shape, rows, whole) for group in range(groups)]
        with low(made):
            loss, _ = loss_of(model(torch.cat([x for x, _ in parts])), torch.cat([y for _, y in parts]))
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return seen + [tensors_of(model)], losses


def measure_of(shape, expected):
    def measure(model):
        assert not model.training
        x, y = batch(3, 9, shape, 10)  # 7 rows
        output = model(x)
        assert output.shape[0] == 7
        expected.append(max(float((model.state_dict()[name] - value).abs().max()) for name, value in expected[0].items()))
        loss, correct = loss_of(output, y)
        return loss, correct, len(y)
    return measure


def equal(config, node, made, cut):
    """Compares each step's parameters and losses, and the model of the run's end, with plain PyTorch's."""
    import paceline.torch
    torch.set_num_threads(1)
    node, cut = int(node), [int(modules) for modules in cut.split("+")]
    model, shape = MADE[made]()
    first, last = sum(cut[:node % len(cut)]), sum(cut[:node % len(cut) + 1])
    if node:  # node 0's count
        with torch.no_grad():
            for tensor in (*model.parameters(), *(model.buffers() if made == "parametrized" else ())):
                tensor.fill_(9.0)
        for i, module in enumerate(model):
            if made == "perceptron" and not first <= i < last:
                module.to("meta")  # those of other stages need not be there
    worst, step = 0.0, 0
    end = []
    evaluate = measure_of(shape, end) if node == 0 or made != "perceptron" else None
    with contextlib.ExitStack() as around, paceline.torch.pipeline(model, loss_of, config, node=node, example=torch.zeros(1, *shape),
                                                                   balance=cut, evaluate=evaluate) as stages:
        rows, lr = BATCH * stages.stages, float(stages.worker.value("train.optimizer.lr"))
        whole = stages.worker.value("exchange.kind") == "allreduce"
        expected, losses = plain_run(made, stages.groups, rows, lr, whole)
        end.append({name: value for name, value in expected[-1].items() if "num_batches" not in name})
        around.enter_context(low(made))
        while True:
            if not stages.over:
                worst = max(worst, *(float((value - expected[step][name]).abs().max()) for name, value in stages.model.state_dict().items()))
            if whole and step == 3:
                try:
                    stages.step(*batch(step, stages.group, shape, rows))
                except paceline.Error as error:
                    print("refused:", error)
            x, y = batch(step, stages.group, shape, rows, whole)
            loss = stages.step(x if stages.is_first else None, y if stages.is_last else None, samples=len(x))
            if stages.groups == 1:
                worst = max(worst, abs(loss - losses[step]))
            step += 1
    assert step == STEPS, step
    print("worst:", worst)
    print("model:", end[-1] if evaluate and len(end) > 1 else "none")


def ends(config, node, made, cut):
    """The parameters of this stage at each step, as bits."""
    import hashlib
    import paceline.torch
    torch.set_num_threads(1)
    cut = [int(modules) for modules in cut.split("+")]
    model, shape = MADE[made]()
    torch.manual_seed(100 + int(node))
    bits = []
    with paceline.torch.pipeline(model, loss_of, config, node=int(node), example=torch.zeros(1, *shape), balance=cut) as stages:
        step = 0
        while True:
            state = b"".join(value.numpy().tobytes() for value in stages.model.state_dict().values())
            bits.append(hashlib.sha256(state).hexdigest()[:16])
            stages.step(*batch(step, stages.group, shape, BATCH * stages.stages))
            step += 1
    print("bits of each step:", *bits)


def resumed(config, node, cut, kept, waits_at):
    """Where the data go on the run says. Its states are kept by clock; at one it waits to be killed."""
    import paceline.torch
    torch.set_num_threads(1)
    model, shape = MADE["perceptron"]()
    with paceline.torch.pipeline(model, loss_of, config, node=int(node), example=torch.zeros(1, *shape), existing="continue",
                                 balance=[int(modules) for modules in cut.split("+")]) as run:
        if run.clock > 0:
            print("goes on at:", run.clock)
            try:
                run.load_state_dict({**run.state_dict(), "clock": run.clock + 1})
            except ValueError as error:
                print("refused:", error)
            state = torch.load(f"{kept}-{node}-{run.clock}")
            if run.is_first:
                run.load_state_dict(state)
            else:  # which is warned of
                run._position = state["position"]
        while not run.over:
            torch.save(run.state_dict(), f"{kept}-{node}-{run.clock}")
            if run.clock == int(waits_at):
                open(f"{kept}-{node}-release").close()  # a fifo
            rows = BATCH * run.stages  # of each: a smaller mini-batch is rounded by where the model is cut
            run.step(*batch(run.position // rows, 0, shape, rows, whole=True))
    print("clock:", run.clock, "position:", run.position)


def raises(config, node, made, cut, stage, way):
    """A stage whose model raises in the first step, on its way forward or back. What it raises is all that is printed."""
    import paceline.torch
    torch.set_num_threads(1)
    model, shape = MADE[made]()

    def fail(*_):
        raise ArithmeticError(f"no way {way} today")

    def fail_on_the_way_back(_, __, output):
        output.register_hook(fail)
    try:
        with paceline.torch.pipeline(model, loss_of, config, node=int(node), example=torch.zeros(1, *shape),
                                     balance=[int(modules) for modules in cut.split("+")]) as stages:
            if stages.stage == int(stage):
                stages.model[0].register_forward_hook(fail if way == "forward" else fail_on_the_way_back)
            while True:
                stages.step(*batch(0, stages.group, shape, BATCH * stages.stages))
    except ArithmeticError as error:  # PyTorch's part of the trace names what is taken for a crash
        sys.exit(f"ArithmeticError: {error}")


def waits(config, node, made, cut, seconds="none"):
    """The last stage never comes back from its first way forward; in `seconds` it is lost."""
    import time
    import paceline.torch
    model, shape = MADE[made]()

    def sleep(*_):
        print("sleeps", file=sys.stderr, flush=True)
        time.sleep(600)
    with paceline.torch.pipeline(model, loss_of, config, node=int(node), example=torch.zeros(1, *shape),
                                 balance=[int(modules) for modules in cut.split("+")],
                                 hang_timeout=None if seconds == "none" else float(seconds)) as stages:
        if stages.is_last:
            stages.model[0].register_forward_hook(sleep)
        stages.step(*batch(0, stages.group, shape, BATCH * stages.stages))


def refused(config, node):
    """What cannot be cut so."""
    import paceline
    import paceline.torch
    from paceline.torch.cut import cut_by_costs
    model, shape = perceptron()
    example = torch.zeros(1, *shape)
    tied = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    tied[1].weight = tied[0].weight
    whole = {"module": lambda: paceline.torch.pipeline(nn.Linear(6, 3), loss_of, config, node=0, example=example, balance=[1]),
             "parallel": lambda: paceline.torch.pipeline(nn.Sequential(nn.DataParallel(nn.Linear(6, 3)), nn.Linear(3, 3)), loss_of, config,
                                                         node=0, example=example, balance=[1, 1]),
             "sum": lambda: paceline.torch.pipeline(model, loss_of, config, node=0, example=example, balance=[2, 2]),
             "stages": lambda: paceline.torch.pipeline(model, loss_of, config, node=0, example=example, balance=[2, 2, 3]),
             "none": lambda: paceline.torch.pipeline(nn.Sequential(nn.Linear(6, 3), nn.ReLU()), loss_of, config, node=0, example=example,
                                                     balance=[1, 1]),
             "tied": lambda: paceline.torch.pipeline(tied, loss_of, config, node=0, example=example, balance=[1, 1]),
             "shape": lambda: paceline.torch.pipeline(model, loss_of, config, node=0, example=torch.zeros(1, 5), balance=[2, 5]),
             "list": lambda: paceline.torch.pipeline(model, loss_of, config, node=0, example=example, balance=[2, 5],
                                                     overrides=["pipeline.balance=[2, 5]"]),
             "attached": lambda: paceline.torch.attach(model, torch.optim.SGD(model.parameters(), lr=0.1), config, node=0)}
    for name, call in whole.items():
        try:
            call()
        except (ValueError, paceline.Error) as error:
            print(f"{name}: {error}")
    print("cut:", cut_by_costs([1, 1, 1, 5], [True] * 4, [1, 1]), cut_by_costs([1] * 8, [True] * 8, [1, 1, 2]),
          cut_by_costs([9, 1, 1], [False, True, True], [1, 1]))
    print("balance:", sum(paceline.torch.balance(model, torch.zeros(4, *shape), 2, repeats=1)))


def measured(_, __):
    """How far statistics of micro-batches of 6, 5 and 5 rows together are from those of all 16, of channels far from 0."""
    from paceline.torch.norms import Norms
    torch.manual_seed(3)
    x = 1000.0 + torch.randn(16, 4, 5, 5)
    worst = 0.0
    for kind in (nn.BatchNorm2d, nn.InstanceNorm2d):
        for momentum in (0.1, None):
            plain, parts = (nn.Sequential(kind(4, momentum=momentum, track_running_stats=True)) for _ in range(2))
            norms = Norms(parts)
            for _ in range(2):
                plain(x)
                with norms:
                    for rows in x.split([6, 5, 5]):
                        norms.counts = True
                        parts(rows)
                        norms.counts = False
                        parts(rows)  # as it is computed again
            for name, value in plain.state_dict().items():
                worst = max(worst, float((parts.state_dict()[name] - value).abs().max()))
    print("worst:", worst)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
