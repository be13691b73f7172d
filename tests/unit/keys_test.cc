// Keys as files: what is made, who may read it, and what is refused, by file and line.
#include "common/wire/keys.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "common/wire/zmq_curve.h"
#include "tests/unit/temp_folder.h"

namespace paceline::wire {
namespace {

using Catch::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat about = {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void replace(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

TEST_CASE("keys are made for the servers and each node, and read back as pairs that fit") {
  const testing::TempFolder folder;
  const auto keys = folder / "some/where/keys";
  const mode_t usual = umask(0);
  const auto made = make_keys(keys, 2);
  umask(usual);
  REQUIRE(made.is_ok());
  CHECK(*made == std::vector<std::string>{"server.key", "server.pub", "node-0.key", "node-0.pub",
                                          "node-1.key", "node-1.pub"});
  CHECK(mode_of(keys) == 0700);
  for (const std::string& name : *made) CHECK(mode_of(keys / name) == (name.ends_with(".key") ? 0600 : 0644));

  const auto server = read_server_keys(keys, 2);
  REQUIRE(server.is_ok());
  CHECK(public_key_of(server->own.secret_key).value() == server->own.public_key);
  REQUIRE(server->allowed.size() == 3);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto node = read_node_keys(keys, i);
    REQUIRE(node.is_ok());
    CHECK(node->server == server->own.public_key);
    CHECK(node->own_name == node_key_name(i));
    CHECK(server->allowed.at(node->own.public_key) == node_key_name(i));
    CHECK(content_of(keys / "server.pub").find(node->own.secret_key) == std::string::npos);
  }
  const auto shard = read_shard_keys(keys);
  REQUIRE(shard.is_ok());
  CHECK((shard->server == server->own.public_key && shard->own.public_key == server->own.public_key));
  CHECK(server->allowed.at(shard->own.public_key) == "server");
}

TEST_CASE("one pair may serve all nodes") {
  const testing::TempFolder folder;
  REQUIRE(make_keys(folder / "keys", std::nullopt).is_ok());
  const auto node = read_node_keys(folder / "keys", 4095);
  REQUIRE(node.is_ok());
  CHECK(node->own_name == "node");
  const auto server = read_server_keys(folder / "keys", 4096);
  REQUIRE(server.is_ok());
  CHECK(server->allowed.at(node->own.public_key) == "node");
}

TEST_CASE("a key for all nodes beside a node's own is refused, since its owner could be that node") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(make_keys(keys, 3).is_ok());
  REQUIRE(make_keys(folder / "one", std::nullopt).is_ok());
  std::filesystem::copy_file(folder / "one/node.pub", keys / "node.pub");
  std::filesystem::remove(keys / "node-0.pub");  // node 0 would be let in with node.key, and so be any node
  const Status refused = read_server_keys(keys, 3).status();
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(refused.message(), Contains("node.pub lies beside node-1.pub, so whoever has node.key could "
                                         "join as node 1, too; expected node.pub alone"));
  CHECK(read_server_keys(keys, 1).is_ok());  // which has no node 1
}

TEST_CASE("the folder may be named with a slash at its end") {
  const testing::TempFolder folder;
  const std::string end = GENERATE(as<std::string>{}, "/", "//", "/.", "/./");
  const auto made = make_keys((folder / "new/keys").string() + end, 1);
  INFO(made.status().message());
  CHECK(made.is_ok());
  CHECK(mode_of(folder / "new/keys") == 0700);
  CHECK(read_server_keys((folder / "new/keys").string() + end, 1).is_ok());
}

TEST_CASE("a key says whom it may speak for") {
  CHECK((may_be_node("node-3", 3) && may_be_node("node", 3) && may_be_server("server")));
  CHECK_FALSE((may_be_node("node-3", 30) || may_be_node("node-30", 3) || may_be_node("server", 3)));
  CHECK_FALSE((may_be_server("node") || may_be_server("node-0") || may_be_server("")));
}

TEST_CASE("keys that are there are not replaced, and nothing else is written") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(std::filesystem::create_directory(keys));
  const bool secret = GENERATE(true, false);
  const auto there = keys / (secret ? "node-1.key" : "node-1.pub");
  replace(there, "mine");
  const auto made = make_keys(keys, 2);
  CHECK(made.status().code() == StatusCode::kFailedPrecondition);
  CHECK_THAT(made.status().message(), StartsWith(there.string() + " is there already"));
  CHECK(content_of(there) == "mine");
  CHECK(std::distance(std::filesystem::directory_iterator(keys), {}) == 1);
}

TEST_CASE("a secret that others can read is refused by name, and so is what others can write") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(make_keys(keys, 1).is_ok());
  const auto read_all = [&] {
    const Status server = read_server_keys(keys, 1).status();
    return server.is_ok() ? read_node_keys(keys, 0).status() : server;
  };
  REQUIRE(read_all().is_ok());
  struct Wrong {
    const char* file;
    mode_t mode;
    const char* expected;
  };
  for (const auto& [file, mode, expected] :
       {Wrong{"server.key", 0640, "chmod 600"}, Wrong{"node-0.key", 0604, "chmod 600"},
        Wrong{"server.key", 0620, "chmod 600"}, Wrong{"node-0.pub", 0664, "chmod 644"},
        Wrong{"server.pub", 0646, "chmod 644"}, Wrong{".", 0770, "chmod 700"}}) {
    const auto path = (keys / file).lexically_normal();
    const mode_t usual = mode_of(path);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const Status refused = read_all();
    INFO(refused.message());
    CHECK(refused.code() == StatusCode::kFailedPrecondition);
    CHECK_THAT(refused.message(),
               Contains(path.filename().string()) && Contains("got mode 0") && Contains(expected));
    REQUIRE(chmod(path.c_str(), usual) == 0);
  }
  CHECK(read_all().is_ok());
}

