"""What formats_test.py asks of other programs' own packages, each in a process of its own:

    formats.py WHAT [argument…]     WHAT: a function below; its last lines on standard output say what it has seen
"""

import collections
import json
import sys

import numpy as np

import paceline


def read_safetensors(file, model):
    """The package's two readers see the tensors of model.bin, to the bit."""
    import safetensors
    import safetensors.numpy
    expected = paceline.read_model(model)
    read = safetensors.numpy.load_file(file)
    assert sorted(read) == sorted(expected), (sorted(read), sorted(expected))
    for name, array in expected.items():
        assert read[name].dtype == np.float32 and read[name].shape == array.shape, name
        assert np.array_equal(read[name], array), name
    with safetensors.safe_open(file, "np") as opened:
        print("metadata:", json.dumps(opened.metadata(), sort_keys=True))


def torch_network():
    """That of TORCH in formats_test.py, with its names."""
    import torch
    torch.manual_seed(5)
    return torch.nn.Sequential(collections.OrderedDict(
        conv=torch.nn.Conv2d(3, 4, 5, stride=4), bn=torch.nn.BatchNorm2d(4), relu=torch.nn.ReLU(), flat=torch.nn.Flatten(),
        fc=torch.nn.Linear(196, 10)))


def write_state_dict(file):
    """A state_dict of PyTorch's: batch norm's counter is an integer, a tensor is bfloat16, one is of no layer."""
    import torch
    import safetensors.torch
    state = torch_network().state_dict()
    state["fc.bias"] = state["fc.bias"].to(torch.bfloat16)
    state["other"] = torch.ones(3)
    safetensors.torch.save_file(state, file)


def load_state_dict(file):
    """The run's model is that of write_state_dict(), and a PyTorch model takes it."""
    import torch
    import safetensors.torch
    model, begun = torch_network(), torch_network().state_dict()
    begun["fc.bias"] = begun["fc.bias"].to(torch.bfloat16).float()
    read = safetensors.torch.load_file(file)
    print("matched:", model.load_state_dict(read))
    print("alike:", all(torch.allclose(value, begun[name], rtol=0, atol=1e-20) for name, value in model.state_dict().items()))


def drawn(n, seed):
    """In [-0.5, 0.5), in single precision; tests/unit/model_pytorch_test.cc has the same."""
    values = []
    for _ in range(n):
        seed = (1103515245 * seed + 12345) % 2**31
        values.append(seed / 2**31 - 0.5)
    return np.array(values, np.float32)


