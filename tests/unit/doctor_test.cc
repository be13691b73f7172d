// `paceline doctor`: each check in a situation in which it must fail, and all of them in a good one. Nothing
// that it looks at may change.
#include "tools/doctor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "common/http_date.h"
#include "common/report/run_summary.h"
#include "tests/unit/doctor_patient.h"

namespace paceline {
namespace {

// A PNG of one pixel.
constexpr char kOnePixel[] =
    "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\fIDATx\x9c"
    "c`P\xf5\2\0\0\x98\0pP\xe9\x93\x86\0\0\0\0IEND\xae"
    "B`\x82";

TEST_CASE("a machine that can do its part is told so, and nothing is left behind") {
  Patient p;
  std::ostringstream out;
  std::ostringstream err;
  CHECK(doctor(p.options, out, err) == 0);
  CHECK(err.str().empty());
  INFO(out.str());
  CHECK_THAT(out.str(), StartsWith("ok       configuration"));
  CHECK_THAT(out.str(), !Contains("FAILED"));
  CHECK_THAT(out.str(), Contains("50 training and 40 test samples; fingerprint 0x"));
  CHECK_THAT(out.str(), Contains(p.out().string() + " is not there yet, and can be made"));
  CHECK_THAT(out.str(), Contains("30730 parameters: the whole run on this machine needs at least"));
  CHECK_THAT(out.str(), Contains("libzmq: built with 4.") && Contains("protobuf: built with") &&
                            Contains("oneDNN: built with") && Contains("libsodium: built with 1.") &&
                            Contains("parameters are updated with"));
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(p.folder.path())) left.push_back(entry.path().filename());
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{"data", "run.yaml"});
}

TEST_CASE("a run that does without huge pages is told so") {
  Patient p;
  std::ostringstream out;
  std::ostringstream err;
  p.set("cluster.huge_pages=false");
  CHECK(doctor(p.options, out, err) == 0);
  CHECK_THAT(out.str(), Contains("none, as cluster.huge_pages says"));
}

TEST_CASE("a configuration that is none is refused as by check-config") {
  Patient p;
  p.set("sync.treshold=3");
  std::ostringstream out;
  std::ostringstream err;
  CHECK(doctor(p.options, out, err) == 2);
  CHECK(out.str().empty());
  CHECK_THAT(err.str(), StartsWith("paceline doctor: command line: sync.treshold: unknown key"));
}

TEST_CASE("what cannot be a daemon of the run is refused: another shard, another node, a path too long") {
  Patient p;
  std::string expected;
  SECTION("no such shard") {
    p.options.shard = 1;
    expected = "--shard: no such shard, got 1, expected 0 to 0";
  }
  SECTION("no such node") {
    p.options.node = 2;
    expected = "--node: no such node, got 2, expected 0 to 1";
  }
  SECTION("a path longer than a socket's") {
    p.set("cluster.endpoints=[\"ipc:///tmp/" + std::string(120, 'x') + "\"]");
    expected = "a path longer than the 107 bytes of a Unix socket";
  }
  const auto found = diagnose(p.options);
  REQUIRE_FALSE(found.is_ok());
  CHECK_THAT(found.status().message(), Contains(expected));
}

TEST_CASE("data that is missing, cut short or mislabelled is said of a node, and a server needs none") {
  Patient p;
  const fs::path batch = p.data() / "data_batch_2.bin";
  SECTION("missing") {
    fs::remove_all(p.data());
    p.fails_with("data", "data folder '" + p.data().string() + "' does not exist; generate a data set");
  }
  SECTION("cut short") {
    fs::resize_file(batch, 5000);
    p.fails_with("data", "'" + batch.string() + "': got 5000 bytes, expected a multiple of 3073");
  }
  SECTION("no test set") {
    fs::remove(p.data() / "test_batch.bin");
    p.fails_with("data", "test_batch.bin' does not exist");
  }
  SECTION("another size than epochs are counted by") {
    p.set("data.train_samples=60");
    p.fails_with("data", "data.train_samples: an epoch has other samples, got 60, expected 50, which '");
  }
  SECTION("whole, but not what data.kind says") {
    p.set("data.kind=cifar10");
    p.fails_with(
        "data",
        "data_batch_1.bin': got 30730 bytes, expected 30730000 (10000 records) of data.kind: cifar10");
  }
  p.options.shard = 0;
  CHECK(p.finding("data").verdict == CheckVerdict::kOk);
}

TEST_CASE(
    "keys that a daemon of this machine could not read fail; none are needed where nobody else can connect") {
  Patient p;
  CHECK(p.finding("keys").verdict == CheckVerdict::kOk);
  SECTION("not there") {
    p.set("security.keys=" + (p.folder / "keys").string());
    p.options.node = 1;
    p.fails_with("keys", (p.folder / "keys").string());
  }
  SECTION("none, and everybody may connect") {
    p.set("security.allow_insecure=true");
    CHECK(p.finding("keys").verdict == CheckVerdict::kWarning);
  }
}

