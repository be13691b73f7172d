// Endpoints: a server's by binding to where the server will; a node's by connecting to it. A server that has
// not been started yet refuses a connection, which shows that its host is there.
//
// What is bound never listens. A node that has been started already tries to connect again and again, and a
// socket that let it in would take its join and be gone.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "common/config/local_endpoint.h"
#include "common/host_port.h"
#include "common/ticks.h"
#include "common/wire/endpoint.h"
#include "common/wire/reach.h"
#include "tools/doctor_checks.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using boost::asio::ip::tcp;
using boost::asio::local::stream_protocol;

constexpr std::chrono::seconds kConnectWithin{3};

bool is_ipc(const std::string& endpoint) { return endpoint.starts_with("ipc://"); }
std::string path_of(const std::string& endpoint) { return endpoint.substr(6); }

std::string in_milliseconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", to_seconds(time) * 1e3);
  return text;
}

// "10.0.0.5" -> "eth0", of this machine's addresses; those of a link alone (fe80::) are left out.
std::map<std::string, std::string> interfaces() {
  std::map<std::string, std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const int family = i->ifa_addr->sa_family;
    char text[INET6_ADDRSTRLEN] = "";
    const void* number = nullptr;
    if (family == AF_INET) number = &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    if (family == AF_INET6) {
      const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&v6)) number = &v6;
    }
    if (number != nullptr && inet_ntop(family, number, text, sizeof text) != nullptr) {
      found.emplace(text, i->ifa_name);
    }
  }
  freeifaddrs(list);
  return found;
}

// "10.0.0.5", 5555 of "tcp://10.0.0.5:5555"; an IPv6 address without its brackets.
struct TcpAddress {
  std::string host;
  std::uint16_t port = 0;
};
TcpAddress address_of(const std::string& tcp_endpoint) {
  const HostPort parts = host_and_port_of_tcp(tcp_endpoint);
  TcpAddress address{parts.host, 0};
  std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), address.port);
  return address;
}

std::string name_of_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/comm");
  std::string name;
  std::getline(file, name);
  return "process " + pid + (name.empty() ? "" : " (" + name + ")");
}

// The process that has a socket of this inode open, where this user may see that.
std::string owner_of_socket(const std::string& inode) {
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string pid = process->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code denied;
    for (fs::directory_iterator file(process->path() / "fd", denied), last; !denied && file != last;
         file.increment(denied)) {
      std::error_code gone;
      if (fs::read_symlink(file->path(), gone).string() == "socket:[" + inode + "]")
        return name_of_process(pid);
    }
  }
  return "a process of another user, or of another container";
}

// The lines of /proc/net/tcp: "sl local_address rem_address st … uid timeout inode", hexadecimal; 0A listens.
std::optional<std::string> who_listens_on_port(std::uint16_t port) {
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmitted, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmitted >> user >> timeout >>
          inode;
      char wanted[8];
      std::snprintf(wanted, sizeof wanted, ":%04X", port);
      if (state == "0A" && local.ends_with(wanted)) return owner_of_socket(inode);
    }
  }
  return std::nullopt;
}

std::optional<std::string> who_listens_at_path(const std::string& path) {
  try {
    boost::asio::io_context io;
    stream_protocol::socket socket(io);
    boost::system::error_code error;
    socket.connect(stream_protocol::endpoint(path), error);
    if (error) return std::nullopt;
    ucred peer = {};
    socklen_t size = sizeof peer;
    if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
    return name_of_process(std::to_string(peer.pid));
  } catch (const boost::system::system_error&) {
    return std::nullopt;  // no path of a socket
  }
}

std::optional<std::string> who_listens(const std::string& endpoint) {
  return is_ipc(endpoint) ? who_listens_at_path(path_of(endpoint))
                          : who_listens_on_port(address_of(endpoint).port);
}

std::string addresses_of_this_machine() {
  std::string text;
  for (const auto& [address, name] : interfaces())
    text += (text.empty() ? "" : ", ") + address + " (" + name + ")";
  return text;
}

// Where an endpoint that could be bound leads.
std::string reached_through(const std::string& endpoint) {
  if (is_ipc(endpoint)) {
    return "by processes of this machine only; the path has " + std::to_string(path_of(endpoint).size()) +
           " bytes, of at most 107";
  }
  const Result<std::string> resolved = wire::resolve(endpoint);
  if (!resolved.is_ok()) return "through the interface that it names";
  const std::string address = address_of(*resolved).host;
  if (address == "0.0.0.0" || address == "::") {
    return "through every interface: " + addresses_of_this_machine();
  }
  if (is_loopback_number(address)) return "by processes of this machine only (" + address + ")";
  const auto all = interfaces();
  const auto found = all.find(address);
  return "through " + (found == all.end() ? address : found->second + " (" + address + ")");
}

