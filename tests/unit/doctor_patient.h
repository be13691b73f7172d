// What the tests of `paceline doctor` look at: a run that this machine can do, and a port that is taken.
#pragma once

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/temp_folder.h"
#include "tools/doctor.h"
#include "worker/data/synthetic.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using boost::asio::ip::tcp;
using Catch::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using testing::TempFolder;

// A run of two nodes and one server that this machine can do.
struct Patient {
  Patient() {
    SyntheticOptions synthetic;
    synthetic.out = data();
    synthetic.train_samples = 50;
    synthetic.test_samples = 40;
    REQUIRE(write_synthetic(synthetic).is_ok());
    std::ofstream(options.config_path) << "run: {out: " << out().string() << "}\n"
                                       << "cluster: {nodes: 2, endpoints: [\"" << endpoint() << "\"]}\n"
                                       << "train: {model: layers, layers: [{kind: dense, out: 10}], "
                                          "total_iterations: 100}\n"
                                       << "data: {path: " << data().string() << "}\n";
  }
  fs::path data() const { return folder / "data"; }
  fs::path out() const { return folder / "runs" / "one"; }
  std::string endpoint() const { return "ipc://" + (folder / "0").string(); }
  void set(const std::string& key_value) { options.overrides.push_back(key_value); }

  std::vector<Finding> findings() const {
    const auto found = diagnose(options);
    REQUIRE(found.is_ok());
    return *found;
  }
  // What the check of that name has found; there is one.
  Finding finding(const std::string& check) const {
    const std::vector<Finding> all = findings();
    const auto is = [&](const Finding& f) { return f.check == check; };
    REQUIRE(std::count_if(all.begin(), all.end(), is) == 1);
    return *std::find_if(all.begin(), all.end(), is);
  }
  // Nothing but this check has failed, and that says so.
  void fails_with(const std::string& check, const std::string& reported) const {
    for (const Finding& f : findings()) {
      INFO(f.check << ": " << f.detail);
      CHECK((f.verdict == CheckVerdict::kFailed) == (f.check == check));
    }
    CHECK_THAT(finding(check).detail, Contains(reported));
    std::ostringstream printed;
    std::ostringstream errors;
    CHECK(doctor(options, printed, errors) == 1);
    CHECK_THAT(printed.str(), Contains("FAILED   " + check));
  }

  TempFolder folder;
  DoctorOptions options{.config_path = (folder / "run.yaml").string()};
};

// A listening socket of this process on the loopback address, at a port that the system chose.
struct Listener {
  boost::asio::io_context io;
  tcp::acceptor acceptor{io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0)};
  std::string endpoint() const {
    return "tcp://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }
};

}  // namespace
}  // namespace paceline
