// This machine's clock and others': that of a network file system with the run directory, and the
// authority's, where it answers HTTP already. No more than a warning comes of it, since a run depends on no
// clock but each machine's steady one; what would not compare are the times in logs.
#include <sys/statfs.h>

#include <chrono>
#include <optional>
#include <string>

#include "common/instant.h"
#include "common/printed.h"
#include "tools/doctor_checks.h"
#include "tools/http_get.h"

namespace paceline {
namespace {

using std::chrono::nanoseconds;
using std::chrono::system_clock;

constexpr std::chrono::seconds kTolerated{1};
constexpr std::chrono::seconds kAnswersWithin{3};

// Of a file system that other machines may serve: its name.
std::optional<std::string> network_file_system(const std::string& folder) {
  struct statfs about = {};
  if (::statfs(folder.c_str(), &about) != 0) return std::nullopt;
  switch (static_cast<std::uint32_t>(about.f_type)) {
    case 0x6969:
      return "NFS";
    case 0xFE534D42:
    case 0xFF534D42:
    case 0x517B:
      return "SMB";
    case 0x00C36400:
      return "Ceph";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x01021997:
      return "9p";
    default:
      return std::nullopt;
  }
}

// Where who is another machine's daemon asks the authority; an address that stands for all of a machine's is
// that at which the authority's endpoint lies.
std::optional<std::string> http_of_authority(const RunConfig& config) {
  if (!config.run.http) return std::nullopt;
  const std::string& address = *config.run.http;
  const std::string port = address.substr(address.rfind(':'));
  if (port == ":0") return std::nullopt;  // the system chooses it
  if (!address.starts_with("0.0.0.0:") && !address.starts_with("[::]:")) return address;
  const std::string& endpoint = config.cluster.endpoints[kAuthority.value];
  if (!endpoint.starts_with("tcp://")) return "127.0.0.1" + port;
  return endpoint.substr(6, endpoint.rfind(':') - 6) + port;
}

// By how much, at least, the clock of who answers there is before ours; its date has whole seconds. Nothing
// where nobody does.
std::optional<nanoseconds> skew_of_who_answers(const std::string& address) {
  const auto before = system_clock::now();
  const auto date = http_date_of(address, "/status", kAnswersWithin);
  const auto after = system_clock::now();
  if (!date.is_ok()) return std::nullopt;
  if (*date > after) return *date - after;
  const auto latest = *date + std::chrono::seconds(1);
  return latest < before ? latest - before : nanoseconds(0);
}

// `whose`: "the NFS file system at /runs"; `skew`: at least so much, 0 being less than can be told.
Finding compared(const std::string& whose, nanoseconds skew) {
  const std::string by = skew == nanoseconds(0)
                             ? " agrees with this machine's"
                             : printed(" is %+.3f s from this machine's", to_seconds(skew));
  const std::string text = "the clock of " + whose + by;
  if (std::chrono::abs(skew) <= kTolerated) return {"clocks", CheckVerdict::kOk, text, ""};
  return {"clocks", CheckVerdict::kWarning, text,
          "set the clocks (NTP), or the times in the logs of different machines will not compare; a run "
          "itself does not depend on them"};
}

}  // namespace

Finding compare_clocks(const RunConfig& config, const DoctorRole& role, const std::string& folder,
                       nanoseconds skew_of_files) {
  const bool is_authority = !role.shards.empty() && role.shards.front() == kAuthority;
  const auto http = is_authority ? std::nullopt : http_of_authority(config);
  if (const auto skew = http ? skew_of_who_answers(*http) : std::nullopt) {
    return compared("who answers at " + *http + " (run.http, whole seconds)", *skew);
  }
  if (const auto shared = network_file_system(folder)) {
    return compared("the " + *shared + " file system at " + folder, skew_of_files);
  }
  const std::string elsewhere = endpoint_elsewhere(config, role);
  if (!elsewhere.empty()) {
    return {"clocks", CheckVerdict::kWarning, "not compared with that of the machine of " + elsewhere,
            "see to it that the clocks are set (NTP), or the times in the logs of different machines will "
            "not compare; while the authority runs and can be asked (run.http), its clock is compared"};
  }
  return {"clocks", CheckVerdict::kOk,
          "not compared with other machines': " + folder +
              " lies on this one. A run depends on no clock but each machine's steady one; the times in "
              "logs are each machine's own",
          ""};
}

}  // namespace paceline
