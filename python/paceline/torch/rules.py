"""With mode="server": which of PyTorch's optimizers has the rule of train.optimizer.kind (common/params/optimizer.h)."""

from typing import NamedTuple, Tuple

import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop


class Rule(NamedTuple):
    """Its options have the values of train.optimizer, but for those that the servers do not have: they are off."""

    kinds: Tuple[type, ...]
    off: Tuple[str, ...]


_RULES = {
    "sgd": Rule((SGD,), ("momentum", "dampening")),
    "momentum": Rule((SGD,), ("dampening",)),
    "lars": Rule((SGD,), ("dampening",)),
    "adam": Rule((Adam, AdamW), ("amsgrad",)),
    "lamb": Rule((Adam, AdamW), ("amsgrad",)),
    "adagrad": Rule((Adagrad,), ("lr_decay", "initial_accumulator_value")),
    "rmsprop": Rule((RMSprop,), ("centered", "momentum")),
    "adadelta": Rule((Adadelta,), ()),
}


def check(optimizer: torch.optim.Optimizer, kind: str) -> None:
    """Errors: ValueError where the servers' steps, of train.optimizer.kind `kind`, are not the optimizer's."""
    rule = _RULES[kind]
    if not isinstance(optimizer, rule.kinds):
        raise ValueError(f"optimizer: got {type(optimizer).__name__} with mode='server' and train.optimizer.kind {kind}, expected "
                         f"{' or '.join(each.__name__ for each in rule.kinds)}, another kind, or mode='worker'")
    for group in optimizer.param_groups:
        for what in (*rule.off, "maximize"):
            if group.get(what):
                raise ValueError(f"optimizer: got {what}={group[what]} with mode='server' and train.optimizer.kind {kind}, expected "
                                 f"{type(group[what])(0)}, another kind, or mode='worker': the servers' steps have none")