// Where ZeroMQ would bind: to all addresses, to an interface's, or to that of a number or a name.
Result<tcp::endpoint> address_to_bind(const std::string& endpoint) {
  TcpAddress address = address_of(endpoint);
  if (address.host == "*") return tcp::endpoint(tcp::v4(), address.port);
  const auto all = interfaces();
  const auto named = std::find_if(all.begin(), all.end(), [&](const auto& each) {
    return each.second == address.host && each.first.find(':') == std::string::npos;
  });
  if (named != all.end()) {
    address.host = named->first;
  } else {
    PACELINE_ASSIGN_OR_RETURN(const std::string resolved, wire::resolve(endpoint));
    address.host = address_of(resolved).host;
  }
  boost::system::error_code error;
  const auto ip = boost::asio::ip::make_address(address.host, error);
  if (error) return unavailable(address.host + ": " + error.message());
  return tcp::endpoint(ip, address.port);
}

// A port whose last connections are only fading away is free to ZeroMQ, and so it is here.
Status try_address(const std::string& endpoint) {
  PACELINE_ASSIGN_OR_RETURN(const tcp::endpoint address, address_to_bind(endpoint));
  boost::asio::io_context io;
  tcp::acceptor socket(io);
  boost::system::error_code error;
  socket.open(address.protocol(), error);
  if (!error) socket.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) socket.bind(address, error);
  return error ? unavailable(error.message()) : Status::ok();
}

// A socket that nobody serves is removed by whoever binds; that a folder lets it be made again is all that is
// tried then.
Status try_path(std::string path) {
  std::error_code ignored;
  const bool has_file = path[0] != '@';
  if (has_file && fs::exists(path, ignored)) {
    const fs::path folder = fs::path(path).parent_path();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0) return Status::ok();
    return unavailable(std::generic_category().message(errno));
  }
  boost::asio::io_context io;
  stream_protocol::acceptor socket(io);
  boost::system::error_code error;
  socket.open(stream_protocol(), error);
  const std::string name = has_file ? path : '\0' + path.substr(1);
  if (!error) socket.bind(stream_protocol::endpoint(name), error);
  if (error) return unavailable(error.message());
  if (has_file) fs::remove(path, ignored);
  return Status::ok();
}

Status try_to_bind(const std::string& endpoint) {
  PACELINE_RETURN_IF_ERROR(wire::check_ipc_path(endpoint));
  const Status tried = is_ipc(endpoint) ? try_path(path_of(endpoint)) : try_address(endpoint);
  return Status(tried).with_context("cannot bind " + endpoint);
}

// Of one that leads to loopback, though other machines are to come there.
std::optional<Finding> only_from_here(const std::string& check, const std::string& endpoint,
                                      const ClusterSection& cluster) {
  if (is_ipc(endpoint)) return std::nullopt;
  const Result<std::string> resolved = wire::resolve(endpoint);
  const std::string wrong =
      resolved.is_ok() ? wrongly_loopback(cluster.endpoints, endpoint, *resolved) : std::string();
  if (wrong.empty()) return std::nullopt;
  return Finding{check, CheckVerdict::kWarning, wrong,
                 std::string(kLoopbackAdvice) + "; this machine has " + addresses_of_this_machine()};
}

// A server's.
Finding bind_endpoint(const std::string& check, const std::string& endpoint, const ClusterSection& cluster) {
  const Status bound = try_to_bind(endpoint);
  if (bound.is_ok()) {
    if (auto wrong = only_from_here(check, endpoint, cluster)) return *std::move(wrong);
    return {check, CheckVerdict::kOk, endpoint + " can be bound, and reached " + reached_through(endpoint),
            ""};
  }
  const std::string& why = bound.message();
  if (why.find("in use") != std::string::npos) {
    const auto who = who_listens(endpoint);
    return {check, CheckVerdict::kFailed, why + (who ? ": " + *who + " listens there" : ""),
            "end that process, or choose another address in cluster.endpoints"};
  }
  if (is_ipc(endpoint)) {
    return {check, CheckVerdict::kFailed, why,
            "choose a path in a folder that can be written, in cluster.endpoints"};
  }
  return {check, CheckVerdict::kFailed, why,
          "start this server on the host that cluster.endpoints names, or correct it; this machine has " +
              addresses_of_this_machine()};
}

// The authority's run.http.
Finding bind_http(const std::string& address) {
  const std::string endpoint = "tcp://" + address;
  const Status bound = try_address(endpoint);
  if (bound.is_ok()) return {"run.http", CheckVerdict::kOk, address + " can be listened at", ""};
  const auto who = who_listens_on_port(address_of(endpoint).port);
  return {
      "run.http", CheckVerdict::kFailed,
      "cannot listen at " + address + ": " + bound.message() + (who ? ": " + *who + " listens there" : ""),
      "end that process, or choose another address in run.http"};
}

Finding not_reached(const std::string& check, const std::string& endpoint, const std::string& why) {
  return {check, CheckVerdict::kFailed, endpoint + " cannot be reached: " + why,
          "correct cluster.endpoints, or open the way to that host (firewall, routes)"};
}

Finding nobody_listens(const std::string& check, const std::string& endpoint, const std::string& how) {
  return {check, CheckVerdict::kWarning, endpoint + ": nobody listens there yet (" + how + ")",
          "start paceline-server there; whether this machine gets through to it is not known before"};
}

