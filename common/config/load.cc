#include "common/config/load.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "common/caffe/solver.h"
#include "common/config/checks.h"
#include "common/config/document.h"
#include "common/config/schema.h"
#include "common/config/suggest.h"
#include "common/config/validate.h"

namespace paceline {
namespace {

using config::Fault;
using config::format_error;
using config::Given;
using config::Key;
using config::Place;
using config::schema;
using config::Value;

constexpr std::size_t kFileBytesMax = 4 << 20;  // larger is some other file

// One key with the value it was given.
struct Entry {
  const Key* key;
  Value value;
};

Status unknown_key(const std::string& path, const Place& place) {
  std::vector<std::string> paths;
  for (const Key& key : schema().keys) paths.push_back(key.path);
  for (const config::Section& section : schema().sections) paths.emplace_back(section.path);
  std::string expected = "a key of configs/reference.yaml";
  if (const std::string near = config::suggest(path, paths); !near.empty()) {
    expected += " (did you mean " + near + "?)";
  }
  return invalid_argument(format_error(place, path, "unknown key", "\"" + path + "\"", expected));
}

// Walks the sections of a document and collects its keys, in the order of the file. Unknown ones go into
// `unknown`; where that is not given, the first is an error.
Status collect(const Value& section, const std::string& path, std::vector<Entry>& entries,
               std::vector<std::string>* unknown = nullptr) {
  for (std::size_t i = 0; i < section.names.size(); ++i) {
    const Value& value = section.items[i];
    const std::string child = path.empty() ? section.names[i] : path + "." + section.names[i];
    if (const Key* key = schema().find(child)) {
      entries.push_back({key, value});
    } else if (!schema().is_section(child)) {
      if (unknown != nullptr) {
        unknown->push_back(child);
        continue;
      }
      return unknown_key(child, value.place);
    } else if (value.kind == Value::Kind::kMap) {
      PACELINE_RETURN_IF_ERROR(collect(value, child, entries, unknown));
    } else if (value.kind != Value::Kind::kNull) {  // a section with every line commented out is an empty one
      return invalid_argument(
          format_error(value.place, child, "wrong type", describe(value), "a section with keys of its own"));
    }
  }
  return Status::ok();
}

// Takes away what was given for `key` before, and what the file says in the other form of it: in epochs for what counts
// versions or iterations, and the other way round. A null alone takes back what there is.
void take_away(const Key* key, const Value& by, std::vector<Entry>& entries) {
  const auto has_value = [key](const Entry& entry) {
    return entry.key == key && entry.value.kind != Value::Kind::kNull &&
           (entry.value.kind != Value::Kind::kList || !entry.value.items.empty());
  };
  const bool also_other = by.kind != Value::Kind::kNull || std::ranges::any_of(entries, has_value);
  std::erase_if(entries, [&](const Entry& entry) {
    const bool is_other =
        entry.value.place.line != 0 && counted_key(entry.key->path) == counted_key(key->path);
    return entry.key == key || (also_other && is_other);
  });
}

// Adds `key.path=value`, in place of what was given for that key before.
Status add_override(const std::string& argument, std::vector<Entry>& entries) {
  const Place place{"command line", 0};
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid_argument(
        format_error(place, "", "not an override", "\"" + argument + "\"", "key.path=value"));
  }
  const std::string path = argument.substr(0, equals);
  const Key* key = schema().find(path);
  if (key == nullptr && schema().is_section(path)) {
    return invalid_argument(format_error(place, path, "a section, not a key", "\"" + argument + "\"",
                                         "one of its keys, as in " + path + ".key=value"));
  }
  if (key == nullptr) return unknown_key(path, place);
  PACELINE_ASSIGN_OR_RETURN(Value value, config::read_argument(argument.substr(equals + 1), path));
  take_away(key, value, entries);
  entries.push_back({key, std::move(value)});
  return Status::ok();
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad() || (file.gcount() == 0 && errno != 0)) {
    return not_found(path + ": cannot read the configuration, got \"" +
                     std::generic_category().message(errno) + "\", expected a YAML file");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return invalid_argument(path +
                            ": too large for a configuration, got more than 4 MiB, expected a YAML file");
  }
  return text;
}

// A value that no YAML could say, as a learning rate's factor of 2, at the line that says it.
Status check_values(const std::vector<std::string>& keys, const RunConfig& result, const Given& given) {
  for (const std::string& path : keys) {
    const Key* const key = schema().find(path);
    if (key == nullptr) continue;  // an element of a list
    PACELINE_ASSIGN_OR_RETURN(const Value value, config::read_argument(key->write(result), path));
    RunConfig ignored;
    const std::optional<Fault> wrong = key->read(value, ignored);
    if (!wrong) continue;
    // "[3].kernel": of a layer the line is that of the layer.
    const std::string element = path + wrong->within.substr(0, wrong->within.find(']') + 1);
    return invalid_argument(format_error(given.place_of(given.has(element) ? element : path),
                                         path + wrong->within, wrong->what, wrong->got, wrong->expected));
  }
  return Status::ok();
}

