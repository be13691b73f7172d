"""Training loops of a user's own, each a process that foreign_test.py starts:

    foreign_loops.py LOOP CONFIG NODE [argument…]     LOOP: a function below

What a loop finds wrong is an exception; its last lines on standard output say what it has seen.
"""

import ctypes
import itertools
import logging
import os
import pathlib
import signal
import sys
import threading

import numpy as np

import paceline
import paceline.data
from paceline import _library
import pictures as made_pictures

if sys.argv[1] == "tensors":
    import torch


def worker_of(config, node, *overrides):
    return paceline.Worker(config, int(node), overrides=overrides)


def assert_refused(call, why):
    try:
        call()
    except paceline.Error as error:
        assert why in str(error), error
    else:
        raise AssertionError(f"taken, expected: {why}")


def counting(config, node, *overrides):
    """Adds 1 to its own element each round; looks at read-my-writes."""
    with worker_of(config, node, *overrides) as worker:
        nodes = int(worker.value("cluster.nodes"))
        worker.add_tensor("counts", (nodes,))
        worker.start(np.zeros(nodes, np.float32))
        one = nodes if worker.value("sync.combine") == "mean" else 1
        for round in worker:
            assert round.parameters[worker.node] == round.clock, (round.clock, round.parameters)
            own = np.zeros(nodes, np.float32)
            own[worker.node] = -one
            if round.clock % 2:
                round.gradient[:] = own
            else:
                worker.copy_gradient(0, own)
            worker.finish(loss=1.0)
    print("over:", worker.over)


def ends_at(config, node, clock, how, *overrides):
    """A counting loop that ends in a way of its own at a clock."""
    with worker_of(config, node, *overrides) as worker:
        worker.add_tensor("counts", (2,))
        said = iter([lambda: 1 / 0])
        worker.start(np.zeros(2, np.float32), (lambda _: next(said, lambda: 0.5)()) if how == "cannot measure" else None)
        for round in worker:
            round.gradient[:] = 0
            if how == "hangs" and round.clock == int(clock) - 1:
                worker.hang_timeout = 0.1
            if how == "hangs" and round.clock == int(clock):
                worker.hang_timeout = None  # for the next round
            if round.clock == int(clock):
                if how == "raises":
                    raise ArithmeticError("no gradient today")
                if how == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if how == "is interrupted":
                    os.kill(os.getpid(), signal.SIGINT)
                if how == "breaks":
                    break
                if how == "hangs":
                    threading.Event().wait()
                if how == "says nan":
                    round.gradient[0] = np.nan
            worker.finish(loss=1.0)


def ends_by_itself(config, node, release):
    """Three rounds and no more; the run is stopped in the last, and over when the fifo lets the loop end."""
    with worker_of(config, node) as worker:
        worker.add_tensor("counts", (2,))
        worker.start(np.zeros(2, np.float32))
        for step in range(3):
            worker.begin().gradient[:] = 0
            if step == 2:
                print("in its last round", file=sys.stderr, flush=True)
                open(release).close()
            worker.finish(loss=1.0)
        open(release).close()
        print("well:", worker.end(), "stopped:", worker.stopped)


def forks(config, node):
    """With a hang_timeout: processes that are forked from it end as any other, and in it the time runs on."""
    worker = worker_of(config, node)
    for seconds in (0, float("nan"), float("inf"), 1e8):
        try:
            worker.hang_timeout = seconds
        except ValueError as error:
            assert "expected seconds, above 0 and at most 10000000, or None" in str(error), error
        else:
            raise AssertionError(f"taken: {seconds}")
    worker.hang_timeout = 60
    with worker:
        worker.add_tensor("counts", (2,))
        worker.start(np.zeros(2, np.float32))
        for round in worker:
            until = worker._watch.until
            for how in ("returns", "closes"):
                if (forked := os.fork()) == 0:
                    if how == "closes":
                        worker.close()
                    sys.exit(3)
                assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 3
            assert worker._watch.until == until
            sys.__stderr__ = None
            if round.clock == 2:
                worker.hang_timeout = 0.1
            if round.clock == 3:
                threading.Event().wait()
            round.gradient[:] = 0
            worker.finish()


