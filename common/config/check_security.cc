// What is refused without keys: an address that other machines reach, at which nobody could tell a node from
// a stranger and everybody could read along.
#include <cstddef>

#include "common/config/checks.h"
#include "common/config/local_endpoint.h"
#include "common/config/mesh_address.h"
#include "common/host_port.h"

namespace paceline::config {
namespace {

// The HTTP endpoint knows no keys, so with keys it stays here, too.
void check_http(Validator& validator, const RunConfig& c) {
  if (!c.run.http || c.security.allow_insecure) return;
  const std::string host = host_and_port(*c.run.http).host;
  validator.refuse_if(host != "localhost" && !is_loopback_number(host), {"run.http"},
                      "other machines reach it, and it asks nobody who they are", *c.run.http,
                      "an address of this machine alone (127.x.y.z, localhost, [::1])" +
                          std::string(c.security.keys.empty() ? ", or security.allow_insecure: true"
                                                              : ", which a tunnel may lead to"));
}

}  // namespace

void check_security(Validator& validator, const RunConfig& c) {
  check_http(validator, c);
  const bool keys = !c.security.keys.empty();
  validator.refuse_if(keys && c.security.allow_insecure, {"security.allow_insecure", "security.keys"},
                      "with keys nothing is insecure", "allow_insecure: true and keys: " + c.security.keys,
                      "one of the two");
  if (keys || c.security.allow_insecure) return;
  if (c.cluster.mesh_address) {
    const std::string& address = *c.cluster.mesh_address;
    const auto parsed = parse_mesh_address(address);
    const std::string host = parsed.is_ok() ? parsed->host : "";
    validator.refuse_if(!host.empty() && host != "localhost" && !is_loopback_number(host),
                        {"cluster.mesh_address"}, "other machines reach it, and there are no keys", address,
                        "security.keys, an address of this machine alone (localhost, 127.x.y.z, [::1]), or "
                        "security.allow_insecure: true");
  }
  for (std::size_t k = 0; k < c.cluster.endpoints.size(); ++k) {
    const std::string& endpoint = c.cluster.endpoints[k];
    const std::string element = "cluster.endpoints[" + std::to_string(k) + "]";
    validator.refuse_if(
        !stays_on_this_machine(endpoint), {element.c_str(), "cluster.endpoints"},
        "other machines reach it, and there are no keys", endpoint,
        "security.keys (`paceline keygen` makes them), an address of this machine alone (ipc://, "
        "localhost, 127.x.y.z, [::1]), or security.allow_insecure: true");
  }
}

}  // namespace paceline::config
