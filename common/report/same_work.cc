#include "common/report/same_work.h"

#include <set>

namespace paceline {

bool is_of_the_work(const std::string& key) {
  static const std::set<std::string> keys{"cluster.nodes",        "cluster.threads_per_node",
                                          "train.model",          "train.layers",
                                          "train.batch_size",     "train.total_iterations",
                                          "train.init_from",      "data.kind",
                                          "data.augment",         "data.subtract",
                                          "data.subtract_values", "data.scale"};
  return keys.contains(key);
}

bool is_of_the_cluster(const std::string& key, bool simulated) {
  if (key.starts_with("emulate.")) return key != "emulate.cores";
  return simulated && key.starts_with("simulate.");
}

}  // namespace paceline