def of_shape(config, node, name, *shape):
    """A layout of one tensor."""
    with worker_of(config, node) as worker:
        worker.add_tensor(name, tuple(map(int, shape)))
        worker.start(np.zeros(worker.floats, np.float32))
        for round in worker:
            round.gradient[:] = 0
            worker.finish()


def misused(config, node):
    """What the C interface refuses, a line each, and goes on."""
    worker, library = worker_of(config, node), _library.library
    handle = worker._open()

    def report(what, code):
        print(f"{what}: {_library.CODES[code]}: {library.paceline_error().decode()}" if code else f"{what}: ok")

    def add(name, size, role=0, trainable=1, lr_factor=1.0):
        return library.paceline_add_tensor(handle, name, (ctypes.c_int64 * 1)(size), 1, role, trainable, lr_factor, 1.0)

    def finish(correct, samples):
        return library.paceline_finish(handle, ctypes.byref(_library.Metric(0.0, correct, samples)))
    values, round = np.zeros(3, np.float32), _library.Round()
    report("empty", library.paceline_start(handle, values.ctypes.data, 3))
    report("trainable", add(b"w", 3, trainable=3))
    report("role", add(b"w", 3, role=9))
    report("size", add(b"w", 0))
    report("factor", add(b"w", 3, lr_factor=-1.0))
    report("name", add(b"", 3))
    report("w", add(b"w", 3))
    report("again", add(b"w", 3))
    report("early", library.paceline_begin(handle, 0, ctypes.byref(round)))
    report("short", library.paceline_start(handle, values.ctypes.data, 2))
    report("start", library.paceline_start(handle, values.ctypes.data, 3))
    report("late", add(b"v", 3))
    report("twice", library.paceline_start(handle, values.ctypes.data, 3))
    report("none", finish(0, 1))
    report("begin", library.paceline_begin(handle, -1, ctypes.byref(round)))
    report("second", library.paceline_begin(handle, 0, ctypes.byref(round)))
    report("beyond", library.paceline_final_from(handle, 4))
    report("copy", library.paceline_copy_gradient(handle, 2, values.ctypes.data, 2))
    report("samples", finish(0, 0))
    report("correct", finish(2, 1))
    ctypes.memset(round.gradient, 0, 12)
    report("final", library.paceline_final_from(handle, 1))
    report("left", library.paceline_copy_gradient(handle, 0, values.ctypes.data, 2))
    report("finish", finish(0, 1))
    report("over", library.paceline_final_from(handle, 0))
    worker.end()


def built_in(config, node):
    """The built-in network, with running means, on points below and above a diagonal."""
    random = np.random.default_rng(int(node))
    made = paceline.Network([{"kind": "dense", "out": 8}, {"kind": "batch_norm"}, {"kind": "relu"}, {"kind": "dense", "out": 2}], 2,
                            batch_size=16, seed=3)
    with worker_of(config, node) as worker:
        worker.add_network(made)
        worker.start(made.initial())
        for round in worker:
            x = random.random((round.samples, 2))
            loss, correct = made.gradient(round.parameters, x, x[:, 0] > x[:, 1], round.gradient, round.position)
            worker.finish(loss, correct=correct, samples=round.samples)
    print("classes:", made.classes)


# ---- data: pictures of noise, those of a class alike

SIDE = 8


def describe(batch):
    """That each picture is that of its label."""
    assert batch.images.dtype == np.float32 and batch.labels.dtype == np.int64 == batch.indices.dtype
    assert batch.images.shape == (len(batch.labels), 3, SIDE, SIDE), batch.images.shape
    for image, label in zip(batch.images, batch.labels):
        expected = np.frombuffer(made_pictures.noise(int(label), SIDE), np.uint8).reshape(SIDE, SIDE, 3)
        assert np.array_equal(image, expected.transpose(2, 0, 1)), label


def equal_batches(a, b):
    return all(np.array_equal(one, other) for one, other in zip(a, b))


