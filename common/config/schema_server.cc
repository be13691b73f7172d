// Rows of `server`: what a server applies gradients with.
#include "common/config/schema.h"

namespace paceline::config {

void add_server(Schema& schema) {
  schema.sections.push_back({"server", "what a server applies gradients with", Scope::kOneDaemon});
  auto& keys = schema.keys;
  keys.push_back(row(
      PACELINE_FIELD(server.device), choice<Device>(), Scope::kOneDaemon,
      {.effect = "Where a server applies gradients to its shard: on the CPU, or with CUDA on a GPU; the same "
                 "to the bit.",
       .trade_off =
           "cuda needs a build with CUDA and a GPU on the server's machine, with room for the shard, "
           "its optimizer state and some gradients; each gradient goes there and the parameters come "
           "back (docs/GPU.md). Not with delay_compensation."}));
  keys.push_back(
      row(PACELINE_FIELD(server.devices), list_of(whole32(0, 1023)), Scope::kOneDaemon,
          {.unit = "GPUs as CUDA numbers them",
           .effect = "cuda: the GPUs of the shards, which take them in turn. Empty: all of the machine.",
           .trade_off = "A GPU of its own shares no link with another shard or with workers."}));
}

}  // namespace paceline::config
