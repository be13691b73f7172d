"""scripts/ that start several runs and compare them: compare_policies, the learning experiment and simulator_vs_reality.
See harness.py."""

import csv
import json
import os
import re
import shutil
import signal

import harness
from harness import ScriptTest


class ComparingScripts(ScriptTest):
    """A table says what the runs said, and a run that is no measurement is in none."""

    def test_compare_policies_prints_one_table(self):
        configs = []
        for policy in ("bsp", "ssp", "asp"):
            configs.append(self.folder / f"{policy}.yaml")
            shutil.copy(self.config, configs[-1])
            with open(configs[-1], "a", encoding="utf-8") as file:
                file.write(f"sync: {{policy: {policy}}}\n")
        script = self.script("compare_policies.sh", *configs, "--out", self.folder / "runs", "--bin", harness.BIN,
                             "train.total_iterations=100", "cluster.nodes=2")
        self.assertEqual(script.end(), 0, script.errors())
        table = script.output()[script.output().index("Seconds for each worker"):].splitlines()
        self.assertRegex(table[3 + len(configs)], "^phase s +bsp +ssp +asp$")
        for line, config in zip(table[2:2 + len(configs)], configs):
            self.assertRegex(line, rf"^{self.folder}/runs/{config.stem} +ok +{config.stem} ")
        # The same again is kept; a run of another configuration has ended well, and goes only where that is given twice.
        for seed, forces, status, expected in (
                (3, 0, 0, "keeping the finished run"), (3, 1, 0, "keeping the finished run"),
                (4, 1, 2, "holds a run that ended well, but its configuration was another: had seed: 3; now seed: 4"),
                (4, 2, 0, f"{configs[0]} -> ")):
            again = self.script("compare_policies.sh", configs[0], "--out", self.folder / "runs", "--bin", harness.BIN,
                                "train.total_iterations=100", "cluster.nodes=2", f"run.seed={seed}", *["--force"] * forces)
            self.assertEqual(again.end(), status, again.errors())
            self.assertIn(expected, again.output() + "\n".join(again.errors()))

    def test_compare_policies_does_not_compare_a_run_that_lost_a_node(self):
        def compare(*overrides):
            return self.script("compare_policies.sh", self.config, "--out", self.folder / "runs", "--bin",
                               harness.BIN, *overrides)

        run = self.folder / "runs/run"
        script = compare("run.max_seconds=5s")
        script.wait_for_line(harness.PROGRESS.pattern)
        node = self.node_1_of(script)
        os.kill(node, signal.SIGKILL)
        self.assertEqual(script.end(), 1, script.errors())
        self.assertEqual(script.errors()[-1], f"compare_policies: {self.config} lost 1 node, see {run}; nothing was "
                         "compared")
        script = compare("run.max_seconds=300ms")
        self.assertEqual(script.end(), 0, script.errors())
        self.assertIn(f"the run in {run} is replaced: it lost 1 node", script.output())

    def test_a_cell_of_the_learning_experiment_that_lost_nodes_has_not_succeeded(self):
        """Of the script, what is kept and what is printed: a stand-in for the run itself."""
        checkout = self.folder / "checkout"
        (checkout / "scripts").mkdir(parents=True)
        for name in ("lib", "learning_experiment.sh"):
            (checkout / "scripts" / name).symlink_to(harness.SOURCE / "scripts" / name)
        (checkout / "configs").symlink_to(harness.SOURCE / "configs")
        self.stand_in(checkout / "scripts/run_local.sh", f"""
while [ "$1" != --out ]; do shift; done
mkdir -p "$2" && touch "$2/config.yaml" && cp {self.folder}/summary.json "$2"
""")
        for lost, status in ((4, 1), (0, 0)):
            with self.subTest(lost=lost):
                (self.folder / "summary.json").write_text(json.dumps(
                    {"status": "ok", "wall_seconds": 1, "final_threshold": 3, "test_accuracy": 0.5,
                     "lost_nodes": lost}, indent=2), encoding="utf-8")
                script = self.start("bash", checkout / "scripts/learning_experiment.sh", self.data, "--bin",
                                    harness.BIN, "--out", self.folder / "cells", "ssp:1")
                self.assertEqual(script.end(), status, script.errors())
                self.assertEqual("lost 4 nodes" in script.output(), lost == 4, script.output())
        self.assertEqual(script.errors(), ["learning_experiment: ssp:1 is run again: it lost 4 nodes"])

    def test_compare_policies_tells_a_wrong_configuration_from_a_failure(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "data_batch_1.bin").touch()
        for path, status in ((data, 2), (self.config / "below", 1)):  # half a data set stays as it is; not a folder
            with self.subTest(path=path):
                script = self.script("compare_policies.sh", self.config, "--out", self.folder / "runs", "--bin",
                                     harness.BIN, f"data.path={path}")
                self.assertEqual(script.end(), status, script.errors())
                self.assertEqual(script.errors()[-1], f"compare_policies: no data for {self.config}")

    def test_simulator_vs_reality_compares_pairs_and_keeps_real_runs(self):
        out = self.folder / "pairs"

        def compare(*cells):
            script = self.script("simulator_vs_reality.sh", "--out", out, "--bin", harness.BIN, *cells,
                                 f"data.path={self.data}", "cluster.nodes=2", "cluster.threads_per_node=1",
                                 "emulate.base_step=500ms", "emulate.slowdown=[1,2]", "train.total_iterations=12",
                                 "sync.lpr.window_clocks=2", "train.model=layers",
                                 "train.layers=[{kind: flatten}, {kind: dense, out: 10}]")
            self.assertEqual(script.end(), 0, script.errors())
            return script

        script = compare("dtssp")
        header, calibration, dtssp, last, *phases = script.output().splitlines()
        self.assertRegex(header, "^cell +wall s +simulated +error ")
        self.assertRegex(calibration, r"^calibration +\d")
        self.assertRegex(dtssp, r"^dtssp +\d+\.\d\d +\d+\.\d\d +[-+]\d+\.\d % +(kept|MISSED) ")
        self.assertRegex(last, r"^[0-3] of ([23]) judged figures within their targets, of 3 predicted; ")
        self.assertEqual("not judged" in dtssp, " of 2 judged" in last)
        self.assertEqual(len(phases), 1 + 9)
        real, simulated = (json.loads((out / run / "summary.json").read_text(encoding="utf-8"))["phases"]["BARRIER"]
                           for run in ("calibration", "calibration-simulated"))
        self.assertEqual(phases[6].split(), ["BARRIER", f"{real['total_seconds']:.3f}", f"{simulated['total_seconds']:.3f}"])
        pair = json.loads((out / "pairs.json").read_text(encoding="utf-8"))[1]
        wall = {side: json.loads((out / run / "summary.json").read_text(encoding="utf-8"))["wall_seconds"]
                for side, run in (("real", "dtssp"), ("simulated", "dtssp-simulated"))}
        self.assertEqual((pair["real"]["wall"], pair["simulated"]["wall"]), (wall["real"], wall["simulated"]))
        self.assertAlmostEqual(pair["wall"]["error"], wall["simulated"] / wall["real"] - 1)
        self.assertEqual(pair["wall"]["kept"], abs(pair["wall"]["error"]) <= 0.1)
        # Six iterations of some second on the slow node, which no real run undercuts; nor does a simulated one.
        self.assertGreater(min(wall.values()), 2)
        kept = [f"simulator_vs_reality: {cell}: keeping the finished run in {out}/{cell}"
                for cell in ("calibration", "dtssp")]
        again = compare("dtssp")
        self.assertEqual((again.errors(), again.output()), (kept, script.output()))
        # From two calibrating runs, the second with another seed: two predictions of the same real run.
        twice = compare("--calibrations", "2", "dtssp")
        self.assertEqual(twice.errors(), [kept[0], f"simulator_vs_reality: calibration-2 -> {out}/calibration-2", kept[1]])
        self.assertEqual([re.split("  +", line)[0] for line in twice.output().splitlines()[1:5]],
                         ["calibration", "calibration-2", "dtssp", "dtssp, calibration 2"])
        self.assertIn(" of 6 predicted; the first 2 lines are the runs ", twice.output())
        self.assertIn("  seed: 102\n", (out / "calibration-2/config.yaml").read_text(encoding="utf-8"))
        pairs = json.loads((out / "pairs.json").read_text(encoding="utf-8"))
        for pair, run in zip(pairs[2:], ("dtssp-simulated", "dtssp-simulated-2"), strict=True):
            summary = json.loads((out / run / "summary.json").read_text(encoding="utf-8"))
            self.assertEqual((pair["real"]["wall"], pair["simulated"]["wall"]), (wall["real"], summary["wall_seconds"]))

    def test_what_nothing_emulates_is_predicted_from_the_trace(self):
        out = self.folder / "pairs"
        script = self.script("simulator_vs_reality.sh", "--out", out, "--bin", harness.BIN, "bsp-as-it-is", f"data.path={self.data}",
                             "train.total_iterations=24", "train.batch_size=8", "sync.lpr.window_clocks=2", "train.model=layers",
                             "train.layers=[{kind: flatten}, {kind: dense, out: 10}]")
        self.assertEqual(script.end(), 0, script.errors())
        printed = script.output().splitlines()
        self.assertEqual([re.split("  +", line)[0] for line in printed[1:3]], ["calibration-as-it-is", "bsp-as-it-is"])
        runs = {run: json.loads((out / run / "summary.json").read_text(encoding="utf-8"))
                for run in ("calibration-as-it-is", "bsp-as-it-is", "bsp-as-it-is-simulated")}
        self.assertEqual([summary["policy"] for summary in runs.values()], ["ssp", "bsp", "bsp"])
        # Its computations are those that the calibrating run recorded, one after another.
        computed = [summary["phases"]["COMPUTE_GRADS"]["total_seconds"] for summary in runs.values()]
        self.assertAlmostEqual(computed[2], computed[0], places=6)
        self.assertNotEqual(computed[1], computed[0])

    def test_a_threshold_that_follows_what_is_learned_is_predicted_by_a_curve_and_by_training(self):
        out = self.folder / "pairs"
        script = self.script("simulator_vs_reality.sh", "--out", out, "--bin", harness.BIN, "dtssp-learns",
                             f"data.path={self.data}", "cluster.nodes=2", "cluster.threads_per_node=1",
                             "emulate.base_step=300ms", "emulate.slowdown=[1,2]", "train.total_iterations=12",
                             "sync.lpr.window_clocks=2", "train.batch_size=8",
                             "train.layers=[{kind: flatten}, {kind: dense, out: 10}]")
        self.assertEqual(script.end(), 0, script.errors())
        printed = script.output().splitlines()
        # A calibrating run of its own, and no other.
        self.assertEqual([line.split("  ")[0] for line in printed[1:4]], ["calibration-learns", "dtssp-learns", "dtssp-learns, trained"])
        self.assertFalse((out / "calibration").exists())
        self.assertRegex(printed[4], "of 6 predicted; the first line is the run that the costs were taken from$")
        begin = next(i for i, line in enumerate(printed) if line.startswith("dtssp-learns, windows of 2 clocks, 32 samples: real, "))
        curves = {}
        for run in ("dtssp-learns", "dtssp-learns-simulated", "dtssp-learns-trained"):
            with open(out / run / "curve.csv", encoding="utf-8") as file:
                curves[run] = [row for row in csv.DictReader(file) if row["train_accuracy"] and not row["test_accuracy"]]
        for i, line in enumerate(printed[begin + 2:begin + 5]):
            rows = [curve[i] for curve in curves.values()]
            cells = line.replace(" %", "").split()
            self.assertEqual((cells[0], cells[1:4]), (str(2 * (i + 1)), [f"{100 * float(row['train_accuracy']):.1f}" for row in rows]))
            self.assertEqual(cells[-4:-1], [row["threshold"] for row in rows])
            self.assertEqual(len(cells), 8 if i == 0 else 11)  # the first window has none before it
        last = re.fullmatch(r"the decision \(up, down or neither\) is the real run's in (\d) of 2 windows in timing mode, in (\d) in "
                            "training mode", printed[begin + 5])
        path = json.loads((out / "pairs.json").read_text(encoding="utf-8"))[2]["path"]
        self.assertEqual((path["decided"], path["same"]["timing"], path["same"]["training"]),
                         (2, int(last.group(1)), int(last.group(2))))
        decisions = {run: [(float(row["lpr"]) > 5) - (float(row["lpr"]) < -5) for row in rows[1:3]] for run, rows in curves.items()}
        for run, mode in (("dtssp-learns-simulated", "timing"), ("dtssp-learns-trained", "training")):
            same = sum(one == other for one, other in zip(decisions["dtssp-learns"], decisions[run], strict=True))
            self.assertEqual(path["same"][mode], same)


if __name__ == "__main__":
    harness.main()