def pictures(config, node):
    """Counts, with the servers, how often each picture of a class of one comes; all arrays are kept to the end."""
    kept = []
    with paceline.data.Data(config, int(node)) as data, worker_of(config, node) as worker:
        worker.add_tensor("counts", (data.train_samples,))
        worker.start(np.zeros(data.train_samples, np.float32))
        one = int(worker.value("cluster.nodes")) if worker.value("sync.combine") == "mean" else 1
        for round in worker:
            batch = data.train(round.position, round.samples)
            assert np.array_equal(batch.labels, batch.indices)
            round.gradient[:] = 0
            round.gradient[batch.labels] = -one
            kept.append(batch)
            worker.finish(loss=1.0)
        out = worker.value("run.out")
    for batch in kept:
        describe(batch)
    assert len({batch.images.ctypes.data for batch in kept}) == len(kept)
    if int(node) == 0:
        counts = paceline.read_model(os.path.join(out, "model.bin"))["counts"]
        print(f"seen: {counts.min():.0f} to {counts.max():.0f} times")


def no_run(config, node):
    """Mini-batches of both nodes without a run: all of an epoch; the same with other threads, and from the middle on."""
    with paceline.data.Data(config, 0) as zero, paceline.data.Data(config, 1, overrides=["data.loader_threads=1"]) as one:
        mine, others = [list(itertools.islice(data, 12)) for data in (zero, one)]
        for batch in mine + others:
            describe(batch)
        epoch = np.sort(np.concatenate([batch.indices for batch in mine[:6] + others[:6]]))
        assert np.array_equal(epoch, np.arange(300)), epoch
        resumed = list(itertools.islice(zero.batches(first=5), 7))
        test = list(zero.test(samples=128))
        for batch in test:
            describe(batch)
        assert np.array_equal(np.concatenate([batch.indices for batch in test]), np.arange(300))
        print("alike:", all(map(equal_batches, resumed, mine[5:])) and equal_batches(one.train(0, 25), mine[0]))


def faults(config, node):
    """What the data refuse, a line each; and a picture that cannot be decoded."""
    class Printed(logging.Handler):
        def emit(self, record):
            print("warned:", record.getMessage())
    logging.getLogger("paceline.data").addHandler(Printed())

    def data_of(number, *overrides):
        return paceline.data.Data(config, number, overrides=overrides)

    def report(what, call):
        try:
            call()
            print(what, "was taken")
        except paceline.Error as error:
            print(f"{what}: {error}")
    data = data_of(int(node))
    seen = np.concatenate([data.train(25 * i, 25).indices for i in range(12)])
    print("left out:", data.left_out)
    assert 3 not in seen and np.count_nonzero(seen == 4) == 2, seen  # the next one takes its place
    report("position", lambda: data.train(-1, 25))
    report("node", lambda: data_of(2))
    report("parts", lambda: data_of(0, "data.parts=fixed", "cluster.nodes=301"))
    report("threads", lambda: data_of(0, "cluster.threads_per_node=2"))
    report("pool", lambda: next(iter(data_of(0, "train.share=pool"))))
    report("classes", lambda: data_of(0, "data.classes=299"))
    data.close()
    report("closed", lambda: data.train(0, 25))


