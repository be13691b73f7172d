"""Training loops in JAX, each a process that jax_test.py starts:

    jax_loops.py LOOP CONFIG NODE [argument…]     LOOP: a function below

What a loop finds wrong is an exception; its last lines on standard output say what it has seen.
"""

import os
import pathlib
import pickle
import sys

import jax
import numpy as np

import paceline.jax

STEPS = 20


def worst_of(seen, expected):
    return max(float(np.abs(np.asarray(p) - np.asarray(q)).max()) for one, other in zip(seen, expected)
               for p, q in zip(jax.tree_util.tree_leaves(one), jax.tree_util.tree_leaves(other)))


def loss_of(params, x):
    return jax.numpy.mean((x @ params["layer"]["w"] + params["layer"]["b"] - params["y"]) ** 2)


gradient = jax.jit(jax.value_and_grad(loss_of))


def begin():
    """One of the leaves is above the size from which JAX shares memory."""
    random = np.random.default_rng(1)
    return {"layer": {"w": random.normal(size=(300, 200)).astype(np.float32) / 20, "b": np.zeros(200, np.float32)},
            "y": np.ones((), np.float32)}


def batch(step, node):
    return np.random.default_rng([step, node]).normal(size=(4, 300)).astype(np.float32)


def watch_what_jax_is_given():
    """All arrays that jax.numpy.asarray() is given from here on, kept."""
    given, asarray = [], jax.numpy.asarray
    jax.numpy.asarray = lambda array, *rest: given.append(array) or asarray(array, *rest)
    return given


def regression(config, node, waits_at="-1", release=""):
    """Plain SGD of the servers. Each step's parameters are compared with a loop of NumPy's own, those of earlier steps once more
    at the end. It goes on where the run does; at a clock it waits for the other end of a fifo."""
    node = int(node)
    consume = jax.jit(lambda tree: jax.tree_util.tree_map(lambda leaf: 2 * leaf, tree), donate_argnums=0)
    expected, seen = [begin()], []
    for step in range(STEPS):
        parts = [gradient(expected[-1], batch(step, of))[1] for of in range(2)]
        expected.append(jax.tree_util.tree_map(lambda p, *g: p - np.float32(0.1) * np.mean(g, axis=0, dtype=np.float32),
                                               expected[-1], *parts))
    given = watch_what_jax_is_given()
    with paceline.jax.attach(begin(), config, node=node, existing="continue") as run:
        first = run.clock
        while not run.over:
            if run.clock == int(waits_at):
                open(release).close()
            # JAX may read it at any time from here on: nothing is ever received into it.
            assert given and not any(np.may_share_memory(array, run.worker.under_way.parameters) for array in given)
            seen.append(params := run.params)
            loss, grads = gradient(params, batch(run.steps, node))
            assert run.step(params, grads, loss=loss, samples=4) is run.params
            consume(grads)  # a view of ours would turn donation off, without a word
            assert all(leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(grads))
    assert len(seen) == STEPS - first and run.clock == STEPS, (len(seen), first, run.clock)
    print("goes on at:", first)
    print("worst:", worst_of(seen, expected[first:]))