TEST_CASE("a secret of somebody else's is refused, even where it can be read") {
  if (geteuid() != 0) {
    WARN("skipped: only root can give a file away");
    return;
  }
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(make_keys(keys, 1).is_ok());
  REQUIRE(chown((keys / "server.key").c_str(), 65534, 65534) == 0);
  CHECK_THAT(read_server_keys(keys, 1).status().message(),
             Contains("server.key: got a file of user 65534, expected one of user 0"));
}

TEST_CASE("what is no key is refused with file and line, and is not said") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(make_keys(keys, 1).is_ok());
  const std::string key = read_server_keys(keys, 1)->own.secret_key;
  const auto path = keys / "server.key";
  struct Wrong {
    std::string text;
    std::string says;
  };
  const std::string no_z85(40, '~');
  for (const auto& [text, says] :
       {Wrong{"", ":1: got no key"}, Wrong{"# only words\n\n", ":1: got no key"},
        Wrong{"# words\n" + key.substr(1) + "\n", ":2: got 39 characters, expected a key of 40"},
        Wrong{key + "x", ":1: got 41 characters"}, Wrong{"\n" + no_z85 + "\n", ":2: got no key"},
        Wrong{std::string(40, '#') + "\n", ":1: got no key"},  // the largest digit, too large for four bytes
        Wrong{key + "\n# words\n" + key + "\n", ":3: got a second key, expected only that of line 1"},
        Wrong{std::string(5000, 'x'), "5000 bytes, expected at most 4096"}}) {
    replace(path, text);
    const Status refused = read_server_keys(keys, 1).status();
    CHECK_THAT(refused.message(), Contains(path.string()) && Contains(says));
    CHECK_THAT(refused.message(), !Contains(key.substr(1)));
  }
  replace(path, "# words\r\n" + key + "\r\n");
  CHECK(read_server_keys(keys, 1).is_ok());
}

TEST_CASE("what is missing is named with what it is needed for") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  CHECK_THAT(read_server_keys(keys, 2).status().message(),
             Contains(keys.string()) && EndsWith("No such file or directory; `paceline keygen` makes keys"));
  REQUIRE(make_keys(keys, 2).is_ok());
  CHECK_THAT(read_server_keys(keys, 3).status().message(),
             Contains("node-2.pub is not there, so node 2 could not join; expected it, or node.pub"));
  CHECK_THAT(read_node_keys(keys, 2).status().message(), Contains("node-2.key"));
  std::filesystem::remove(keys / "server.pub");
  CHECK_THAT(read_node_keys(keys, 0).status().message(), Contains("server.pub"));
  std::filesystem::remove(keys / "server.key");
  CHECK_THAT(read_shard_keys(keys).status().message(), Contains("server.key"));
}

TEST_CASE("two nodes with one key could not be told apart") {
  const testing::TempFolder folder;
  const auto keys = folder / "keys";
  REQUIRE(make_keys(keys, 2).is_ok());
  std::filesystem::copy_file(keys / "node-0.pub", keys / "node-1.pub",
                             std::filesystem::copy_options::overwrite_existing);
  const Status refused = read_server_keys(keys, 2).status();
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(refused.message(), Contains("node-1.pub is the key of ") && Contains("node-0.pub"));
}

}  // namespace
}  // namespace paceline::wire
