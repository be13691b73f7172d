"""A program in a container that may use less than its machine has: a folder with the files of control groups lies where the
system's are, in a mount namespace of the program's own. Skipped where such namespaces are not permitted. See harness.py."""

import harness
from harness import DaemonTest


class Containers(DaemonTest):
    """The quota and the limit are what doctor judges by, and names."""

    def setUp(self):
        super().setUp()
        self.groups = self.folder / "groups"
        for folder in ("cpu", "memory"):
            (self.groups / folder).mkdir(parents=True)
        self.inside = self.seeing(self.groups, at="/sys/fs/cgroup")

    def limit(self, memory):
        """To half a core and so many bytes: as v2 says it, and as v1 does, of which the machine has one."""
        for name, text in (("cpu.max", "50000 100000"), ("memory.max", memory), ("cpu/cpu.cfs_quota_us", 50000),
                           ("cpu/cpu.cfs_period_us", 100000), ("memory/memory.limit_in_bytes", memory)):
            (self.groups / name).write_text(f"{text}\n", encoding="ascii")

    def doctor(self, status):
        program = self.start(*self.inside, harness.BIN / "paceline", "doctor", self.config)
        self.assertEqual(program.end(), status, program.errors())
        return program.output()

    def test_doctor_names_the_quota_and_the_limit(self):
        self.limit(memory=2_000_000_000)
        printed = self.doctor(0)
        self.assertRegex(printed, r"(?m)^warning +cores +1 for this process \(a control group's quota is 0\.50\); 4 training "
                               r"threads compute, a server applies with up to 1; take fewer threads_per_node")
        self.assertRegex(printed, r"(?m)^ok +memory .* of 2\.0 GB are available \(the limit of a control group\)$")
        self.limit(memory=100_000)
        self.assertRegex(self.doctor(1), r"(?m)^FAILED +memory .* \(the limit of a control group\); take a smaller model")


if __name__ == "__main__":
    harness.main()
