#!/usr/bin/env python3
"""The loader of pictures beside torchvision's and beside libjpeg-turbo alone, and the four steps that make it fast.

    tests/bench/images.py [--folder DIR] [--rounds 5] [--seconds 4] [--programs build/release/bin]

JPEGs of 500 x 375 pixels become training samples of 224 x 224: a random part of random area, resized, mirrored,
normalised, in mini-batches of 32. In each round all take their turn, the machine's speed drifting: `paceline data bench`
with one and with as many threads as there are cores; torchvision's ImageFolder and DataLoader, with each of several numbers
of workers, the best of which counts; a bare loop of libjpeg-turbo that decodes the same parts and does nothing else. Results
are medians over the rounds. `cpu` figures, a second of processor time, say what to make of a busy machine.

Targets: 2.5 times torchvision's rate; 0.7 of the bare loop's, one thread beside one; memory of the cache's size and 300 MB.
Exit status 1 where one is missed.

--steps: instead of that, the four steps of "Image classification at supercomputer scale" (Ying et al., 2018, section 4), one
after another, while each mini-batch is trained for --step-ms on another device.

Without --folder the pictures are made: 1,000 of them, in shapes and noise, which takes Pillow and a minute. torchvision and
Pillow are of this interpreter.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

CLASSES, BATCH, MB = 10, 32, 1_000_000
CONFIG = """\
run: {seed: 1}
train: {batch_size: 32}
data: {kind: images, path: %s, classes: 10, augment: true, cache: 1GiB, prefetch_batches: 4}
"""
# One after another: what each adds to those before it.
STEPS = (("none", ["data.cache=0", "data.prefetch_batches=0", "data.decode=whole", "data.loader_threads=1"]),
         ("encoded files in memory", ["data.cache=1GiB"]),
         ("reading ahead", ["data.prefetch_batches=4"]),
         ("decode and crop in one", ["data.decode=fused"]),
         ("in parallel", [f"data.loader_threads={os.cpu_count()}"]))


def make_pictures(folder):
    """As photographs are to a decoder: large shapes, small ones, and noise; quality 90, 4:2:0, about 90 KB."""
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(1)
    for part, count in (("train", 1000), ("test", 10)):
        for i in range(count):
            picture = numpy.zeros((375, 500, 3))
            for cells, height in ((4, 80), (16, 40), (64, 25)):
                small = random.uniform(0, 255, (cells * 3 // 4, cells, 3)).astype(numpy.uint8)
                picture += (numpy.asarray(Image.fromarray(small).resize((500, 375), Image.BICUBIC)) - 127.5) * height / 60
            picture += 127.5 + random.normal(0, 8, picture.shape)
            of_class = folder / part / f"c{i % CLASSES}"
            of_class.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture.clip(0, 255).astype(numpy.uint8)).save(of_class / f"{i:05}.jpg", quality=90)


def torchvision_rates(folder, counts, seconds):
    """Pictures a second, and a second of processor time, for each number of workers. In a process of its own: it imports
    torchvision, which takes longer than to measure."""
    import torch
    from torch.utils.data import DataLoader, RandomSampler
    from torchvision import transforms
    from torchvision.datasets import ImageFolder
    torch.set_num_threads(1)
    pictures = ImageFolder(folder / "train", transforms.Compose([
        transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
        transforms.Normalize([.485, .456, .406], [.229, .224, .225])]))

    def rate(workers):
        # One epoch without an end, so that neither the beginning of one nor its end is timed.
        sampler = RandomSampler(pictures, num_samples=10**9, replacement=True)
        batches = iter(DataLoader(pictures, BATCH, sampler=sampler, num_workers=workers))

        def used():
            """Of this process and its workers, in seconds."""
            ticks = 0
            for pid in ("self", *(worker.pid for worker in getattr(batches, "_workers", []))):
                ticks += sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
            return ticks / os.sysconf("SC_CLK_TCK")
        for _ in range(4 * max(workers, 1)):  # the workers are there, and ahead as far as they ever are
            next(batches)
        count, begun, cpu = 0, time.perf_counter(), used()
        while time.perf_counter() - begun < seconds:
            count += len(next(batches)[0])
        return {"per_second": count / (time.perf_counter() - begun), "per_cpu_second": count / (used() - cpu)}
    print(json.dumps({workers: rate(workers) for workers in counts}))


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def run_json(*command):
    return json.loads(run(*command).splitlines()[-1])


def loader(programs, config, seconds, *arguments):
    """What the loader makes, as `paceline data bench` says it."""
    output = run(programs / "paceline", "data", "bench", config, "--seconds", seconds, *arguments)
    rates = re.search(r"ahead: (\d+) images/s, (\d+) a second of processor time", output)
    return {"per_second": float(rates[1]), "per_cpu_second": float(rates[2])}


def compare(programs, folder, config, options):
    cores = os.cpu_count()
    workers = sorted({0, 1, cores, cores + 1, 2 * cores})
    rounds = []
    for _ in range(options.rounds):
        one = {"one": loader(programs, config, options.seconds, "data.loader_threads=1"),
               "all": loader(programs, config, options.seconds, f"data.loader_threads={cores}"),
               "bare": run_json(programs / "bench_bare_jpeg", folder, CLASSES, options.seconds)}
        theirs = run_json(sys.executable, os.path.abspath(__file__), "--folder", folder, "--seconds", options.seconds,
                          "--torchvision", *workers)
        one |= {f"torchvision_{count}": theirs[str(count)] for count in workers}
        one["torchvision"] = max((one[f"torchvision_{count}"] for count in workers), key=lambda of: of["per_second"])
        rounds.append(one)
        print(json.dumps({name: round(of["per_second"]) for name, of in one.items()}), file=sys.stderr, flush=True)

    def median(of):
        return round(statistics.median(of), 3)

    def rate(name, key="per_second"):
        return median(one[name][key] for one in rounds)
    bytes_of_files = sum(file.stat().st_size for file in folder.rglob("*.jpg"))
    return {"benchmark": "images", "rounds": options.rounds, "load": round(os.getloadavg()[0], 1),
            "loader_one_thread": rate("one"), "loader": rate("all"), "bare": rate("bare"),
            "loader_cpu": rate("one", "per_cpu_second"), "bare_cpu": rate("bare", "per_cpu_second"),
            **{f"torchvision_{count}": rate(f"torchvision_{count}") for count in workers},
            "of_torchvision": median(one["all"]["per_second"] / one["torchvision"]["per_second"] for one in rounds),
            "of_torchvision_cpu": median(one["all"]["per_cpu_second"] / max(one[f"torchvision_{count}"]["per_cpu_second"]
                                                                            for count in workers) for one in rounds),
            "of_bare": median(one["one"]["per_second"] / one["bare"]["per_second"] for one in rounds),
            "of_bare_cpu": median(one["one"]["per_cpu_second"] / one["bare"]["per_cpu_second"] for one in rounds),
            "files_mb": round(bytes_of_files / MB)}


def memory_of_loader(programs, config, seconds):
    """The most that a process of the loader's ever held, its cache included, in MB; measured in a process of its own."""
    code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    output = run(sys.executable, "-c", code, programs / "paceline", "data", "bench", config, "--seconds", seconds,
               f"data.loader_threads={os.cpu_count()}")
    return round(int(output.split()[-1]) * 1024 / MB)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, help="train/ and test/ with ten folders of JPEGs each; default: made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--steps", action="store_true", help="the four steps, one after another")
    parser.add_argument("--step-ms", type=float, default=20, help="--steps: what training takes for a mini-batch of 32")
    parser.add_argument("--torchvision", type=int, nargs="+", metavar="WORKERS", help="that alone (the script calls itself)")
    options = parser.parse_args()
    if options.torchvision is not None:
        torchvision_rates(options.folder, options.torchvision, options.seconds)
        return 0
    for program in ("paceline", "bench_bare_jpeg"):
        if not (options.programs / program).exists():
            parser.error(f"{options.programs / program} is not there: cmake --build build/release --target benchmarks")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary) / "pictures"
        if options.folder is None:
            make_pictures(folder)
        config = pathlib.Path(temporary) / "images.yaml"
        config.write_text(CONFIG % folder, encoding="utf-8")
        if options.steps:
            arguments = []
            for name, step in STEPS:
                arguments += step
                rates = [loader(options.programs, config, options.seconds, "--step-ms", options.step_ms, *arguments)
                         for _ in range(options.rounds)]
                print(json.dumps({"benchmark": "images_steps", "with": name, "step_ms": options.step_ms,
                                  **{key: round(statistics.median(of[key] for of in rates)) for key in rates[0]}}), flush=True)
            return 0
        result = compare(options.programs, folder, config, options)
        result["loader_mb"] = memory_of_loader(options.programs, config, options.seconds)
        print(json.dumps(result))
        cache_mb = min(result["files_mb"], (1 << 30) / MB)
        missed = (result["of_torchvision"] < 2.5 or result["of_bare"] < 0.7 or result["loader_mb"] > cache_mb + 300)
        return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
