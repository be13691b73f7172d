#include "server/replicas/etcd_json.h"

#include <algorithm>
#include <boost/beast/core/detail/base64.hpp>  // Beast's own, in none of its promises; Debian has no other in headers
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace paceline::server {
namespace {

using Json = nlohmann::json;
namespace base64 = boost::beast::detail::base64;

constexpr int kOk = 200;
constexpr std::size_t kShown = 200;  // of what somebody else says, in a line of ours

std::string to_base64(std::string_view bytes) {
  std::string text(base64::encoded_size(bytes.size()), '\0');
  text.resize(base64::encode(text.data(), bytes.data(), bytes.size()));
  return text;
}

std::string of_base64(const std::string& text) {
  const auto wrong = [&] { return std::invalid_argument("\"" + text.substr(0, kShown) + "\" is no base64"); };
  if (text.size() % 4 != 0) throw wrong();  // decode() writes what decoded_size() does not count
  std::string bytes(base64::decoded_size(text.size()), '\0');
  const auto [written, read] = base64::decode(bytes.data(), text.data(), text.size());
  const std::size_t padding = text.size() - (text.find_last_not_of('=') + 1);
  if (read + padding < text.size() || padding > 2) throw wrong();
  bytes.resize(written);
  return bytes;
}

Json compare_of(const Txn::Compare& compare) {
  const bool created = compare.of == Txn::Of::kCreated;
  return {{"key", to_base64(compare.key)},
          {"target", created ? "CREATE" : "MOD"},
          {created ? "create_revision" : "mod_revision", std::to_string(compare.revision)},
          {"result", "EQUAL"}};
}

Json put_of(const Txn::Put& put) {
  Json json{{"key", to_base64(put.key)}, {"value", to_base64(put.value)}};
  if (put.lease != 0) json["lease"] = std::to_string(put.lease);
  return {{"requestPut", json}};
}

// Both branches read, so that an answer says the same whether it wrote or not.
Json txn_of(const Txn& txn) {
  Json compares = Json::array();
  Json success = Json::array();
  Json failure = Json::array();
  for (const Txn::Compare& compare : txn.compares) compares.push_back(compare_of(compare));
  for (const Txn::Put& put : txn.puts) success.push_back(put_of(put));
  for (const std::string& key : txn.reads) {
    const Json read{{"requestRange", {{"key", to_base64(key)}}}};
    success.push_back(read);
    failure.push_back(read);
  }
  return {{"compare", compares}, {"success", success}, {"failure", failure}};
}

struct Post {
  EtcdPost operator()(const GrantLease& grant) const {
    return {"/v3/lease/grant", Json{{"TTL", std::to_string(grant.ttl.count())}}.dump()};
  }
  EtcdPost operator()(const KeepAlive& keep) const {
    return {"/v3/lease/keepalive", Json{{"ID", std::to_string(keep.lease)}}.dump()};
  }
  EtcdPost operator()(const RevokeLease& revoke) const {
    return {"/v3/lease/revoke", Json{{"ID", std::to_string(revoke.lease)}}.dump()};
  }
  EtcdPost operator()(const Txn& txn) const { return {"/v3/kv/txn", txn_of(txn).dump()}; }
};

// Missing: 0. Throws where it is no number, as nlohmann's own access does.
std::int64_t number_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return number;
  throw std::runtime_error(std::string(name) + ": got \"" + text + "\", expected a number");
}

std::chrono::seconds seconds_of(const Json& json, const char* name) {
  constexpr std::int64_t kSecondsMax = 1'000'000'000;  // as nanoseconds they are to fit
  return std::chrono::seconds(std::clamp<std::int64_t>(number_of(json, name), 0, kSecondsMax));
}

std::optional<EtcdKey> key_of(const Json& response) {
  const Json& range = response.at("response_range");
  if (!range.is_object()) throw std::invalid_argument("response_range is no object");
  const auto found = range.find("kvs");
  if (found == range.end() || found->empty()) return std::nullopt;
  const Json& key = found->at(0);
  return EtcdKey{of_base64(key.value("value", "")), number_of(key, "create_revision"),
                 number_of(key, "mod_revision"), number_of(key, "lease")};
}

struct Answer {
  const Json& json;

  EtcdAnswer operator()(const GrantLease&) const {
    const LeaseGranted granted{number_of(json, "ID"), seconds_of(json, "TTL")};
    if (granted.lease <= 0 || granted.ttl.count() <= 0)
      throw std::invalid_argument("a lease without ID or TTL");
    return granted;
  }
  EtcdAnswer operator()(const KeepAlive&) const { return LeaseKept{seconds_of(json.at("result"), "TTL")}; }
  EtcdAnswer operator()(const RevokeLease&) const { return LeaseRevoked{}; }
  EtcdAnswer operator()(const Txn& txn) const {
    TxnDone done;
    done.succeeded = json.value("succeeded", false);
    const std::size_t before = done.succeeded ? txn.puts.size() : 0;
    for (std::size_t i = 0; i < txn.reads.size(); ++i) {
      done.read.push_back(key_of(json.at("responses").at(before + i)));
    }
    return done;
  }
};

Status refused(int code, std::string_view body) {
  std::string why = "etcd answered with HTTP " + std::to_string(code);
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const auto text = json.is_object() ? json.find("error") : json.end();
  if (json.is_object() && text != json.end() && text->is_string()) {
    why += ": " + text->get_ref<const std::string&>().substr(0, kShown);
  }
  return unavailable(why);
}

constexpr int kGone = 404;

}  // namespace

EtcdPost post_of(const EtcdRequest& request) { return std::visit(Post{}, request); }

Result<EtcdAnswer> answer_of(const EtcdRequest& request, int code, std::string_view body) {
  // A lease that has ended already has been given back.
  if (code == kGone && std::holds_alternative<RevokeLease>(request)) return EtcdAnswer(LeaseRevoked{});
  if (code != kOk) return refused(code, body);
  try {
    const Json json = Json::parse(body);
    const auto error = json.find("error");  // a stream says it so, with 200
    if (error != json.end()) return unavailable("etcd answered: " + error->dump().substr(0, kShown));
    return std::visit(Answer{json}, request);
  } catch (const std::exception& error) {
    return invalid_argument("etcd's answer: got \"" + std::string(body.substr(0, kShown)) +
                            "\": " + error.what());
  }
}

}  // namespace paceline::server
