#include "server/authority/formations.h"

#include <algorithm>

namespace paceline::server {

void Formations::end() {
  gathers_ = true;
  std::fill(reached_.begin(), reached_.end(), std::nullopt);
}

void Formations::set_endpoint(NodeId node, const std::string& endpoint, Version version) {
  reached_[node.value] = Reached{endpoint, version};
}

std::optional<Formation> Formations::next(const std::vector<NodeId>& here, Version reducing) {
  if (!gathers_ || here.empty()) return std::nullopt;
  if (!std::all_of(here.begin(), here.end(), [this](NodeId node) { return has_endpoint(node); })) {
    return std::nullopt;
  }
  gathers_ = false;
  ++of_the_same_;
  Formation formation{++number_, std::vector<std::string>(reached_.size()), reducing, std::nullopt};
  for (const NodeId node : here) {
    const Reached& reached = *reached_[node.value];
    formation.endpoints[node.value] = reached.endpoint;
    if (number_ > 1) formation.version = std::max(formation.version, reached.version);
  }
  // The first begins with what the server has.
  if (number_ == 1) return formation;
  if (formation.version == reducing) {
    sum_is_of(here);
    return formation;
  }
  const auto has_it = [&](NodeId node) { return reached_[node.value]->version == formation.version; };
  if (!std::all_of(here.begin(), here.end(), has_it)) {
    formation.holder = *std::find_if(here.begin(), here.end(), has_it);
  }
  return formation;
}

void Formations::stepped(const std::vector<NodeId>& here) {
  of_the_same_ = 0;
  sum_is_of(here);
}

void Formations::sum_is_of(const std::vector<NodeId>& here) {
  std::fill(in_sum_.begin(), in_sum_.end(), false);
  for (const NodeId node : here) in_sum_[node.value] = true;
}

}  // namespace paceline::server
