// What control groups leave a process of its machine: files as the kernel shows them, in a folder of the test's.
#include "common/process/machine.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

struct Groups {
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder / file).parent_path());
    std::ofstream(folder / file) << text << "\n";
  }
  GroupLimits limits(const std::string& own_groups) const { return group_limits(folder.path(), own_groups); }
  testing::TempFolder folder;
};

}  // namespace

TEST_CASE("without control groups, and in groups without limits, there is none") {
  const Groups g;
  for (const char* own : {"", "0::/\n", "4:memory:/a\n1:cpu:/a\n", "garbage\n"}) {
    CHECK_FALSE(g.limits(own).cpus);
    CHECK_FALSE(g.limits(own).memory_bytes);
  }
  g.write("a/cpu.max", "max 100000");
  g.write("a/memory.max", "max");
  g.write("cpu/b/cpu.cfs_quota_us", "-1");
  g.write("cpu/b/cpu.cfs_period_us", "100000");
  g.write("memory/b/memory.limit_in_bytes", "9223372036854771712");
  for (const char* own : {"0::/a\n", "4:memory:/b\n1:cpu:/b\n"}) {
    CHECK_FALSE(g.limits(own).cpus);
    CHECK_FALSE(g.limits(own).memory_bytes);
  }
}

TEST_CASE("v2: of the groups around a process the least counts, each limit for itself") {
  const Groups g;
  g.write("pod/cpu.max", "150000 100000");
  g.write("pod/memory.max", "8000000000");
  g.write("pod/job/cpu.max", "max 100000");
  g.write("pod/job/memory.max", "2000000000");
  g.write("other/memory.max", "1");
  const GroupLimits limits = g.limits("0::/pod/job/step\n");
  CHECK(limits.cpus == 1.5);
  CHECK(limits.memory_bytes == 2e9);
}

TEST_CASE("v1: quota and memory lie in trees of their own, the memory's unlimited in the inner group") {
  const std::string tree = GENERATE("cpu", "cpu,cpuacct");
  const Groups g;
  g.write(tree + "/docker/cpu.cfs_quota_us", "50000");
  g.write(tree + "/docker/cpu.cfs_period_us", "100000");
  g.write("memory/docker/memory.limit_in_bytes", "1000000000");
  g.write("memory/docker/id/memory.limit_in_bytes", "9223372036854771712");
  const GroupLimits limits =
      g.limits("12:cpu,cpuacct:/docker/id\n7:memory:/docker/id\n3:cpuset:/x\n0::/docker/id\n");
  CHECK(limits.cpus == 0.5);
  CHECK(limits.memory_bytes == 1e9);
}

TEST_CASE("a container that sees its own group alone finds its limits at the top") {
  const Groups g;
  g.write("cpu.max", "200000 100000");
  g.write("memory/memory.limit_in_bytes", "3000000000");
  const std::string own = GENERATE("0::/\n", "0::/../outside\n", "0::/system.slice/docker-1.scope\n");
  const GroupLimits limits = g.limits(own + "4:memory:/docker/1\n");
  CHECK(limits.cpus == 2.0);
  CHECK(limits.memory_bytes == 3e9);
}

TEST_CASE("a quota is worth whole cores, at least one and at most those that there are") {
  CHECK(cores_within(64, std::nullopt) == 64);
  CHECK(cores_within(64, 1.5) == 2);
  CHECK(cores_within(64, 0.1) == 1);
  CHECK(cores_within(2, 4.0) == 2);
  CHECK(cores_within(0, std::nullopt) == 1);
  CHECK(usable_cores() >= 1);
  CHECK(usable_memory_bytes() > 0);
}

}  // namespace paceline
