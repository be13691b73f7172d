// Addresses that other machines reach: only with keys, or where somebody has written that they are not
// wanted.
#include <catch2/catch.hpp>

#include "common/config/load.h"
#include "common/config/local_endpoint.h"
#include "common/config/mesh_address.h"
#include "tests/unit/config_refusal.h"

namespace paceline {
namespace {

using Catch::Contains;
using Catch::Matchers::StartsWith;
using testing::refusal;

TEST_CASE("without_keys_an_address_that_other_machines_reach_is_refused_with_both_remedies") {
  CHECK(refusal("cluster:\n  shards: 2\n  endpoints: [\"ipc:///tmp/a\", \"tcp://alpha:5555\"]\n") ==
        "run.yaml:3: cluster.endpoints[1]: other machines reach it, and there are no keys, got "
        "tcp://alpha:5555, expected security.keys (`paceline keygen` makes them), an address of this machine "
        "alone (ipc://, localhost, 127.x.y.z, [::1]), or security.allow_insecure: true");
  const std::string no_keys = "other machines reach it, and there are no keys";
  for (const char* host :
       {"0.0.0.0", "*", "10.0.0.1", "192.168.1.2", "128.0.0.1", "127.0.0.1.example.org", "127.0.0",
        "127.0.0.0.1", "localhost.example.org", "[::]", "[fe80::1%eth0]", "eth0", "1270.0.0.1"}) {
    const std::string endpoint = std::string("tcp://") + host + ":5555";
    CHECK_THAT(refusal("run: {}", {"cluster.endpoints=[\"" + endpoint + "\"]"}),
               StartsWith("command line: cluster.endpoints[0]: ") && Contains(no_keys) && Contains(endpoint));
  }
  for (const char* endpoint : {"tcp://127.0.0.1:5555", "tcp://127.255.3.4:1", "tcp://localhost:5555",
                               "tcp://[::1]:5555", "ipc:///tmp/x", "ipc://@x"}) {
    const std::vector<std::string> given{"cluster.endpoints=[\"" + std::string(endpoint) + "\"]"};
    CHECK(parse_config("run: {}", "run.yaml", given).is_ok());
  }
  for (const char* remedy : {"security.keys=keys", "security.allow_insecure=true"}) {
    const std::vector<std::string> given{"cluster.endpoints=[tcp://alpha:5555]", remedy};
    CHECK(parse_config("run: {}", "run.yaml", given).is_ok());
  }
  CHECK_THAT(refusal("security: {keys: a, allow_insecure: true}"),
             StartsWith("run.yaml:1: security.allow_insecure: with keys nothing is insecure"));
}

TEST_CASE("where_other_nodes_reach_a_node_is_an_address_and_ports_of_this_machine") {
  const std::string reads =
      "{cluster: {nodes: 2}, train: {total_iterations: 40}, exchange: {kind: allreduce}}";
  using Wrong = std::pair<const char*, const char*>;
  for (const auto& [address, why] :
       {Wrong{"", "no host"}, Wrong{":", "no two ports from 1 to 65535"},
        Wrong{"127.0.0.2:40000", "no two ports"}, Wrong{"127.0.0.2:0-9", "no two ports"},
        Wrong{"127.0.0.2:1-65536", "no two ports"}, Wrong{"127.0.0.2:9-8", "a first port after the last one"},
        Wrong{"::1", "an IPv6 address stands in brackets"}, Wrong{"[::1", "no IPv6 address in the brackets"},
        Wrong{"[::1]9", "no colon after the brackets"}, Wrong{"10.0.0.0/8", "an address with a path"},
        Wrong{"0.0.0.0", "no address that others can reach"},
        Wrong{"10.0.0.2", "other machines reach it, and there are no keys"}}) {
    INFO(address);
    CHECK_THAT(refusal(reads, {"cluster.mesh_address='" + std::string(address) + "'"}),
               StartsWith("command line: cluster.mesh_address: " + std::string(why)));
  }
  for (const char* address :
       {"127.0.0.2", "127.0.0.2:40000-40001", ":40000-40000", "[::1]:1-65535", "localhost"}) {
    const std::vector<std::string> given{"cluster.mesh_address='" + std::string(address) + "'"};
    const auto read = parse_config(reads, "run.yaml", given);
    INFO(read.status().message());
    REQUIRE(read.is_ok());
    CHECK(read->cluster.mesh_address == address);
    CHECK(parse_config(to_yaml(*read), "again", {}).value() == *read);
  }
  CHECK(*parse_mesh_address("[fe80::1]:7-9") == MeshAddress{"fe80::1", 7, 9});
  CHECK_THAT(refusal("run: {}", {"cluster.mesh_address=127.0.0.2"}),
             StartsWith("command line: cluster.mesh_address: nobody reads it"));
}

TEST_CASE("an_http_endpoint_that_other_machines_reach_is_refused_without_allow_insecure_and_with_keys") {
  CHECK(refusal("run:\n  http: \"0.0.0.0:8080\"\n") ==
        "run.yaml:2: run.http: other machines reach it, and it asks nobody who they are, got 0.0.0.0:8080, "
        "expected an address of this machine alone (127.x.y.z, localhost, [::1]), or "
        "security.allow_insecure: true");
  CHECK_THAT(refusal("run: {http: \"alpha:8080\"}\nsecurity: {keys: k}"),
             Contains("which a tunnel may lead to"));
  for (const char* http :
       {"127.0.0.1:8080", "localhost:1", "[::1]:8080", "127.8.9.10:65535", "127.0.0.1:0"}) {
    const auto read = parse_config("run: {http: \"" + std::string(http) + "\"}", "run.yaml", {});
    REQUIRE(read.is_ok());
    CHECK(*read->run.http == http);
  }
  CHECK(parse_config("run: {http: \"*:8080\"}\nsecurity: {allow_insecure: true}", "run.yaml", {}).is_ok());
  CHECK(parse_config("run: {http: \"alpha:8080\"}", "run.yaml", {}, LoadFor::kReading).is_ok());
}

TEST_CASE("an IPv6 address stands in brackets, and survives being written") {
  const std::vector<std::string> given{"cluster.endpoints=[\"tcp://[::1]:5555\"]"};
  const auto read = parse_config("run: {}", "run.yaml", given);
  REQUIRE(read.is_ok());
  CHECK(parse_config(to_yaml(*read), "again", {}).value() == *read);
  for (const char* wrong : {"tcp://::1:5555", "tcp://[alpha]:5555", "tcp://[::1]", "tcp://[::1]:0"}) {
    CHECK_THAT(refusal("run: {}", {"cluster.endpoints=[\"" + std::string(wrong) + "\"]"}),
               StartsWith("command line: cluster.endpoints[0]: ") && Contains(wrong));
  }
}

TEST_CASE("an endpoint of a run on several machines that leads to loopback is told of") {
  using Endpoints = std::vector<std::string>;
  CHECK(wrongly_loopback({"tcp://alpha:5555"}, "tcp://alpha:5555", "tcp://127.0.1.1:5555") ==
        "tcp://alpha:5555 leads to 127.0.1.1, where no other machine comes");
  const Endpoints mixed{"tcp://127.0.0.1:1", "tcp://10.0.0.2:1"};
  CHECK_THAT(wrongly_loopback(mixed, mixed[0], mixed[0]), StartsWith("tcp://127.0.0.1:1 leads to 127.0.0.1"));
  CHECK_THAT(wrongly_loopback({"tcp://alpha:1"}, "tcp://alpha:1", "tcp://[::1]:1"), Contains("leads to ::1"));
  CHECK(wrongly_loopback(mixed, mixed[1], mixed[1]).empty());
  for (const Endpoints& here :
       {Endpoints{"tcp://localhost:1"}, Endpoints{"tcp://[::1]:1", "tcp://127.0.0.1:1"},
        Endpoints{"tcp://alpha:1", "ipc:///tmp/x"}}) {
    CHECK(wrongly_loopback(here, here[0], "tcp://127.0.0.1:1").empty());
  }
}

// One that was recorded before there were keys, for instance.
TEST_CASE("a_configuration_that_is_only_read_needs_no_keys_for_any_address") {
  const std::string text = "cluster: {endpoints: [\"tcp://alpha:5555\"]}";
  CHECK_FALSE(parse_config(text, "run.yaml", {}).is_ok());
  const Result<RunConfig> read = parse_config(text, "run.yaml", {}, LoadFor::kReading);
  REQUIRE(read.is_ok());
  const Result<RunConfig> again = parse_config(to_yaml(*read), "again", {}, LoadFor::kReading);
  CHECK((again.is_ok() && *again == *read));
  // Anything else is asked of it as ever.
  CHECK_FALSE(parse_config("cluster: {shards: 2}", "run.yaml", {}, LoadFor::kReading).is_ok());
}

}  // namespace
}  // namespace paceline