Finding reach_path(const std::string& check, const std::string& endpoint) {
  const Ticks began = steady_now();
  if (const auto who = who_listens_at_path(path_of(endpoint))) {
    return {check, CheckVerdict::kOk,
            endpoint + ": " + *who + " answered in " + in_milliseconds(steady_now() - began), ""};
  }
  std::error_code error;
  const fs::path folder = fs::path(path_of(endpoint)).parent_path();
  if (path_of(endpoint)[0] != '@' && !fs::is_directory(folder.empty() ? "." : folder, error)) {
    return not_reached(check, endpoint, "there is no folder " + folder.string());
  }
  return nobody_listens(check, endpoint, "no process of this machine serves that path");
}

// A node's.
Finding reach_endpoint(const std::string& check, const std::string& endpoint) {
  if (is_ipc(endpoint)) return reach_path(check, endpoint);
  const wire::Reachability reached = wire::reach(endpoint, kConnectWithin);
  const std::string at = reached.address + ", found in " + in_milliseconds(reached.found_in);
  const std::string after = in_milliseconds(reached.took);
  switch (reached.how) {
    case wire::Reach::kAccepted:
      return {check, CheckVerdict::kOk, endpoint + " (" + at + ") answered in " + after, ""};
    case wire::Reach::kRefused:
      return nobody_listens(check, endpoint, at + ", refused in " + after);
    case wire::Reach::kUnknownName:
      return not_reached(check, endpoint, reached.reason);
    case wire::Reach::kUnreachable:
    case wire::Reach::kSilent:
      break;
  }
  return not_reached(check, endpoint, reached.reason + " (" + at + "; waited " + after + ")");
}

// Those that this machine's servers bind, by their place in cluster.endpoints.
std::set<std::size_t> endpoints_of(const DoctorRole& role, const ClusterSection& cluster) {
  std::set<std::size_t> own;
  for (const std::uint32_t replica : role.replicas) {
    for (const ShardId shard : role.shards) own.insert(std::size_t{replica} * cluster.shards + shard.value);
  }
  return own;
}

// Whether what this machine is to be connects there: a node to all, a server to the authority's and to the
// other replica's.
bool speaks_to(const DoctorRole& role, const ClusterSection& cluster, std::size_t endpoint) {
  if (role.shards.empty()) return true;
  if (endpoints_of(role, cluster).contains(endpoint)) return false;
  const ShardId shard(static_cast<std::uint32_t>(endpoint % cluster.shards));
  const auto is_ours = [&](ShardId own) { return own == shard; };
  return shard == kAuthority || std::any_of(role.shards.begin(), role.shards.end(), is_ours);
}

}  // namespace

void check_endpoints(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const std::vector<std::string>& endpoints = config.cluster.endpoints;
  const auto check = [](std::size_t k) { return "endpoint " + std::to_string(k); };
  for (const std::size_t own : endpoints_of(role, config.cluster)) {
    findings.push_back(bind_endpoint(check(own), endpoints[own], config.cluster));
  }
  const bool authority = !role.shards.empty() && role.shards.front() == kAuthority;
  if (authority && config.run.http) {
    findings.push_back(bind_http(*config.run.http));
  }
  for (std::size_t i = 0; i < config.cluster.etcd.size() && !role.shards.empty(); ++i) {
    const std::string address = config.cluster.etcd[i].substr(std::string_view("http://").size());
    Finding found = reach_endpoint("etcd " + std::to_string(i), "tcp://" + address);
    if (found.verdict != CheckVerdict::kOk) {
      found.verdict = CheckVerdict::kFailed;
      found.advice = "start etcd there, or correct cluster.etcd";
    }
    findings.push_back(std::move(found));
  }
  for (std::size_t k = 0; k < endpoints.size() && !role.is_whole_run(); ++k) {
    if (!speaks_to(role, config.cluster, k)) continue;
    Finding found = reach_endpoint(check(k), endpoints[k]);
    if (found.verdict != CheckVerdict::kFailed) {
      if (auto wrong = only_from_here(check(k), endpoints[k], config.cluster)) found = *std::move(wrong);
    }
    findings.push_back(std::move(found));
  }
}

std::string endpoint_elsewhere(const RunConfig& config, const DoctorRole& role) {
  if (role.is_whole_run()) return "";
  const auto here = interfaces();
  const std::set<std::size_t> owned = endpoints_of(role, config.cluster);
  for (std::size_t k = 0; k < config.cluster.endpoints.size(); ++k) {
    const std::string& endpoint = config.cluster.endpoints[k];
    if (owned.contains(k) || is_ipc(endpoint)) continue;
    const Result<std::string> resolved = wire::resolve(endpoint);
    const std::string host = resolved.is_ok() ? address_of(*resolved).host : "";  // no name of this machine
    const bool every = host == "0.0.0.0" || host == "::";
    if (!is_loopback_number(host) && !every && !here.contains(host)) return endpoint;
  }
  return "";
}

}  // namespace paceline
