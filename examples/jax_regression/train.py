"""A regression in JAX as a node of a Paceline run: a small network learns a curve from noisy points.

    python -m paceline.launch examples/jax_regression/regression.yaml examples/jax_regression/train.py
    train.py [--config regression.yaml] [--node I] [key.path=value …]     one node; paceline-server with the same beside it
"""

import argparse
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import paceline.jax

BATCH = 64


def points(random, count, noise):
    x = random.uniform(-3, 3, (count, 1)).astype(np.float32)
    return x, np.sin(2 * x) + 0.5 * x + noise * random.normal(size=x.shape).astype(np.float32)


def begin(widths=(1, 64, 64, 1)):
    random = np.random.default_rng(0)
    return [{"w": (random.normal(size=(a, b)) * np.sqrt(2 / a)).astype(np.float32), "b": np.zeros(b, np.float32)}
            for a, b in zip(widths, widths[1:])]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_of(params, x, y):
    return jnp.mean((predict(params, x) - y) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--config", default=str(pathlib.Path(__file__).parent / "regression.yaml"))
    parser.add_argument("--node", type=int)
    given = parser.parse_intermixed_args()
    loss_and_gradient = jax.jit(jax.value_and_grad(loss_of))
    test = points(np.random.default_rng(1), 512, noise=0)

    def measure(params):
        return float(loss_of(params, *test)), None, len(test[0])

    with paceline.jax.attach(begin(), given.config, node=given.node, evaluate=measure, overrides=given.overrides) as run:
        params, random = run.params, np.random.default_rng([2, run.worker.node])
        while not run.over:
            loss, grads = loss_and_gradient(params, *points(random, BATCH, noise=0.1))
            params = run.step(params, grads, loss=loss, samples=BATCH)
    if run.worker.node == 0:
        print(f"mean squared error on {len(test[0])} points: {measure(params)[0]:.4f}")


if __name__ == "__main__":
    main()