TEST_CASE("pictures are looked at as a node does, and what cannot be read is counted") {
  Patient p;
  const fs::path pictures = p.folder / "pictures";
  for (const char* of : {"train/cat", "train/dog", "test/cat", "test/dog"}) {
    fs::create_directories(pictures / of);
    std::ofstream(pictures / of / "1.png", std::ios::binary).write(kOnePixel, sizeof kOnePixel - 1);
  }
  for (const char* key : {"data.kind=images", "data.classes=2", "data.crop.size=8", "data.crop.resize=8",
                          "train.layers=[{kind: dense, out: 2}]"}) {
    p.set(key);
  }
  p.set("data.path=" + pictures.string());
  CHECK(p.finding("data").verdict == CheckVerdict::kOk);
  CHECK_THAT(p.finding("data").detail, StartsWith(pictures.string() + ": 2 training and 2 test samples; "));
  std::ofstream(pictures / "train/dog/2.png") << "no picture";
  CHECK(p.finding("data").verdict == CheckVerdict::kWarning);
  CHECK(p.finding("data").advice == "1 pictures cannot be read, and are left out");
  p.set("data.on_bad=fail");
  p.fails_with("data", "2.png");
  CHECK_FALSE(fs::exists(p.out()));
}

TEST_CASE("the same data has the same fingerprint, other data another") {
  Patient p;
  const std::string before = p.finding("data").detail;
  CHECK(p.finding("data").detail == before);
  std::fstream(p.data() / "data_batch_1.bin", std::ios::in | std::ios::out | std::ios::binary).put(7);
  CHECK(p.finding("data").detail != before);
}

TEST_CASE("a run directory that cannot be written, or is used already, fails") {
  Patient p;
  SECTION("below a file") {
    p.set("run.out=" + (p.folder / "run.yaml" / "out").string());
    p.fails_with("run directory", "cannot be made: " + (p.folder / "run.yaml").string() + " is not a folder");
  }
  SECTION("where nobody may write") {
    p.set("run.out=/proc/paceline");
    p.fails_with("run directory", "cannot write into /proc: ");
  }
  SECTION("a folder without permission") {
    if (::geteuid() == 0) return;  // who may write everywhere
    fs::create_directories(p.out());
    fs::permissions(p.out(), fs::perms::owner_read | fs::perms::owner_exec);
    p.fails_with("run directory", "Permission denied");
    fs::permissions(p.out(), fs::perms::owner_all);
  }
  SECTION("an earlier run's") {
    fs::create_directories(p.out());
    std::ofstream(p.out() / "server.log") << "it was";
    p.fails_with("run directory", "already holds a run (server.log); choose another run.out");
    p.options.force = Force::kOnce;
    CHECK_THAT(p.finding("run directory").detail, EndsWith("holds a run, which will be replaced"));
    REQUIRE(write_summary(p.out(), RunSummary{}).is_ok());
    p.fails_with("run directory",
                 "has ended well (summary.json says ok): --force replaces it only when given twice");
    p.options.force = Force::kTwice;
    CHECK_THAT(p.finding("run directory").detail, EndsWith("holds a run, which will be replaced"));
    p.options.force = Force::kNo;
    p.options.node = 1;  // whose server has begun
    CHECK(p.finding("run directory").verdict == CheckVerdict::kOk);
    std::ofstream(p.out() / "worker-1.log") << "it was";
    p.fails_with("run directory", "already holds a run of node 1 (worker-1.log)");
  }
}

// Answers one request as a server whose clock is so much before ours.
class AnswersOnce {
 public:
  explicit AnswersOnce(std::chrono::hours before) {
    thread_ = std::thread([this, before] {
      tcp::socket socket(listener_.io);
      listener_.acceptor.accept(socket);
      boost::asio::streambuf request;
      boost::asio::read_until(socket, request, "\r\n\r\n");
      const auto date = http_date(std::chrono::system_clock::now() + before);
      boost::asio::write(
          socket, boost::asio::buffer("HTTP/1.1 200 OK\r\nDate: " + date + "\r\nContent-Length: 0\r\n\r\n"));
    });
  }
  AnswersOnce(const AnswersOnce&) = delete;
  AnswersOnce& operator=(const AnswersOnce&) = delete;
  ~AnswersOnce() {
    boost::system::error_code ignored;  // where nobody has asked, this does
    tcp::socket socket(listener_.io);
    socket.connect(listener_.acceptor.local_endpoint(), ignored);
    boost::asio::write(socket, boost::asio::buffer("\r\n\r\n", 4), ignored);
    thread_.join();
  }
  std::string address() const { return listener_.endpoint().substr(6); }

 private:
  Listener listener_;
  std::thread thread_;
};

