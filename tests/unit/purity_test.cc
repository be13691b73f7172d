// The core, the cache rules, the worker's step, plans and the role of a replica are pure (docs/SYNC.md): no socket,
// thread, wall clock, log, protobuf or hidden random number. This test holds their includes, and the names they
// use, to a list. The libraries of the first three link to nothing else.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = PACELINE_SOURCE_DIR;

const std::set<std::string> kStandardHeaders = {
    "algorithm", "array",   "charconv",   "chrono", "cmath",  "compare",     "cstddef",
    "cstdint",   "deque",   "functional", "limits", "map",    "memory",      "numeric",
    "optional",  "queue",   "set",        "span",   "string", "string_view", "system_error",
    "tuple",     "utility", "variant",    "vector"};
// assert.h alone may print: it is how the process ends on our own bug.
const std::set<std::string> kAssertHeaders = {"cstdio", "cstdlib", "string"};
const std::set<std::string> kBaseHeaders = {"common/status.h",     "common/assert.h",    "common/ids.h",
                                            "common/clock.h",      "common/instant.h",   "common/metric.h",
                                            "common/batch_part.h", "common/loss_scale.h"};
// Counter-based: a pure function of a seed that stands in the policy's configuration.
const std::map<std::string, std::string> kOnlyFor = {{"common/random.h", "random_walk.cc"}};
// A folder's own, beside those; one that ends in / stands for all that is in it.
struct Own {
  std::set<std::string> standard;
  std::set<std::string> headers;
};
const std::map<std::string, Own> kOwn = {
    {"common/schedule",
     {{"bit", "iterator", "ranges"},
      {"common/schedule/", "common/config/reducing.h", "common/config/run_config.h",
       "common/encode/encoding.h", "common/newest.h", "common/params/borders.h", "common/params/layout.h",
       "common/params/partition.h"}}},
    {"server/replicas",
     {{"cstdio", "unordered_map"},
      {"common/hex.h", "common/pause.h", "common/wire/messages.h", "common/wire/transport.h",
       "common/wire/unread.h", "server/peers/peer.h", "server/run/seconds_text.h", "server/replicas/etcd.h",
       "server/replicas/event_log.h", "server/replicas/followed_log.h", "server/replicas/leader_lease.h",
       "server/replicas/replica_role.h", "server/replicas/shard_lease.h",
       "server/replicas/uncommitted_outputs.h"}}}};
// Of server/replicas/; its other files talk to etcd, to peers and to the disk.
const std::set<std::string> kRole = {
    "etcd.h",         "event_log.cc",    "event_log.h",    "followed_log.h", "leader_lease.cc",
    "leader_lease.h", "replica_role.cc", "replica_role.h", "shard_lease.h",  "uncommitted_outputs.h"};
const std::regex kForbidden(
    R"(\b((?:steady|system|high_resolution)_clock|steady_now|gettimeofday|clock_gettime|getenv|rand|)"
    R"(random_device|mt19937|thread_local|printf|socket)\b)");

std::vector<fs::path> pure_files() {
  std::vector<fs::path> files;
  for (const char* folder : {"common/sync", "common/cache", "common/step", "common/schedule"}) {
    for (const auto& entry : fs::directory_iterator(kRoot / folder)) {
      const auto extension = entry.path().extension();
      if (extension == ".h" || extension == ".cc") files.push_back(entry.path());
    }
  }
  for (const std::string& file : kRole) files.push_back(kRoot / "server/replicas" / file);
  for (const std::string& header : kBaseHeaders) files.push_back(kRoot / header);
  for (const auto& [header, file] : kOnlyFor) files.push_back(kRoot / header);
  return files;
}

bool is_own(const fs::path& file, const std::string& included, bool quoted) {
  const auto own = kOwn.find(file.parent_path().lexically_relative(kRoot).generic_string());
  if (own == kOwn.end()) return false;
  if (!quoted) return own->second.standard.contains(included);
  return std::any_of(own->second.headers.begin(), own->second.headers.end(), [&](const std::string& one) {
    return one.ends_with('/') ? included.starts_with(one) : included == one;
  });
}