def pixels(config, node, folder):
    """The largest difference, in levels of 255, from torchvision's Resize, CenterCrop and Normalize; of all kinds that Pillow
    writes and reads as we do."""
    from PIL import Image, ImageOps
    from torchvision import transforms
    random = np.random.default_rng(1)
    files = []

    def add(size, name, mode="RGB", **options):
        pixels = random.integers(0, 256, (size[1] // 8 + 1, size[0] // 8 + 1, 3), np.uint8)
        picture = Image.fromarray(pixels).resize(size, Image.BICUBIC).convert(mode)
        file = pathlib.Path(folder, "test", "ab"[len(files) % 2], f"{len(files):02}-{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        picture.save(file, **options)
        files.append(file)
    turned = Image.Exif()
    turned[0x0112] = 6
    for size in ((500, 375), (375, 500), (257, 256), (301, 701), (64, 48), (800, 600)):
        for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
            add(size, "baseline.jpg", subsampling=subsampling, quality=90)
        add(size, "progressive.jpg", progressive=True)
        add(size, "grey.jpg", mode="L")
        add(size, "turned.jpg", exif=turned)
        add(size, "plain.png")
        add(size, "palette.png", mode="P")
    for label in "ab":
        pathlib.Path(folder, "train", label).mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(pathlib.Path(folder, "train", label, "0.png"))
    mean, deviation = [.485, .456, .406], [.229, .224, .225]  # the default's, of 1
    seen_as = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
                                  transforms.Normalize(mean, deviation)])
    worst = 0.0
    with paceline.data.Data(config, int(node)) as data:
        files.sort(key=lambda file: file.relative_to(folder).parts)
        images = np.concatenate([batch.images for batch in data.test(samples=20)])
    assert len(images) == len(files)
    for file, image in zip(files, images):
        expected = seen_as(ImageOps.exif_transpose(Image.open(file)).convert("RGB")).numpy()
        off = np.abs(image - expected) * np.array(deviation)[:, None, None] * 255
        print(file.name, off.max())
        worst = max(worst, float(off.max()))
    print("worst:", worst, "of 255")


def tensors(config, node):
    """Tensors over the arrays' own memory, which outlive the data."""
    with paceline.data.Data(config, int(node)) as data:
        batch = data.train(0, 5)
        images, labels = torch.from_numpy(batch.images), torch.from_numpy(batch.labels)
        shared = images.data_ptr() == batch.images.ctypes.data
        sums = images.sum((1, 2, 3))
        del batch
        for i in range(1, 20):
            data.train(5 * i, 5)
    assert torch.equal(images.sum((1, 2, 3)), sums) and labels.dtype == torch.int64
    print("shared:", shared and images.is_contiguous())


# ---- stages


def in_stages(config, node):
    """Two linear layers, a stage each, of which the loss is half the squared distance from the mini-batch's targets; beside
    the same in one piece. Every third mini-batch is smaller."""
    from paceline.stage import Did, Stage
    node, rate, floats = int(node), 0.05, (6 * 4, 4 * 2)
    draws = np.random.default_rng(5)
    first, second = draws.standard_normal((6, 4), np.float32), draws.standard_normal((4, 2), np.float32)
    held, worst = {}, 0.0
    x = y = np.zeros(0)

    def forward(given):
        rows = slice(given.first, given.first + given.samples)
        if node == 0:
            given.out[:] = x[rows] @ first
            held[given.first] = x[rows]
            return Did(kept_bytes=held[given.first].nbytes)
        came = given.came.copy()
        held[given.first] = (came, came @ second - y[rows])
        return Did(came.nbytes, float(np.square(held[given.first][1]).sum()) / 2)

    def backward(given):
        if node == 0:
            given.gradient[:] = (held[given.first].T @ given.out_gradient).reshape(-1)
            return
        came, far = held[given.first]
        far = far / given.divisor
        given.gradient[:] = (came.T @ far).reshape(-1)
        given.in_gradient[:] = far @ second.T

    with worker_of(config, node) as worker:
        worker.add_tensor("first", (6, 4))
        worker.add_tensor("second", (4, 2))
        stage = Stage(worker, node, [floats[0], sum(floats)], (0, 4)[node], (4, 0)[node], forward, backward)
        worker.start(np.concatenate([first.reshape(-1), second.reshape(-1)]))
        expected = (first.astype(np.float64), second.astype(np.float64))
        for round in worker:
            rows = 8 if round.clock % 3 else 5
            batch = np.random.default_rng(100 + round.clock)
            x, y = batch.standard_normal((rows, 6), np.float32), batch.standard_normal((rows, 2), np.float32)
            worst = max(worst, float(np.abs(round.parameters - expected[node].reshape(-1)).max()))
            (first, second)[node][:] = round.parameters.reshape((first, second)[node].shape)
            far = (x @ expected[0] @ expected[1] - y) / rows
            assert_refused(lambda: worker.finish(0.0), "paceline_step_stages() comes first")
            loss, correct, samples = stage.step(rows)
            assert_refused(lambda: stage.step(rows), "has gone through the stages")
            assert abs(loss - rows * float(np.square(far).sum()) / 2) < 1e-4, loss
            expected = (expected[0] - rate * x.T @ (far @ expected[1].T), expected[1] - rate * (x @ expected[0]).T @ far)
            worker.finish(loss, correct=correct, samples=samples)
    print("worst:", worst)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
