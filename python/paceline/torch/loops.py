"""attach() and pipeline(): what a loop is given is looked at, and its run begun."""

from typing import Callable, Optional, Sequence, Tuple

import torch

from paceline.torch.attached import Attached
from paceline.torch.averaged import Buffers
from paceline.torch.stages import Pipeline
from paceline.worker import check_evaluate, node_of


def attach(model: torch.nn.Module, optimizer: torch.optim.Optimizer, config: str, node: Optional[int] = None, *,
           mode: str = "server", local_steps: int = 1, overlap: bool = False, buffers: Buffers = "mean",
           evaluate: Optional[Callable[[torch.nn.Module], Tuple[float, Optional[int], int]]] = None,
           on_resume: Optional[Callable[["Attached"], None]] = None,
           overrides: Sequence[str] = (), existing: str = "refuse", hang_timeout: Optional[float] = None) -> "Attached":
    """Makes the loop around `model` and `optimizer` node `node` of the run that `config`, a YAML file, describes.

    Waits until all nodes have joined, and puts node 0's parameters into the model. node: from 0 on; None: RANK of the
    environment, as torchrun and paceline.launch set it. overlap: gradients leave while backward computes the rest, so
    nothing may change them any more: no accumulation over several backward(), no clipping, no GradScaler. buffers: running
    means and variances of batch norms (and instance norms) are "mean", averaged over the nodes in each round, or each node's
    "own". Names, as ["ema"], are floating point buffers that are averaged, too; of a function of name and tensor those are that it is
    true for, and no others. Buffers that weights are made of, as those of parametrizations, are node 0's at first and averaged. All
    other buffers are each node's own.
    evaluate(model) returns (mean loss, correct or None, samples) on test data; it is given a copy of the model, in eval mode, on a thread
    of its own.
    on_resume(run) is called in optimizer.step() where this process has outlived its servers, and they go on from a checkpoint:
    it loads the state of run.clock (run.load_state_dict()). Without it, an optimizer that has a state ends the loop then.
    overrides, existing, hang_timeout: as paceline.Worker; the time is that from one exchange to the next, with all local steps
    and whatever else the loop does between.
    Errors: paceline.Error for what the run refuses; ValueError for a model that cannot be exchanged: what, where, expected.
    """
    if not isinstance(model, torch.nn.Module):
        raise ValueError(f"model: got {type(model).__name__}, expected a torch.nn.Module, and the optimizer after it")
    check_evaluate(evaluate)
    hooks = hasattr(optimizer, "register_step_post_hook")
    if isinstance(optimizer, torch.nn.Module) or not (hooks or isinstance(optimizer, torch.optim.Optimizer)):
        raise ValueError(f"optimizer: got {type(optimizer).__name__}, expected one torch.optim.Optimizer, with all groups of parameters")
    if not hooks:
        raise ValueError(f"torch {torch.__version__}: has no step hooks, expected 2.0 or newer")
    return Attached(model, optimizer, config, node_of(node), mode=mode, local_steps=local_steps, overlap=overlap,
                    buffers=buffers, evaluate=evaluate, on_resume=on_resume, overrides=overrides, existing=existing,
                    hang_timeout=hang_timeout)


def pipeline(model: torch.nn.Sequential, loss: Callable, config: str, node: Optional[int] = None, *, example: torch.Tensor,
             balance: Sequence[int], evaluate: Optional[Callable[[torch.nn.Module], Tuple[float, Optional[int], int]]] = None,
             overrides: Sequence[str] = (), existing: str = "refuse", hang_timeout: Optional[float] = None) -> "Pipeline":
    """Makes this process a stage of `model` in the run that `config` describes (pipeline.stages, balance: loop):

        with paceline.torch.pipeline(model, loss, "my.yaml", example=x[:1], balance=[3, 2]) as stages:
            while not stages.over:
                for x, y in loader:            # the same at all stages of a group
                    stages.step(x, y)

    model: the same at all nodes; modules of other stages may be on the device meta, but at node 0, whose values the run begins
    with. loss(output, y) is the mean over the rows, a tensor, or that and how many are correct. example: a mini-batch of any
    size, of which shape and dtype count. balance: how many modules each stage has (balance() measures it). The servers'
    optimizer takes the steps. evaluate, overrides, existing, node: as attach(). hang_timeout: as paceline.Worker; for a
    micro-batch's way through this stage, and for what the loop does from step() to step().
    After a resume (existing="continue"), which may have another balance, load_state_dict() has the state that was kept of
    stages.clock, and the data go on at stages.position. Without it they begin anew.
    Waits until all nodes have joined. Errors: paceline.Error for what the run refuses; ValueError for a model that cannot be cut
    so: what, where, expected.
    """
    check_evaluate(evaluate)
    return Pipeline(model, loss, config, node_of(node), example=example, balance=balance, evaluate=evaluate, overrides=overrides,
                    existing=existing, hang_timeout=hang_timeout)
