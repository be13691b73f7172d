"""With mode="server": which of PyTorch's optimizers has the rule of train.optimizer.kind (common/params/optimizer.h), and where the
servers' values are defaults that differ from its own."""

from typing import Callable, List, NamedTuple, Set, Tuple

import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop

from paceline import _outer

# Of train.optimizer, as PyTorch's groups call them, too.
_COMMON = ("lr", "momentum", "nesterov", "weight_decay")


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


def said(config: str, overrides) -> Set[str]:
    """Which of the values that a group has, too, the run's file or command line says, for whichever optimizer of the run. The
    library says values, and not whether they are defaults."""
    return _outer.said(_COMMON, config, overrides)


def defaults_that_differ(optimizer: torch.optim.Optimizer, value: Callable[[str], str], said: Set[str]) -> List[str]:
    """What nobody has said of train.optimizer, where its value and the optimizer's are two. value(key): the effective one."""
    group, differ = optimizer.param_groups[0], []
    has_momentum = value("train.optimizer.kind") in ("momentum", "lars")
    for key in _COMMON:
        if key in said or key not in group or (key in ("momentum", "nesterov") and not has_momentum):
            continue
        servers = value(f"train.optimizer.{key}")
        own = group.get("initial_lr", group["lr"]) if key == "lr" else group[key]
        own = str(own).lower() if key == "nesterov" else float(own)
        if (servers if key == "nesterov" else float(servers)) != own:
            differ.append(f"train.optimizer.{key} is {servers}, the local optimizer's {own}")
    return differ