def of_leaves(config, node):
    """A leaf that is frozen, one with factors, one without decay as a bias, one with a gradient in every other step alone, one whose gradient is -0.0 and one of
    half precision: as NumPy's momentum with weight decay, for each what it is."""
    random = np.random.default_rng(1)
    rate, mass, decay = np.float32(0.1), np.float32(0.9), np.float32(0.25)
    params = {name: random.normal(size=5).astype(np.float32) for name in ("half", "still", "zero")}
    params["branch"] = [random.normal(size=(2, 3)).astype(np.float32) for _ in range(2)]
    params["sometimes"] = random.normal(size=()).astype(np.float32)
    factors = {"branch": 0.5, "half": 1, "sometimes": 1, "still": 1, "zero": 1}

    def gradients(step):
        draws = np.random.default_rng([7, step])
        grads = jax.tree_util.tree_map(lambda leaf: jax.numpy.asarray(draws.normal(size=leaf.shape).astype(np.float32)), params)
        return {**grads, "half": grads["half"].astype(jax.numpy.bfloat16), "sometimes": grads["sometimes"] if step % 2 else None,
                "still": None if step == 3 else grads["still"], "zero": jax.numpy.full(5, -0.0)}
    expected, speed = [params], jax.tree_util.tree_map(np.zeros_like, params)
    for step in range(STEPS):
        now, grads = dict(expected[-1]), gradients(step)

        def stepped(name, p, g, v, factor=np.float32(1), decays=np.float32(1)):
            v = mass * v + np.asarray(g).astype(np.float32) + decays * decay * p
            return v, p - factor * rate * v
        for name in ("half", "zero", *(["sometimes"] if step % 2 else [])):
            speed[name], now[name] = stepped(name, now[name], grads[name], speed[name], decays=np.float32(name != "half"))
        both = [stepped("branch", p, g, v, np.float32(0.5), np.float32(0)) for p, g, v in zip(now["branch"], grads["branch"], speed["branch"])]
        speed["branch"], now["branch"] = [v for v, _ in both], [p for _, p in both]
        expected.append(now)
    seen = []
    with paceline.jax.attach(params, config, node=int(node), lr_factor=factors, decay_factor={**factors, "branch": 0.0},
                             role={name: "bias" if name == "half" else "weight" for name in params},
                             trainable={name: name != "still" for name in params}) as run:
        while not run.over:
            seen.append(run.params)
            run.step(run.params, gradients(run.steps))
    assert len(seen) == STEPS, len(seen)
    print("worst:", worst_of(seen, expected))


def local(config, node, kept, waits_at="-1", hook="hook"):
    """Three steps of optax's Adam between two exchanges: as loops of its own whose parameters are averaged. The state of each clock
    is kept, and counts where the run goes on, also where the servers alone have ended; at a clock it waits for the other end of a
    fifo."""
    import optax
    nodes, local_steps, rounds, node, kept, waits_at = 2, 3, 6, int(node), pathlib.Path(kept), int(waits_at)
    adam = optax.adam(0.01)

    def step_of(params, state, x):
        loss, grads = jax.value_and_grad(loss_of)(params, x)
        updates, state = adam.update(grads, state, params)
        return loss, optax.apply_updates(params, {**updates, "y": 0 * updates["y"]}), state
    twins_step, own_step = jax.jit(step_of), jax.jit(step_of, donate_argnums=(0, 1))
    twins, states, expected = [begin()] * nodes, [adam.init(begin())] * nodes, [begin()]
    for step in range(rounds * local_steps):
        for at in range(nodes):
            _, twins[at], states[at] = twins_step(twins[at], states[at], batch(step, at))
        if step % local_steps == local_steps - 1:
            twins = [jax.tree_util.tree_map(lambda *p: np.mean(p, axis=0, dtype=np.float32), *twins)] * nodes
            expected.append(twins[0])

    def load(run):
        nonlocal state
        print("goes on at:", run.clock)
        saved = pickle.loads((kept / f"{node}-{run.clock}").read_bytes())
        for wrong in ({**saved, "clock": run.clock + 1}, {**saved, "names": saved["names"][::-1]}):
            refused(run.load_state_dict, wrong, state)
        run.load_state_dict({**saved, "steps": saved["steps"] + 2}, state)  # as of a stopped asp run
        assert run.steps == run.clock * local_steps + 2, run.steps
        state = run.load_state_dict(saved, state)

    def refused(call, *arguments):
        try:
            call(*arguments)
        except ValueError as error:
            print("refused:", error)
        else:
            raise AssertionError("taken")
    first_params = jax.tree_util.tree_map(lambda leaf: leaf + node, begin())  # node 0's count
    with paceline.jax.attach(first_params, config, node=node, mode="worker", local_steps=local_steps, trainable={"layer": True, "y": False},
                             existing="continue", on_resume=load if hook == "hook" else None) as run:
        params, state, seen = run.params, adam.init(run.params), []
        if run.clock > 0:
            load(run)
        else:
            refused(run.step, params, params)
            refused(run.step, {"layer": params["layer"], "y": None})
            refused(run.step, params["layer"])
        while not run.over:
            seen.append((jax.tree_util.tree_map(np.array, params), expected[run.clock]))
            if run.clock == waits_at:
                open(kept / "release").close()
                waits_at = -1
            (kept / f"{node}-{run.clock}").write_bytes(pickle.dumps(run.state_dict(state)))
            for step in range(local_steps):
                loss, params, state = own_step(params, state, batch(run.steps, node))
                taken = params
                params = run.step(params, loss=loss)
                if step == 0:
                    assert params is taken
                    refused(run.state_dict, state) if run.clock == 0 else None
    assert run.steps == rounds * local_steps, run.steps
    assert params is taken and run.params is taken, "the last step's"
    assert not any(leaf.is_deleted() for leaf in jax.tree_util.tree_leaves(params))
    print("worst:", worst_of(*zip(*seen)))