TEST_CASE(
    "the authority's clock is compared where it answers; that another machine's cannot be is a warning") {
  Patient p;
  p.options.node = 1;
  SECTION("it agrees") {
    const AnswersOnce authority(std::chrono::hours(0));
    p.set("run.http=\"" + authority.address() + "\"");
    const Finding clocks = p.finding("clocks");
    CHECK(clocks.verdict == CheckVerdict::kOk);
    CHECK(clocks.detail == "the clock of who answers at " + authority.address() +
                               " (run.http, whole seconds) agrees with this machine's");
  }
  SECTION("it is ahead, or behind") {
    const int hours = GENERATE(2, -2);
    const AnswersOnce authority{std::chrono::hours(hours)};
    p.set("run.http=\"" + authority.address() + "\"");
    const Finding clocks = p.finding("clocks");
    CHECK(clocks.verdict == CheckVerdict::kWarning);
    // By less than 2 h, since seconds are whole and the answer was made a moment ago.
    CHECK_THAT(clocks.detail,
               Contains(hours > 0 ? " is +7" : " is -7") && EndsWith(" s from this machine's"));
    CHECK_THAT(clocks.advice, StartsWith("set the clocks (NTP)"));
  }
  SECTION("nobody answers yet, and all is on this machine") {
    std::string nobody = Listener().endpoint();
    p.set("run.http=\"" + nobody.substr(6) + "\"");
    CHECK(p.finding("clocks").verdict == CheckVerdict::kOk);
    CHECK_THAT(p.finding("clocks").detail, StartsWith("not compared with other machines'"));
  }
  SECTION("an address that is reserved for examples (RFC 5737), of no machine, so not of this one") {
    p.set("security.allow_insecure=true");
    p.set("cluster.endpoints=[\"tcp://192.0.2.1:5555\"]");
    const Finding clocks = p.finding("clocks");
    CHECK(clocks.verdict == CheckVerdict::kWarning);
    CHECK(clocks.detail == "not compared with that of the machine of tcp://192.0.2.1:5555");
  }
}

TEST_CASE("a date of HTTP is written and read as RFC 9110 has it; what is none is none") {
  const auto at = parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT");
  REQUIRE(at);
  CHECK(at->time_since_epoch() == std::chrono::seconds(784111777));
  CHECK(http_date(*at) == "Sun, 06 Nov 1994 08:49:37 GMT");
  CHECK(http_date(*at + std::chrono::milliseconds(999)) == "Sun, 06 Nov 1994 08:49:37 GMT");
  for (const char* bad : {"", "yesterday", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Now 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT+1"}) {
    INFO(bad);
    CHECK_FALSE(parse_http_date(bad));
  }
}

TEST_CASE("a model that no machine holds fails, one that may not fit in the worst case is a warning") {
  Patient p;
  p.options.shard = 0;
  SECTION("never") {
    std::string layers;
    for (int i = 0; i < 64; ++i) layers += "{kind: dense, out: 65536}, ";
    p.set("train.layers=[" + layers + "{kind: dense, out: 10}]");
    CHECK(p.finding("memory").verdict == CheckVerdict::kFailed);
    CHECK(p.finding("disk space").verdict == CheckVerdict::kFailed);
  }
  SECTION("in the worst case") {
    p.set("sync.policy=ssp");
    p.set("sync.threshold=1000000");
    p.set("train.layers=[{kind: dense, out: 1000}, {kind: dense, out: 10}]");
    CHECK(p.finding("memory").verdict == CheckVerdict::kWarning);
  }
}

TEST_CASE("more training threads than cores is a warning, unless they are emulated") {
  Patient p;
  p.set("cluster.threads_per_node=256");
  CHECK(p.finding("cores").verdict == CheckVerdict::kWarning);
  p.set("emulate.base_step=1s");
  p.set("emulate.cores=1");
  CHECK(p.finding("cores").verdict == CheckVerdict::kOk);
}

TEST_CASE("too few descriptors for the connections fail, and the advice is a command") {
  Patient p;
  p.options.shard = 0;
  p.set("cluster.nodes=200");
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {200, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const Finding finding = p.finding("open files");
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(finding.verdict == CheckVerdict::kFailed);
  CHECK(finding.detail ==
        "a process may open 200 files, at least 252 are needed and 685 if nodes share memory and come back");
  CHECK(finding.advice == "ulimit -Hn 685");
}

TEST_CASE("a script gets the same as one JSON object") {
  Patient p;
  fs::remove_all(p.data());
  p.options.json = true;
  std::ostringstream out;
  std::ostringstream err;
  CHECK(doctor(p.options, out, err) == 1);
  const auto read = nlohmann::json::parse(out.str());
  CHECK(read["ok"] == false);
  const std::vector<Finding> expected = p.findings();
  REQUIRE(read["checks"].size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(read["checks"][i]["check"] == expected[i].check);
    CHECK((read["checks"][i]["verdict"] == "FAILED") == (expected[i].verdict == CheckVerdict::kFailed));
  }
}

}  // namespace
}  // namespace paceline
