#include "server/authority/formations.h"

#include <algorithm>

namespace paceline::server {

void Formations::end() {
  gathers_ = true;
  std::fill(said_.begin(), said_.end(), std::nullopt);
}

void Formations::said(NodeId node, const std::string& endpoint, Version version) {
  said_[node.value] = Said{endpoint, version};
}

std::optional<Formation> Formations::next(const std::vector<NodeId>& here, Version reducing) {
  if (!gathers_ || here.empty()) return std::nullopt;
  if (!std::all_of(here.begin(), here.end(), [this](NodeId node) { return has_said(node); })) {
    return std::nullopt;
  }
  gathers_ = false;
  ++of_the_same_;
  Formation formation{++number_, std::vector<std::string>(said_.size()), reducing, std::nullopt};
  for (const NodeId node : here) {
    const Said& said = *said_[node.value];
    formation.endpoints[node.value] = said.endpoint;
    if (number_ > 1) formation.version = std::max(formation.version, said.version);
  }
  // The first begins with what the server has.
  if (number_ == 1) return formation;
  if (formation.version == reducing) {
    sum_is_of(here);
    return formation;
  }
  const auto has_it = [&](NodeId node) { return said_[node.value]->version == formation.version; };
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
