"""What an exchange costs, measured by the doctors of a cluster, and what follows from it. See harness.py."""

import json
import re
import socket

import harness
from harness import DaemonTest


class ExchangeCost(DaemonTest):
    """`paceline doctor --exchange` with real daemons over loopback, and `paceline speedup --measured`."""

    ROUNDS = 20
    # A run of hidden rounds, which are not what is measured.
    CONFIGURED = ("sync.policy=ssp", "sync.threshold=2", "exchange.hidden=true", "checkpoint.every_clocks=5", "train.on_nan=skip",
                  "train.skips_max=0.2")

    def setUp(self):
        super().setUp()
        text = self.config.read_text(encoding="utf-8").replace("threads_per_node: 2", "threads_per_node: 1")
        text = text.replace("total_iterations: 100000000", "total_iterations: 400\n  local_steps: 4\n  inner_optimizer: {lr: 0.01}\n  optimizer: {lr: 1}")
        self.config.write_text(text, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.over_tcp = f"cluster.endpoints=[tcp://127.0.0.1:{free.getsockname()[1]}]"

    def doctor(self, *arguments):
        return self.start(harness.BIN / "paceline", "doctor", self.config, "--exchange", self.ROUNDS, *arguments,
                          self.over_tcp, *self.CONFIGURED)

    def test_the_doctors_of_all_machines_measure_s_together_and_speedup_takes_it(self):
        doctors = [self.doctor("--shard", 0), self.doctor("--node", 0), self.doctor("--node", 1)]
        for doctor in doctors:
            self.assertEqual(doctor.end(), 0, doctor.output())
        for node in doctors[1:]:
            self.assertRegex(node.output(), r"(?m)^ok +exchange +its part is done; the doctor of shard 0 says what it came to$")
        printed = re.search(r"(?m)^ok +exchange +an exchange of train\.layers \(\d+ parameters\) by 2 workers takes (\S+) s, "
                         r"a mini-batch (\S+) s: S = (\S+), by 20 rounds without the longest tenth; "
                         r"`paceline speedup --measured (\S+)`", doctors[0].output())
        self.assertTrue(printed, doctors[0].output())
        exchange, mini_batch, s = (float(each) for each in printed.groups()[:3])
        run = json.loads((self.run_dir.with_name(self.run_dir.name + ".exchange") / "run/summary.json").read_text(encoding="utf-8"))
        self.assertEqual((run["status"], run["policy"], run["iterations"]), ("ok", "bsp", 2 * self.ROUNDS))
        self.assertAlmostEqual(s, exchange / mini_batch, delta=0.01 * s)
        self.assertFalse(self.run_dir.exists())
        speedup = self.paceline("speedup", self.config, "--out", self.folder / "speedup", "--target", 0.0500049, "--workers", "1,2",
                                "--local-steps", 1, "--exchange", 1, "--measured", printed[4], "--jobs", 1)
        self.assertEqual(speedup.returncode, 0, speedup.stderr)
        self.assertRegex(speedup.stdout, rf"an exchange of 2 workers takes {re.escape(printed[1])} s, a mini-batch {re.escape(printed[2])} s: S = {re.escape(printed[3])}\n"
                                         r"  2 workers: 1 local steps, ")
        for run in (self.folder / "speedup").glob("*/config.yaml"):  # as it was said, or the runs would end ahead of it
            self.assertIn("target_accuracy: 0.0500049\n", run.read_text(encoding="utf-8"))

        for of_run, code, line in ((("--workers", "1", "--local-steps", "1"), 0, r"--workers has no 2, so nothing says which local steps suit it"),
                                   (("--workers", "1", "--local-steps", "1", "train.layers=[{kind: flatten}, {kind: dense, out: 5}, {kind: dense, out: 10}]"),
                                    2, r"expected the train\.model, train\.layers and train\.batch_size of the runs")):
            with self.subTest(of_run=of_run):
                speedup = self.speedup(*of_run, "--measured", printed[4])
                self.assertEqual(speedup.returncode, code, speedup.stderr)
                self.assertRegex(speedup.stdout + speedup.stderr, line)

    def speedup(self, *arguments):
        return self.paceline("speedup", self.config, "--out", self.folder / "sweep", "--target", 0.05, "--jobs", 1, *arguments)

    def test_settings_stand_behind_any_option_but_none_for_what_an_option_says(self):
        serial = ("--workers", "1", "--local-steps", "1")
        longer = self.speedup(*serial, "--exchange", "1,2", "train.total_epochs=3", "data.train_samples=3200")
        self.assertEqual(longer.returncode, 0, longer.stderr)
        self.assertRegex(longer.stdout, r"(?m)^\* there at its first evaluation.*no gain here can be told; .*--evaluate-every 100 was")
        self.assertRegex((self.folder / "sweep/speedup.csv").read_text(encoding="utf-8"),
                         r"^workers,local_steps,rounds,gain,at_first_evaluation\n1,1,\d+,1,true\n$")
        refused = self.speedup(*serial, "train.local_steps=5")
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("train.local_steps=5: each run gets this key by --local-steps", refused.stderr)

    def test_a_second_replica_takes_no_part(self):
        endpoints = ",".join(f"ipc://{self.folder}/{replica}" for replica in range(2))
        with socket.create_server(("127.0.0.1", 0)) as etcd:
            doctor = self.start(harness.BIN / "paceline", "doctor", self.config, "--exchange", self.ROUNDS, "--shard", 0, "--replica", 1,
                                "cluster.replicas=2", f"cluster.endpoints=[{endpoints}]",
                                f"cluster.etcd=[http://127.0.0.1:{etcd.getsockname()[1]}]", *self.CONFIGURED)
            self.assertEqual(doctor.end(), 0, doctor.output())
        self.assertRegex(doctor.output(), r"(?m)^ok +exchange +a second replica has no part in it$")
        self.assertFalse(self.run_dir.with_name(self.run_dir.name + ".exchange").exists())

    def test_what_cannot_be_measured_is_said(self):
        for wrong, printed in ((("exchange.kind=allreduce", "sync.policy=bsp", "exchange.hidden=false", "sync.threshold=null"),
                             "exchange.kind: .* got allreduce, expected server"),
                            (("train.init_from=/nowhere",), "(server|node) \\d+: exit status [12]: .*/nowhere")):
            with self.subTest(wrong=wrong):
                doctor = self.start(harness.BIN / "paceline", "doctor", self.config, "--exchange", self.ROUNDS, self.over_tcp,
                                    *self.CONFIGURED, *wrong)
                self.assertEqual(doctor.end(), 1, doctor.output())
                self.assertRegex(doctor.output(), rf"(?m)^FAILED +exchange +{printed}")


if __name__ == "__main__":
    harness.main()
