"""Models, optimizers and mini-batches of torch_loops.py, torch_edges.py and torch_samples.py, as numbers that are a function of step and node."""

import torch

SAMPLES, STEPS = 8, 20


def perceptron(hidden=256):
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 3))  # its beginning leaves last


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(4, 4, 3, padding=1, bias=False), torch.nn.BatchNorm2d(4)

    def forward(self, x):
        return torch.relu(x + self.norm(self.conv(x)))


def resnet():
    """Small, and normalising by its running statistics, which are not those that it begins with."""
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), Residual(), Residual(),
                                torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3))
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.eval()
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 1.5)
    return model


def momentum(model, lr=0.2):
    return torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)


def plain_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.2)


# Of each: what makes the model, the shape of a sample, and the optimizer where the servers take the steps.
MADE = {"perceptron": (perceptron, (6,), momentum), "wide": (lambda: perceptron(4096), (6,), lambda model: momentum(model, lr=0.02)),
        "resnet": (resnet, (3, 8, 8), lambda model: momentum(model, lr=0.05)),
        "rmsprop": (perceptron, (6,), lambda model: torch.optim.RMSprop(model.parameters(), lr=0.01, alpha=0.9))}


def batch(step, node, shape=(6,)):
    generator = torch.Generator().manual_seed(1000 * step + node)
    return torch.randn(SAMPLES, *shape, generator=generator), torch.randint(0, 3, (SAMPLES,), generator=generator)


def plain_run(nodes, make_optimizer, made, device="cpu"):
    """The parameters before each step, and after the last, of one process with the mini-batches of all nodes."""
    make, shape, _ = MADE[made]
    model = make().to(device)
    optimizer, seen = make_optimizer(model), []
    for step in range(STEPS):
        seen.append([p.detach().clone() for p in model.parameters()])
        parts = [batch(step, node, shape) for node in range(nodes)]
        x, y = torch.cat([x for x, _ in parts]).to(device), torch.cat([y for _, y in parts]).to(device)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return seen + [[p.detach().clone() for p in model.parameters()]]


def distance(p, q):
    return float((p.detach() - q.detach().to(p.device)).abs().max())


def measure_of(shape):
    def measure(model):
        assert not model.training
        x, y = (each.to(next(model.parameters()).device) for each in batch(STEPS, 0, shape))
        output = model(x)
        return torch.nn.functional.cross_entropy(output, y), (output.argmax(1) == y).sum(), len(y)
    return measure