// What a Caffe solver says, for the keys that are not given. It stands in the configuration from here on, and
// the solver's file is not needed again.
Status take_caffe_solver(RunConfig& result, Given& given, std::vector<std::string>& notes) {
  if (result.train.caffe_solver.empty()) return Status::ok();
  const std::string file = std::exchange(result.train.caffe_solver, "");
  std::vector<std::string> found;
  const auto may_set = [&](const std::string& key, const std::string& source, int line) {
    if (given.has(key)) return false;
    given.add(key, Place{source, line});
    found.push_back(key);
    return true;
  };
  const Status taken = caffe::apply_solver(file, may_set, result, notes);
  if (taken.code() == StatusCode::kNotFound) {  // the solver, or the net that it names
    const std::string key = "train.caffe_solver";
    const std::string what = taken.message().substr(0, taken.message().find(", got "));
    return invalid_argument(format_error(given.place_of(key), key, what, file,
                                         "a Caffe solver, and beside it the net that it names"));
  }
  PACELINE_RETURN_IF_ERROR(taken);
  return check_values(found, result, given);
}

Result<RunConfig> config_of(const std::vector<Entry>& entries, const std::string& source, LoadFor what,
                            std::vector<std::string>& notes) {
  RunConfig result;
  Given given(source);
  for (const Entry& entry : entries) {
    const bool may_be_taken_back = entry.key->by_policy || config::has_readers(entry.key->path);
    if (may_be_taken_back && entry.value.kind == Value::Kind::kNull) continue;  // null: as if not given
    if (const std::optional<Fault> wrong = entry.key->read(entry.value, result)) {
      return invalid_argument(format_error(wrong->place, entry.key->path + wrong->within, wrong->what,
                                           wrong->got, wrong->expected));
    }
    given.add(entry.key->path, entry.value.place);
    if (entry.value.kind != Value::Kind::kList) continue;
    for (std::size_t i = 0; i < entry.value.items.size(); ++i) {
      given.add(entry.key->path + "[" + std::to_string(i) + "]", entry.value.items[i].place);
    }
  }
  config::resolve(result, given);
  PACELINE_RETURN_IF_ERROR(take_caffe_solver(result, given, notes));
  config::resolve_outer_rate(result, given);
  config::resolve_scale(result);
  PACELINE_RETURN_IF_ERROR(config::resolve_epochs(result, given, notes));
  PACELINE_RETURN_IF_ERROR(config::validate(result, given, what));
  for (std::string& warning : config::rate_warnings(result, given)) notes.push_back(std::move(warning));
  return result;
}

}  // namespace

Result<RunConfig> parse_config(std::string_view text, const std::string& source,
                               std::span<const std::string> overrides, LoadFor what,
                               std::vector<std::string>* notes) {
  PACELINE_ASSIGN_OR_RETURN(const Value root, config::read_document(text, source));
  std::vector<Entry> entries;
  PACELINE_RETURN_IF_ERROR(collect(root, "", entries));
  for (const std::string& argument : overrides) PACELINE_RETURN_IF_ERROR(add_override(argument, entries));
  std::vector<std::string> ignored;
  return config_of(entries, source, what, notes == nullptr ? ignored : *notes);
}

Result<RunConfig> load_config(const std::string& path, std::span<const std::string> overrides, LoadFor what,
                              std::vector<std::string>* notes) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  return parse_config(text, path, overrides, what, notes);
}

std::string source_of(const std::string& path, std::span<const std::string> overrides, std::string_view key) {
  const Result<std::string> text = read_file(path);
  const Result<Value> root = text ? config::read_document(*text, path) : text.status();
  std::vector<Entry> entries;
  Status read = root ? collect(*root, "", entries) : root.status();
  for (const std::string& argument : overrides) {
    if (read.is_ok()) read = add_override(argument, entries);
  }
  const auto found = std::find_if(entries.rbegin(), entries.rend(),
                                  [&](const Entry& entry) { return entry.key->path == key; });
  return read.is_ok() && found != entries.rend() ? to_string(found->value.place) : path;
}

Result<RecordedConfig> load_recorded_config(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  PACELINE_ASSIGN_OR_RETURN(const Value root, config::read_document(text, path));
  RecordedConfig recorded;
  std::vector<Entry> entries;
  PACELINE_RETURN_IF_ERROR(collect(root, "", entries, &recorded.unknown_keys));
  std::vector<std::string> ignored;
  PACELINE_ASSIGN_OR_RETURN(recorded.config, config_of(entries, path, LoadFor::kReading, ignored));
  for (const Key& key : schema().keys) {
    const bool there =
        std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) { return entry.key == &key; });
    if (!there) recorded.missing_keys.push_back(key.path);
  }
  return recorded;
}

bool RecordedConfig::has_key(std::string_view key) const {
  return std::find(missing_keys.begin(), missing_keys.end(), key) == missing_keys.end();
}

}  // namespace paceline
