"""With mode="server": which of PyTorch's optimizers has the rule of train.optimizer.kind (common/params/optimizer.h), and where the
servers' values are defaults that differ from its own."""

from typing import Callable, Dict, Iterable, List, NamedTuple, Set, Tuple, Union

import torch
from torch.optim import SGD, Adadelta, Adagrad, Adam, AdamW, RMSprop

from paceline import _outer

_COMMON = ("lr", "weight_decay", "decoupled")  # of train.optimizer, whatever the kind


class Rule(NamedTuple):
    """`off`: options that the servers do not have. `keys`: of train.optimizer, with what PyTorch's groups call each, and its
    place there, where an option is several."""

    kinds: Tuple[type, ...]
    off: Tuple[str, ...]
    keys: Dict[str, Tuple]


_MOMENTUM = {"momentum": ("momentum",), "nesterov": ("nesterov",)}
_EPSILON = {"epsilon": ("eps",)}
_ADAM = {"beta1": ("betas", 0), "beta2": ("betas", 1), **_EPSILON}
_RULES = {
    "sgd": Rule((SGD,), ("momentum", "dampening"), {}),
    "momentum": Rule((SGD,), ("dampening",), _MOMENTUM),
    "lars": Rule((SGD,), ("dampening",), _MOMENTUM),
    "adam": Rule((Adam, AdamW), ("amsgrad",), _ADAM),
    "lamb": Rule((Adam, AdamW), ("amsgrad",), _ADAM),
    "adagrad": Rule((Adagrad,), ("lr_decay", "initial_accumulator_value"), _EPSILON),
    "rmsprop": Rule((RMSprop,), ("centered", "momentum"), {"rho": ("alpha",), **_EPSILON}),
    "adadelta": Rule((Adadelta,), (), {"rho": ("rho",), **_EPSILON}),
}
# Of sgd both decays are the same step, and lars and lamb have each one of their own.
_ONE_DECAY = ("sgd", "lars", "lamb")
_KEYS = {*_COMMON, *(key for rule in _RULES.values() for key in rule.keys)}
Value = Callable[[str], str]  # the effective value of a key, as text


def check(optimizer: torch.optim.Optimizer, value: Value) -> None:
    """Errors: ValueError where the servers' steps, as train.optimizer says, are not the optimizer's."""
    kind = value("train.optimizer.kind")
    rule = _RULES[kind]
    if not isinstance(optimizer, rule.kinds):
        raise ValueError(f"optimizer: got {type(optimizer).__name__} with mode='server' and train.optimizer.kind {kind}, expected "
                         f"{' or '.join(each.__name__ for each in rule.kinds)}, another kind, or mode='worker'")
    first = optimizer.param_groups[0]
    for group in optimizer.param_groups:
        for what in (*rule.off, "maximize"):
            if group.get(what):
                raise ValueError(f"optimizer: got {what}={group[what]} with mode='server' and train.optimizer.kind {kind}, expected "
                                 f"{type(group[what])(0)}, another kind, or mode='worker': the servers' steps have none")
        for what in {option for option, *_ in rule.keys.values()}:
            if group[what] != first[what]:
                raise ValueError(f"optimizer: got groups with {what}={first[what]} and {group[what]} with mode='server', expected one "
                                 "value, or mode='worker': the servers' steps have one")
    servers, own = value("train.optimizer.decoupled") == "true", _is_decoupled(optimizer)
    if kind not in _ONE_DECAY and servers != own and float(value("train.optimizer.weight_decay")) > 0:
        raise ValueError(f"train.optimizer.decoupled: got {_text(servers)} and weight_decay {value('train.optimizer.weight_decay')}, "
                         f"expected {_text(own)} with {type(optimizer).__name__} and mode='server': the decay is another")


def _is_decoupled(optimizer):
    return isinstance(optimizer, AdamW) or bool(optimizer.param_groups[0].get("decoupled_weight_decay"))


def _own(optimizer, kind) -> Dict[str, Union[bool, float]]:
    """The optimizer's values by the keys of train.optimizer. Of groups' rates and decays the servers' are what their ratios are to."""
    first, groups = optimizer.param_groups[0], optimizer.param_groups
    own = {key: first[option][at[0]] if at else first[option] for key, (option, *at) in _RULES[kind].keys.items()}
    own["lr"] = next(rate for rate in rates_of(optimizer) if rate > 0)
    own["weight_decay"] = max(float(group.get("weight_decay", 0)) for group in groups)
    if kind not in _ONE_DECAY and own["weight_decay"] > 0:
        own["decoupled"] = _is_decoupled(optimizer)
    return own


def rates_of(optimizer: torch.optim.Optimizer) -> List[float]:
    """Of its groups, in their order, without what a scheduler has made of them: it may begin at 0."""
    return [float(group.get("initial_lr", group.get("lr", 0))) for group in optimizer.param_groups]


def given_keys(config: str, overrides, keys: Iterable[str] = _KEYS) -> Set[str]:
    """Which of these last parts of keys the run's file or command line says, of those of train.optimizer for whichever optimizer of the
    run. The library says values, and not whether they are defaults."""
    return _outer.given_keys(keys, config, overrides)


def defaults_that_differ(optimizer: torch.optim.Optimizer, value: Value, given: Set[str]) -> List[str]:
    """What nobody has said of train.optimizer, where its value and the optimizer's are two."""
    differ = []
    for key, own in _own(optimizer, value("train.optimizer.kind")).items():
        servers = value(f"train.optimizer.{key}")
        is_one = servers == _text(own) if isinstance(own, bool) else float(servers) == float(own)
        if key not in given and not is_one:
            differ.append(f"train.optimizer.{key} is {servers}, the local optimizer's {_text(own)}")
    return differ


def _text(own):
    return str(own).lower() if isinstance(own, bool) else f"{float(own):g}"
