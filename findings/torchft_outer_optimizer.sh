#!/usr/bin/env bash
# torchft: one outer optimizer for several fragments also steps those whose turn it is not, along this replica's own last gradient.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
python3 -m venv "$tmp/venv"
"$tmp/venv/bin/pip" install -q torchft==0.2.0 torch==2.13.0 numpy==2.4.6
cat >"$tmp/check.py" <<'PY'
import logging
import math
import os
import sys
import threading
from datetime import timedelta
from importlib.metadata import version

import torch
from torch import nn
from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.local_sgd import DiLoCo

logging.disable(logging.CRITICAL)
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
torch.set_num_threads(1)
LIMIT = timedelta(seconds=60)
INNER, OUTER, MOMENTUM = 0.01, 0.7, 0.9
STEPS, EVERY, WIDTH = 40, 4, 8  # two fragments: each second step one of them is exchanged, in turn


def model():
    torch.manual_seed(0)  # the same on both replicas
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)))


def outer(parameters):
    return torch.optim.SGD(parameters, lr=OUTER, momentum=MOMENTUM, nesterov=True)


def worker(replica, net, lighthouse, result, one):
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=LIMIT), load_state_dict=net.load_state_dict, state_dict=net.state_dict,
                      min_replica_size=2, use_async_quorum=False, init_sync=False, rank=0, world_size=1, timeout=LIMIT,
                      store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=lighthouse, hostname="localhost",
                      replica_id=f"replica{replica}")
    inner = torch.optim.SGD(net.parameters(), lr=INNER)
    outers = outer(net.parameters()) if one else [outer(fragment.parameters()) for fragment in net]
    draw = torch.Generator().manual_seed(1 + replica)
    losses, moved = [], []
    with DiLoCo(manager, list(net), inner, outers, sync_every=EVERY):
        for _ in range(STEPS):
            x = torch.randn(64, WIDTH, generator=draw)
            inner.zero_grad()
            loss = (net(x) - x).square().mean()
            loss.backward()
            before, gradient = net[1].weight.detach().clone(), net[1].weight.grad.clone()
            inner.step()
            losses.append(loss.item())
            moved.append(((net[1].weight - before).norm() / gradient.norm()).item() / INNER)
    result[replica] = (losses, moved[1], manager.current_step())  # step 1 ends with fragment 0's turn
    manager.shutdown(wait=False)


print("torchft", version("torchft"), "torch", torch.__version__)
print("guess: DiLoCo takes an outer optimizer or a list of them; one for all fragments trains like a list of equal ones")
seen = {}
for name, one in (("a list", False), ("one", True)):
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=2000)
    address = "http://127.0.0.1:" + lighthouse.address().rsplit(":", 1)[1]
    nets, result = [model(), model()], {}
    threads = [threading.Thread(target=worker, args=(r, nets[r], address, result, one), daemon=True) for r in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    lighthouse.shutdown()
    losses, length, rounds = seen[name] = result[0]
    print(f"{name}: in the first turn of fragment 0, fragment 1 moves by {length:.1f} x inner rate x gradient; rounds committed {rounds}; "
          "loss", *(f"{each:.3g}" for each in losses[::8]))
wanted = 1 + OUTER * (1 + MOMENTUM) / INNER  # the inner step and, with Nesterov's first step, the outer one along the same gradient
losses, length, rounds = seen["one"]
as_found = abs(seen["a list"][1] - 1) < 0.01 and abs(length - wanted) < 0.01 * wanted
as_found &= seen["a list"][0][-1] < 1.2 and not math.isfinite(losses[-1]) and rounds == seen["a list"][2] == STEPS * 2 // EVERY
print(f"as found: fragment 1 also takes an outer step along its own gradient (1 + {wanted - 1:.0f}), and the loss is NaN"
      if as_found else "CHANGED")
sys.stdout.flush()
os._exit(0 if as_found else 1)  # the library's own threads go on
PY
cd "$tmp" && "$tmp/venv/bin/python" check.py 2>log || { tail -20 log; exit 1; }
