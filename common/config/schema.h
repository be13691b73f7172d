// The schema: one row per configuration key. A row drives everything that is known about its key - loading,
// error messages, the effective configuration, the fingerprint, configs/reference.yaml - so adding a key is
// adding a field (run_config.h) and a row (schema_*.cc). Internal to common/config.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/domain.h"
#include "common/config/run_config.h"

namespace paceline::config {

// What a row says in words, as literals. All are one or more plain sentences without a line break.
struct Words {
  std::string_view unit = {};       // "clocks", "samples per worker and iteration", "" for a choice or a name
  std::string_view effect = {};     // one line: what it changes
  std::string_view trade_off = {};  // what more and less of it cost
  std::string_view fallback = {};   // by_policy keys: what null means, by policy
};

// Who must have the same value: every daemon of a run, from its start to its end; every daemon, but a resume
// may change it; or nobody.
enum class Scope { kWholeRun, kOneSession, kOneDaemon };

struct Key {
  std::string path;  // "sync.lpr.metric"; also the path of the field inside RunConfig
  Words words;
  Scope scope = Scope::kOneDaemon;
  std::string expected;
  std::function<std::optional<Fault>(const Value&, RunConfig&)> read;
  std::function<std::string(const RunConfig&)> write;
  // Null means "not given": the default depends on sync.policy (resolve() in validate.h), and where the
  // policy has no use for the key (applies(config) is false) a given value is refused and the written one is
  // null.
  bool by_policy = false;
  std::string fallback = {};  // what null means: words.fallback, or one made of another key's
  std::function<bool(const RunConfig&)> applies = [](const RunConfig&) { return true; };
};

struct Section {
  std::string_view path;   // "sync", "sync.lpr"; a literal
  std::string_view about;  // one line
  Scope scope;             // of its keys, unless a row says otherwise
};

// Every section and every key, in the order in which they are written. Immutable after its first use.
struct Schema {
  std::vector<Section> sections;
  std::vector<Key> keys;

  const Key* find(std::string_view path) const;
  bool is_section(std::string_view path) const;
};
const Schema& schema();

// A row whose field is where these two find it. One function for each type of field, not one for each field: a row adds
// only the two to what is compiled.
template <typename T>
Key row_of(const char* path, T& (*field)(RunConfig&), const T& (*read_field)(const RunConfig&),
           Domain<T> domain, Scope scope, const Words& words) {
  Key key;
  key.path = path;
  key.words = words;
  key.scope = scope;
  key.expected = domain.expected;
  key.fallback = words.fallback;
  key.read = [field, read = std::move(domain.read)](const Value& value, RunConfig& config) {
    return read(value, field(config));
  };
  key.write = [read_field, write = std::move(domain.write)](const RunConfig& config) {
    return write(read_field(config));
  };
  return key;
}

// A row: PACELINE_FIELD(path) stands for the first two, a key and the access to its field.
template <typename T, typename Access>
Key row(const char* path, Access access, Domain<T> domain, Scope scope, const Words& words) {
  return row_of<T>(path, access, access, std::move(domain), scope, words);
}

// The key's path is the field's path, by construction.
#define PACELINE_FIELD(path) #path, [](auto& config) -> auto& { return config.path; }

// The key of train.inner_optimizer that is to a worker's optimizer what `path`, one of train.optimizer, is to
// the servers'; nullopt: `path` is of another section, or there is none.
std::optional<std::string> inner_key_of(std::string_view path);

// The rows of each part of the file.
void add_run_and_cluster(Schema& schema);
void add_security(Schema& schema);
void add_checkpoint(Schema& schema);
void add_sync(Schema& schema);
void add_exchange(Schema& schema);
void add_pipeline(Schema& schema);
void add_train(Schema& schema);
void add_data_and_emulate(Schema& schema);
void add_simulate(Schema& schema);

}  // namespace paceline::config