bool allowed(const fs::path& file, const std::string& included, bool quoted) {
  if (is_own(file, included, quoted)) return true;
  if (!quoted) {
    return (file.filename() == "assert.h" ? kAssertHeaders : kStandardHeaders).count(included) > 0;
  }
  const auto only_for = kOnlyFor.find(included);
  if (only_for != kOnlyFor.end()) return file.filename() == only_for->second;
  return kBaseHeaders.count(included) > 0 || included.rfind("common/sync/", 0) == 0 ||
         included.rfind("common/cache/", 0) == 0 || included.rfind("common/step/", 0) == 0;
}

// Every fault in `text`, which is the content of `file`.
std::vector<std::string> impurities(const fs::path& file, const std::string& text) {
  static const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"])");
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_search(line, match, include) && !allowed(file, match[2], match[1] == "\"")) {
      found.push_back("includes " + match[2].str());
    }
    const std::string code = line.substr(0, line.find("//"));
    if (std::regex_search(code, match, kForbidden) && file.filename() != "assert.h") {
      found.push_back("names " + match[0].str());
    }
  }
  return found;
}

TEST_CASE("what_is_pure_includes_nothing_impure") {
  const auto files = pure_files();
  REQUIRE(files.size() > 60);
  for (const auto& file : files) {
    std::ifstream in(file);
    REQUIRE(in.good());
    std::stringstream text;
    text << in.rdbuf();
    for (const std::string& fault : impurities(file, text.str())) FAIL_CHECK(file.string() << " " << fault);
  }
}

// It reads and writes files and the configuration; its time and its randomness are its own.
TEST_CASE("the_simulator_names_no_clock_and_no_hidden_randomness") {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(kRoot / "simulate")) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    ++files;
    std::ifstream in(entry.path());
    REQUIRE(in.good());
    std::stringstream text;
    text << in.rdbuf();
    for (const std::string& fault : impurities(entry.path(), text.str())) {
      const bool name = fault.starts_with("names ");
      const bool header = fault == "includes common/ticks.h" || fault == "includes thread" ||
                          fault == "includes random" || fault == "includes unordered_map" ||
                          fault == "includes unordered_set";
      if (name || header) FAIL_CHECK(entry.path().string() << " " << fault);
    }
  }
  REQUIRE(files > 15);
}

// docs/ARCHITECTURE.md, Layers.
TEST_CASE("no_folder_includes_what_lies_above_it_and_server_and_worker_not_each_other") {
  const std::set<std::string> all = {"common", "worker", "server", "simulate", "sweep", "tools", "tests"};
  const std::map<std::string, std::set<std::string>> may = {
      {"common", {"common"}},
      {"worker", {"common", "worker"}},
      {"server", {"common", "server"}},
      {"simulate", {"common", "worker", "server", "simulate"}},
      {"sweep", {"common", "worker", "server", "simulate", "sweep"}}};
  const std::string begins = "#include \"";
  std::size_t seen = 0;
  for (const auto& [folder, below] : may) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(begins)) continue;
        const std::string of = line.substr(begins.size(), line.find('/') - begins.size());
        seen += below.count(of);
        if (all.contains(of) && !below.contains(of)) FAIL_CHECK(entry.path().string() << ": " << line);
      }
    }
  }
  REQUIRE(seen > 2000);
}

TEST_CASE("the_scan_finds_what_it_looks_for") {
  CHECK(impurities("x.h", "#include <thread>\n").size() == 1);
  CHECK(impurities("x.h", "#include \"common/ticks.h\"\n").size() == 1);
  CHECK(impurities("x.h", "#include \"common/random.h\"\n").size() == 1);
  CHECK(impurities("random_walk.cc", "#include \"common/random.h\"\n").empty());
  CHECK(impurities("x.h", "auto t = std::chrono::steady_clock::now();\n").size() == 1);
  CHECK(impurities("x.h", "int r = rand();\n").size() == 1);
  CHECK(impurities(kRoot / "common/schedule/x.h", "#include \"common/wire/messages.h\"\n").size() == 1);
  CHECK(impurities(kRoot / "common/schedule/x.h", "#include \"common/schedule/plan.h\"\n").empty());
  CHECK(impurities(kRoot / "server/replicas/x.h", "#include \"server/replicas/etcd_client.h\"\n").size() ==
        1);
  CHECK(impurities(kRoot / "server/replicas/x.h", "#include \"common/wire/messages.h\"\n").empty());
  CHECK(impurities("x.h", "#include <vector>  // not a steady_clock\n").empty());
}

}  // namespace