def residual_gradient():
    """Of a residual network with batch norm, a projection and average pools: each parameter's gradient is PyTorch's, and
    what was measured is what PyTorch's running statistics become. Prints what model_pytorch_test.cc knows of PyTorch's."""
    import torch
    from torch import nn
    made = paceline.Network([
        {"kind": "conv", "name": "c1", "out": 8, "kernel": 3, "bias": False}, {"kind": "batch_norm", "name": "n1"},
        {"kind": "relu", "name": "r1"}, {"kind": "conv", "name": "c2", "out": 16, "kernel": 3, "stride": 2, "bias": False},
        {"kind": "batch_norm", "name": "n2"},
        {"kind": "conv", "name": "p", "out": 16, "kernel": 1, "stride": 2, "bias": False, "from": ["r1"]},
        {"kind": "batch_norm", "name": "m"}, {"kind": "add", "from": ["n2", "m"]}, {"kind": "relu"},
        {"kind": "average_pool", "kernel": 2, "stride": 2}, {"kind": "global_average_pool"}, {"kind": "dense", "name": "fc", "out": 10}],
        (3, 8, 8), batch_size=12)
    modules = {"c1": nn.Conv2d(3, 8, 3, padding=1, bias=False), "n1": nn.BatchNorm2d(8, momentum=1),
               "c2": nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), "n2": nn.BatchNorm2d(16, momentum=1),
               "p": nn.Conv2d(8, 16, 1, stride=2, bias=False), "m": nn.BatchNorm2d(16, momentum=1), "fc": nn.Linear(16, 10)}
    c1, n1, c2, n2, p, m, fc = (module.double() for module in modules.values())
    tensors = {f"{name}.{of}": tensor for name, module in modules.items() for of, tensor in module.state_dict(keep_vars=True).items()
               if of != "num_batches_tracked"}
    ends = np.cumsum([each.numel() for each in tensors.values()])
    parameters = drawn(made.floats, 1)
    for (name, tensor), part in zip(tensors.items(), np.split(parameters, ends[:-1])):
        if name in ("n1.weight", "n2.weight", "m.weight"):
            part += 1
        tensor.data.copy_(torch.from_numpy(part).reshape(tensor.shape))
    x, y = drawn(12 * 192, 2).reshape(12, 3, 8, 8), (7 * np.arange(12) + 3) % 10
    gradient = np.empty(made.floats, np.float32)
    loss, _ = made.gradient(parameters, x, y, gradient)
    inside = torch.relu(n1(c1(torch.from_numpy(x).double())))
    outside = torch.relu(n2(c2(inside)) + m(p(inside)))
    logits, labels = fc(nn.functional.avg_pool2d(outside, 2).mean((2, 3))), torch.from_numpy(y)
    expected = nn.functional.cross_entropy(logits, labels)
    expected.backward()
    print(f"loss {expected.item():.9f}, smoothed {nn.functional.cross_entropy(logits, labels, label_smoothing=0.1).item():.9f}")
    worst = abs(loss - expected.item())
    for (name, tensor), part in zip(tensors.items(), np.split(gradient, ends[:-1])):
        of_torch = (tensor.grad if tensor.requires_grad else tensor).detach().numpy().ravel()
        norm = np.linalg.norm(of_torch)
        print(f'{{"{name}", {norm:.9f}, {of_torch @ drawn(of_torch.size, 3).astype(float):.9f}}},')
        worst = max(worst, np.linalg.norm(part - of_torch) / norm)
    print("worst:", worst)


def our_log_probabilities(layers, tensors, x):
    """Of our own loop, in evaluation, with the layers' own tensors."""
    layers = json.loads(layers)
    network, own = paceline.Network(layers, x.shape[1:]), {layer.get("name") for layer in layers}
    flat = network.flat({name: array for name, array in tensors.items() if name.rpartition(".")[0] in own})
    return np.array([[-network.evaluate(flat, each[None], np.array([label]))[0] for label in range(10)] for each in x])


def pictures():
    return np.random.default_rng(3).normal(size=(6, 3, 32, 32)).astype(np.float32)


def run_state_dict(file, model, layers):
    """PyTorch's log-probabilities with the run's tensors beside those of our own loop."""
    import torch
    import safetensors.torch
    network, x = torch_network().eval(), pictures()
    print("unused:", *network.load_state_dict(safetensors.torch.load_file(file), strict=False).unexpected_keys)
    with torch.no_grad():
        theirs = torch.log_softmax(network(torch.from_numpy(x)).double(), 1).numpy()
    print("worst:", np.abs(theirs - our_log_probabilities(layers, paceline.read_model(model), x)).max())


def run_onnx(file, model, layers, lack, output=None):
    """onnxruntime's log-probabilities beside those of our own loop, and the initializers beside the layout."""
    import onnx
    import onnxruntime
    read = onnx.load(file)
    onnx.checker.check_model(read, full_check=True)
    tensors = paceline.read_model(model)
    initializers = {each.name: onnx.numpy_helper.to_array(each) for each in read.graph.initializer}
    assert sorted(set(tensors) - set(initializers)) == json.loads(lack), sorted(set(tensors) - set(initializers))
    x = pictures()
    session = onnxruntime.InferenceSession(file)
    print("outputs:", *(each.name for each in session.get_outputs()))
    logits = session.run(output and [output], {session.get_inputs()[0].name: x})[0].astype(np.float64)
    assert logits.shape == (6, 10), logits.shape
    theirs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    ours = our_log_probabilities(layers, tensors, x)
    print("spread:", np.abs(ours).max())
    print("worst:", np.abs(theirs - ours).max())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
