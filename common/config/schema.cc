#include "common/config/schema.h"

namespace paceline::config {

const Key* Schema::find(std::string_view path) const {
  for (const Key& key : keys) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

bool Schema::is_section(std::string_view path) const {
  for (const Section& section : sections) {
    if (section.path == path) return true;
  }
  return false;
}

const Schema& schema() {
  static const Schema whole = [] {
    Schema built;
    add_run_and_cluster(built);
    add_security(built);
    add_checkpoint(built);
    add_sync(built);
    add_exchange(built);
    add_pipeline(built);
    add_train(built);
    add_data_and_emulate(built);
    add_simulate(built);
    return built;
  }();
  return whole;
}

}  // namespace paceline::config