def array(config, node):
    """One array is a tree, too; there None is refused for a gradient."""
    expected, seen = [np.ones(3, np.float32)], []
    with paceline.jax.attach(jax.numpy.ones(3), config, node=int(node)) as run:
        try:
            run.step(run.params)
        except ValueError as error:
            print(error)
        while not run.over:
            seen.append(run.params)
            run.step(run.params, jax.numpy.full(3, float(run.steps)))
            expected.append(expected[-1] - np.float32(0.1) * np.float32(len(seen) - 1))
    assert len(seen) == STEPS, len(seen)
    print("worst:", worst_of(seen, expected))


def refused_trees(config, node):
    """What paceline.jax refuses, a line each."""
    params = {"w": jax.numpy.zeros((2, 3)), "b": jax.numpy.zeros(3)}

    def report(what, call, *arguments, **named):
        try:
            call(*arguments, **named)
            print(what, "was taken")
        except ValueError as error:
            print(f"{what}: {error}")

    def attach(given, **named):
        return paceline.jax.attach(given, config, node=int(node), **named)
    report("half", attach, {"w": params["w"].astype(jax.numpy.bfloat16)})
    report("number", attach, {"w": 1.0})
    report("none", attach, {})
    report("branches", attach, params, trainable={"w": True})
    report("mask", attach, params, trainable=dict)
    report("frozen", attach, params, trainable={"w": False, "b": False})
    report("factor", attach, params, lr_factor={"w": "2", "b": 1})
    report("role", attach, params, role={"w": "weight", "b": "buffer"})
    report("mode", attach, params, mode="servers")
    report("local", attach, params, local_steps=2)
    report("rates", attach, params, mode="worker", lr_factor={"w": 2.0, "b": 1.0})
    report("average", attach, params, mode="worker", overrides=["train.optimizer.kind=adam"])
    os.environ["WORLD_SIZE"] = "3"
    report("world", attach, params)
    os.environ.pop("WORLD_SIZE")
    params["e"] = jax.numpy.zeros((0, 2))  # of no element: it is not exchanged
    with attach(params) as run:
        assert run.params["e"].shape == (0, 2)
        report("tree", run.step, run.params, {"w": params["w"]})
        report("shape", run.step, run.params, {**params, "b": params["w"]})
        report("whole", run.step, run.params, {**params, "b": jax.numpy.zeros(3, int)})
        report("alone", run.step, run.params)
        report("stepped", run.step, {**run.params, "b": run.params["b"] + 1}, params)
        run.step({**run.params, "b": run.params["b"] + 0}, params)  # the same values


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
