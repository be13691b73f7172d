// Rows of `security`: whose machines may take part in a run, and whether others on the network can read
// along.
#include "common/config/schema.h"

namespace paceline::config {

void add_security(Schema& schema) {
  schema.sections.push_back(
      {"security", "who may take part, and whether others on the network can read along", Scope::kOneDaemon});
  auto& keys = schema.keys;
  keys.push_back(
      row(PACELINE_FIELD(security.keys), path_or_null(), Scope::kOneDaemon,
          {.effect = "The folder with this machine's keys, as `paceline keygen` makes it: a server reads "
                     "server.key and who is let in, a node its own key and server.pub. null: no keys.",
           .trade_off = "With keys every connection is encrypted and strangers are kept out, for time "
                        "of the processor on every byte sent; what lies in shared memory is not sent."}));
  keys.push_back(
      row(PACELINE_FIELD(security.allow_insecure), boolean(), Scope::kOneDaemon,
          {.effect = "Without keys, whether servers may listen, and nodes connect, where other machines are: "
                     "elsewhere than at ipc://, localhost and 127.0.0.0/8.",
           .trade_off = "true trusts everybody who reaches the port: whoever does can read the parameters, "
                        "push gradients and end the run. For a network of your own."}));
}

}  // namespace paceline::config
