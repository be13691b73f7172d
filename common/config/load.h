// From one YAML file and `key=value` arguments to a RunConfig that makes sense, before any socket opens; and
// back.
//
// Precedence: an argument over the file, a later argument over an earlier one, anything given over a default.
// Every error is one line, `file:line: key: what is wrong, got …, expected …` (arguments: `command line: key:
// …`). docs/CONFIG.md is the user's side of this; configs/reference.yaml lists the keys. Thread: any; nothing
// is shared.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/status.h"

namespace paceline {

// What a configuration is read for.
enum class LoadFor {
  kDaemons,  // a run to come: what its sockets need is asked for (`security`)
  kReading,  // a recorded run, or a simulated one: no socket opens, so it may say what no daemon would accept
};

// Reads the file at `path` and applies `overrides` ("key.path=value", the value in YAML's flow style, so that
// `emulate.slowdown=[1, 2]` is a list and `run.max_seconds=null` takes a value back).
// Errors: kNotFound when the file cannot be read; kInvalidArgument for anything wrong in it or in an
// override, or in Caffe's files that train.caffe_solver names. `notes`, where it is given, gets what was left
// out of those, what epochs are in versions, and what of a learning rate may not be meant, a line each.
Result<RunConfig> load_config(const std::string& path, std::span<const std::string> overrides,
                              LoadFor what = LoadFor::kDaemons, std::vector<std::string>* notes = nullptr);

// The same from a text; `source` is what errors call it. Errors: kInvalidArgument.
Result<RunConfig> parse_config(std::string_view text, const std::string& source,
                               std::span<const std::string> overrides, LoadFor what = LoadFor::kDaemons,
                               std::vector<std::string>* notes = nullptr);

// Where `key` is said: "my.yaml:12" or "command line"; the file alone where it is not. As load_config() has accepted
// both.
std::string source_of(const std::string& path, std::span<const std::string> overrides, std::string_view key);

// The configuration that a run was recorded with, maybe by another version, and maybe cut: keys that this one
// does not know are left out and named, and so are those that the file does not have, whose values here are
// defaults and say nothing of the run. Errors: those of load_config() for anything else.
struct RecordedConfig {
  RunConfig config;
  std::vector<std::string> unknown_keys = {};
  std::vector<std::string> missing_keys = {};  // in the schema's order

  bool has_key(std::string_view key) const;
};
Result<RecordedConfig> load_recorded_config(const std::string& path);

// The effective configuration: every key with its value, in the schema's order. parse_config of it gives
// `config` again, for what `config` was read for. `config` came from load_config or parse_config.
std::string to_yaml(const RunConfig& config);

// The effective value of one key as a script wants it: a text without quotes, anything else as to_yaml()
// writes it
// ("4", "null", "[1, 2]"). Errors: kInvalidArgument, no such key.
Result<std::string> value_of(const RunConfig& config, const std::string& path);

// The key in which loading puts what `path` says: versions or iterations for one in epochs, else itself.
std::string counted_key(const std::string& path);

// Every key with its effective value, as value_of() has it, in the schema's order: what two runs are told
// apart by, but for keys in epochs.
std::vector<std::pair<std::string, std::string>> effective_values(const RunConfig& config);

// Which keys must have the same value: those on which all daemons of a session agree (seed, end of the run,
// cluster shape, sync, train, data.kind and data.augment, emulate but its cores; not paths, endpoints,
// time-outs, log levels or keys in epochs), or of these those that a resume may not change either: all but when the run
// ends, and where stages are cut and what they keep (Scope::kOneSession in schema.h).
enum class AgreedBy { kSession, kRun };

// FNV-1a (64 bit) over these keys and their values. That of a session travels with the join, so that two
// daemons given different files notice; that of a run is in its checkpoints.
std::uint64_t fingerprint(const RunConfig& config, AgreedBy by = AgreedBy::kSession);

// "key=value" for each key of a session that is not at its default, and for run.seed, in the schema's order:
// never empty, so that who says nothing is told from who has the defaults.
std::vector<std::string> settings(const RunConfig& config);

// "key=value" for each key that a resume may change: overrides that make another configuration end as `config`.
std::vector<std::string> resumable_settings(const RunConfig& config);

// Which of these keys have another value in one settings() than in another, and both values: "train.batch_size: got 64,
// expected 32; ...", at most eight of them. `expected` are those that the run has. Empty: none that is known.
std::string differing_settings(std::span<const std::string> got, std::span<const std::string> expected,
                               AgreedBy by = AgreedBy::kSession);

// configs/reference.yaml: every key at its default, with unit, effect, trade-off and what is accepted as
// comments.
std::string reference_yaml();

}  // namespace paceline
