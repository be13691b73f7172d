"""A PyTorch loop as a Paceline worker:

    import paceline.torch
    with paceline.torch.attach(model, optimizer, "my.yaml", node=rank) as run:
        while not run.over:
            for x, y in loader:
                loss = loss_of(model(x), y); optimizer.zero_grad(); loss.backward(); optimizer.step()

Two ways:

    mode="server"   gradients go to the servers, whose optimizer (train.optimizer) takes the step. optimizer.step() sends
                    them, and returns with the parameters of the next round in the model. The optimizer's own update does
                    not happen; of its groups, the ratios of the learning rates and of the weight decays count.
    mode="worker"   the model's own optimizer takes the steps, and after `local_steps` of them what has changed goes to the
                    servers, which average it (train.optimizer: {kind: sgd, lr: 1}), or take an
                    outer step with it (DiLoCo's: momentum with nesterov).

pipeline() cuts an nn.Sequential into stages, each on a node of its own. States keeps what a resume needs of a loop.

Parameters change in optimizer.step() alone, in place. When the run is over, the next step() raises paceline.RunOver, where it
was stopped its Stopped. attach() takes both back: the lines after the `with` follow.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.torch.attached import Attached
    from paceline.torch.cut import balance
    from paceline.torch.loops import attach, pipeline
    from paceline.torch.stages import Pipeline
    from paceline.torch.states import States

__all__ = ["Attached", "Pipeline", "States", "attach", "balance", "pipeline"]

_FILE_OF = {"Attached": "attached", "Pipeline": "stages", "States": "states", "attach": "loops", "balance": "cut", "pipeline": "loops"}


def __getattr__(name: str):
    """One of the above, once it is asked for: paceline.torch.launch, which is a part of this package, does not wait for torch."""
    if name not in _FILE_OF:
        raise AttributeError(f"module 'paceline.torch' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"paceline.torch.{_FILE_OF[name]}"), name)
    globals()[name] = found
    return found


def __dir__():
    return sorted({*globals(), *__all__})
