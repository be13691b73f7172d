// Domain<T>: the set of values a field may have, and how one is read from YAML, written back, and described.
// Domains compose: list_of(real(...)), or_null(duration(...)). A row of the schema is a field, a Domain and
// words. Internal to common/config, and to sweep/ (quote()).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/names.h"
#include "common/config/run_config.h"
#include "common/config/value.h"

namespace paceline::config {

template <typename T>
struct Domain {
  // What is accepted, to stand after "expected": "a whole number from 1 to 4096".
  std::string expected;
  // Sets the field, or says what is wrong and leaves it alone.
  std::function<std::optional<Fault>(const Value&, T&)> read;
  // YAML in flow style which `read` turns into the same value.
  std::function<std::string(const T&)> write;
};

// Whole numbers in [low, high], in plain digits.
Domain<std::int64_t> whole(std::int64_t low, std::int64_t high);
Domain<std::uint32_t> whole32(std::uint32_t low, std::uint32_t high);
Domain<std::uint64_t> any_uint64();

// Finite numbers between two ends, each of which belongs to the interval or does not.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;
  bool open_high = false;
};
Domain<double> real(Interval interval);

// A number and its unit, ns | us | ms | s | m | h, in [low, high]: `250ms`, `1.5s`. A bare number is refused.
Domain<Duration> duration(Duration low, Duration high);
// "1500ms": the largest unit that divides it.
std::string write_duration(Duration d);

// Bytes in [low, high], plain or with KiB | MiB | GiB, a multiple of `multiple`.
Domain<std::int64_t> bytes(std::int64_t low, std::int64_t high, std::int64_t multiple);

Domain<bool> boolean();
// What is wrong with a path; empty: nothing that can be said without looking.
std::string wrong_path(const std::string& given);
// Any text on one line; `check` says what is wrong with one, or returns "".
Domain<std::string> text(std::string expected, std::function<std::string(const std::string&)> check);
Domain<std::string> one_of(std::vector<std::string> words);
// One element of train.layers, with the defaults that depend on its kind filled in.
Domain<LayerConfig> layer();
// What a layer's weights or biases begin with.
Domain<FillerConfig> filler();
// One element of simulate.events.
Domain<ClusterEvent> cluster_event();
// cluster.nodes (in the fields: nodes and nodes_at_start): a number, or {min: 2, max: 8}.
Domain<ClusterSection> node_counts();
// A path, or null (in the field: empty).
Domain<std::string> path_or_null();

// One element of sync.stages.
Domain<PolicyStage> policy_stage();

// "a | b | c"
std::string alternatives(const std::vector<std::string>& words);
// The text in double quotes, escaped for YAML.
std::string quote(std::string_view text);

inline Fault fault(const Value& value, std::string what, std::string expected) {
  return {value.place, "", std::move(what), describe(value), std::move(expected)};
}

// One of an enum's spellings (common/config/names.h): all, or those for which `is_one` holds.
template <typename E>
Domain<E> choice(bool (*is_one)(E) = [](E) { return true; }) {
  std::vector<std::string> words;
  for (const auto& [value, name] : EnumNames<E>::table) {
    if (is_one(value)) words.emplace_back(name);
  }
  const std::string expected = alternatives(words);
  return {expected,
          [expected, is_one](const Value& value, E& field) -> std::optional<Fault> {
            const std::optional<E> found =
                value.kind == Value::Kind::kScalar ? named<E>(value.text) : std::nullopt;
            if (!found || !is_one(*found)) return fault(value, "unknown choice", expected);
            field = *found;
            return std::nullopt;
          },
          [](const E& field) { return std::string(name_of(field)); }};
}

template <typename T>
Domain<std::optional<T>> or_null(Domain<T> domain) {
  const std::string expected = domain.expected + ", or null";
  return {
      expected,
      [domain, expected](const Value& value, std::optional<T>& field) -> std::optional<Fault> {
        if (value.kind == Value::Kind::kNull) {
          field.reset();
          return std::nullopt;
        }
        T inner{};
        if (auto wrong = domain.read(value, inner)) return wrong;
        field = std::move(inner);
        return std::nullopt;
      },
      [domain](const std::optional<T>& field) { return field ? domain.write(*field) : std::string("null"); }};
}

template <typename T>
Domain<std::vector<T>> list_of(Domain<T> domain) {
  const std::string expected = "a list, each element " + domain.expected;
  return {expected,
          [domain, expected](const Value& value, std::vector<T>& field) -> std::optional<Fault> {
            if (value.kind != Value::Kind::kList) return fault(value, "wrong type", expected);
            std::vector<T> elements;
            for (std::size_t i = 0; i < value.items.size(); ++i) {
              T element{};
              if (auto wrong = domain.read(value.items[i], element)) {
                wrong->within = "[" + std::to_string(i) + "]" + wrong->within;
                return wrong;
              }
              elements.push_back(std::move(element));
            }
            field = std::move(elements);
            return std::nullopt;
          },
          [domain](const std::vector<T>& field) {
            std::string list;
            for (const T& element : field) list += (list.empty() ? "" : ", ") + domain.write(element);
            return "[" + list + "]";
          }};
}

// `4`, or `[1, 2, 3]`: one value for all, or a list that has one for each. How many that are, a check of the
// whole configuration knows (check_one_or_each). In the field: never empty.
template <typename T>
Domain<std::vector<T>> one_or_each(Domain<T> domain, const std::string& of_what) {
  const std::string expected = domain.expected + "; or a list of such, one for each " + of_what;
  const Domain<std::vector<T>> list = list_of(domain);
  return {expected,
          [domain, list, expected](const Value& value, std::vector<T>& field) -> std::optional<Fault> {
            if (value.kind == Value::Kind::kList) {
              return value.items.empty() ? fault(value, "an empty list", expected) : list.read(value, field);
            }
            T all{};
            if (auto wrong = domain.read(value, all)) {
              wrong->expected = expected;
              return wrong;
            }
            field.assign(1, std::move(all));
            return std::nullopt;
          },
          [domain, list](const std::vector<T>& field) {
            return field.size() == 1 ? domain.write(field.front()) : list.write(field);
          }};
}

}  // namespace paceline::config
