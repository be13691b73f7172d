"""Where a loop takes the steps itself (mode="worker"), the servers take a mean of what those have changed: train.optimizer is the
outer optimizer, {kind: sgd, lr: 1} to average, momentum for DiLoCo's."""

import re
from typing import Iterable, Sequence, Set

from paceline._library import overrides_of, whole_number


def local_steps_of(mode: str, local_steps: int) -> int:
    """As given. Errors: ValueError for another mode, or for several steps that the servers are to take."""
    if mode not in ("server", "worker"):
        raise ValueError(f"mode: got {mode!r}, expected 'server' or 'worker'")
    local_steps = whole_number("local_steps", local_steps, 1)
    if mode == "server" and local_steps != 1:
        raise ValueError(f"local_steps: got {local_steps}, expected 1, or more with mode='worker'")
    return local_steps


def given_keys(keys: Iterable[str], config: str, overrides: Sequence[str]) -> Set[str]:
    """Those of `keys` that the run's file or command line says, in whichever section. The library says values, and not whether they
    are defaults."""
    with open(config, encoding="utf-8") as file:
        texts = [re.sub(r"(^|\s)#.*", "", file.read())]
    # Of an override's value only a mapping has keys.
    texts += [re.sub(r"\A([^=]*=)(?!\s*(?:\{|null)).*", r"\1", each, flags=re.DOTALL) for each in overrides_of(config, overrides)]
    return {key for key in keys if any(re.search(rf"\b{key}\b[\"']?\s*[:=](?!\s*null)", text) for text in texts)}


def warn(worker) -> None:
    """Of a rate that may be meant for gradients. After start()."""
    rate = worker.value("train.optimizer.lr")
    if not 0.5 <= float(rate) <= 1:
        worker.warn(f"train.optimizer.lr: got {rate} with mode='worker', expected 1, or 0.7 with nesterov: the servers take that share of "
                    "what the workers' optimizers have changed")


def check(worker, config: str, overrides: Sequence[str]) -> None:
    """Errors: ValueError, by the key, for a run whose servers do not take such a mean."""
    if worker.value("train.local_steps") != "1":
        raise ValueError(f"train.local_steps: got {worker.value('train.local_steps')} with mode='worker', expected 1: those of "
                         "the model's own optimizer are attach(…, local_steps=…)")
    for key, expected in (("sync.combine", ("mean",)), ("train.optimizer.kind", ("sgd", "momentum")),
                          ("train.optimizer.weight_decay", ("0",)), ("train.optimizer.schedule.kind", ("constant",))):
        if worker.value(key) not in expected:
            raise ValueError(f"{key}: got {worker.value(key)} with mode='worker', expected {' or '.join(expected)}: the servers "
                             "take a mean of what the workers' optimizers have changed")
    if worker.value("train.optimizer.lr") == "0.01" and not given_keys(("lr",), config, overrides):
        raise ValueError("train.optimizer.lr: got none with mode='worker', expected one, of which 1 takes the mean of what the "
                         "workers' optimizers have changed: the default, 0.01, is for gradients")
