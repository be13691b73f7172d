"""How many samples the rounds of a loop of PyTorch have: as torch_loops.py, each function a process.

    torch_samples.py LOOP CONFIG NODE [argument…]     LOOP: a function below
"""

import copy
import io
import sys

import torch
from torch_models import SAMPLES, batch, perceptron, plain_sgd


def counted(config, node):
    """What each round says of its samples: of two passes and one backward(), after gradients that were thrown away, and beside copies
    of the model, which train elsewhere."""
    import paceline.torch
    model, output = perceptron(), []
    optimizer = plain_sgd(model)

    def loss_of(made, step):
        x, y = batch(step, int(node))
        return torch.nn.functional.cross_entropy(made(x), y)
    with paceline.torch.attach(model, optimizer, config, node=int(node)) as run:
        finish = run.worker.finish
        run.worker.finish = lambda loss, **named: output.append((loss, named["samples"])) or finish(loss, **named)
        torch.save(model, file := io.BytesIO())
        file.seek(0)
        for made in (copy.deepcopy(model), copy.copy(model), torch.load(file, weights_only=False)):
            loss_of(made, 0)
        for step, (passes, thrown_away) in enumerate(((1, 0), (2, 0), (1, 2))):
            for _ in range(thrown_away):
                run.report(loss := loss_of(model, step))
                loss.backward()
                optimizer.zero_grad()
            losses = [loss_of(model, step) for _ in range(passes)]
            for loss in losses:
                run.report(loss, samples=SAMPLES)
            sum(losses).backward()
            optimizer.step()
            optimizer.zero_grad()
            assert output[-1] == (losses[0].item(), SAMPLES * passes), (step, output, losses)
        print("counted:", len(output))


def compiles(config, node):
    """A model that is compiled after attach(), as many times as without it, and where its samples are counted; two passes a step."""
    import paceline.torch
    def steps(made, optimizer, each=lambda: None):
        torch._dynamo.reset()
        graphs = []
        compiled = torch.compile(made, backend=lambda graph, _: graphs.append(graph) or graph.forward, fullgraph=True)
        for step in range(12):
            for _ in range(2):
                x, y = batch(step, int(node))
                torch.nn.functional.cross_entropy(compiled(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
            each()
        return len(graphs)
    model, output = perceptron(), []
    optimizer, twin = plain_sgd(model), perceptron()
    alone = steps(twin, plain_sgd(twin))
    with paceline.torch.attach(model, optimizer, config, node=int(node)) as run:
        finish = run.worker.finish
        run.worker.finish = lambda loss, **named: output.append(named["samples"]) or finish(loss, **named)
        here = steps(model, optimizer, lambda: output.append(run.position))
    assert output == [each for step in range(12) for each in (2 * SAMPLES, (step + 1) * 2 * SAMPLES)], output
    print("compiled:", alone, here)


def unseen(config, node, local_steps):
    """Rounds of which model() sees nothing in training: their samples are report()'s, or train.batch_size a step."""
    import paceline.torch
    model, steps = perceptron(), int(local_steps)
    optimizer, output = plain_sgd(model), []
    ways = {"eval": model, "part": lambda x: model[2](model[1](model[0](x))), "reported": model, "thrown away": model, "correct": model,
            "last": model}
    with paceline.torch.attach(model, optimizer, config, node=int(node), mode="worker" if steps > 1 else "server",
                               local_steps=steps) as run:
        finish = run.worker.finish
        run.worker.finish = lambda loss, **named: output.append((loss > 0, named["samples"])) or finish(loss, **named)
        for way, forward in ways.items():
            model.train(way == "part")
            for step in range(steps):
                x, y = batch(step, int(node))
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(forward(x), y)
                if way == "thrown away" and steps == 1:
                    run.report(loss)
                    loss.backward(retain_graph=True)
                    optimizer.zero_grad()
                if way != "part" and (way != "last" or step == steps - 1):
                    run.report(loss, samples=5 if way == "reported" else None, correct=10 if way == "correct" else None)
                loss.backward()
                optimizer.step()
            print(way, *output.pop(), run.position)


def behind(config, node):
    """Reports behind step(): the next round has the samples that model() is given for it, or the reports'."""
    import paceline.torch
    model = perceptron()
    optimizer, output = plain_sgd(model), []
    with paceline.torch.attach(model, optimizer, config, node=int(node)) as run:
        finish = run.worker.finish
        run.worker.finish = lambda loss, **named: output.append((named["correct"], named["samples"])) or finish(loss, **named)
        for step, (passes, correct, samples) in enumerate(((2, 10, None), (1, 3, 4), (1, 3, 4), (1, None, None))):
            optimizer.zero_grad()
            loss = sum(torch.nn.functional.cross_entropy(model(x[:6]), y[:6]) for x, y in [batch(step, int(node))] * passes)
            loss.backward()
            optimizer.step()
            run.report(loss, correct, samples)
        print(*output, run.position)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
