// A struct as JSON and back, from one list of its keys, in the struct's namespace:
//
//   void fields(auto& io, Is<Point> auto& point) {
//     io.must("x", point.x);
//     io.if_any("name", point.name);
//   }
//
// JsonWriter makes {"x": 3} of Point{3, ""}, its keys in that order, and JsonReader reads it back.
//
//   must      is always written, and has to be there
//   may       is always written, but older programs have not written it
//   if_any    is written unless it is `nothing` (an empty text or list, false, 0, no value), and read where it is there
//   derived   is written for others, and not read
//   part      an optional struct whose keys lie among the others: it is there where the first of them is
//   list, object   are written and read by a function of their own
//
// Values: what nlohmann's library knows, clocks, workers ("1.2"), thresholds, durations (ns), structs with fields,
// and optionals (null) and vectors of those. Numbers that are not finite are null. Thread: any.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/text/printable.h"

namespace paceline {

template <typename T, typename Struct>
concept Is = std::same_as<std::remove_const_t<T>, Struct>;
template <typename T>
concept ClockLike = Is<T, Version> || Is<T, Clock> || Is<T, Staleness>;
template <typename T>
concept Optional = Is<T, std::optional<typename T::value_type>>;
template <typename T>
concept Vector = Is<T, std::vector<typename T::value_type>>;

class JsonWriter {
 public:
  using Json = nlohmann::ordered_json;

  // `infinite`: what a threshold without bound is written as.
  explicit JsonWriter(Json infinite = nullptr) : infinite_(std::move(infinite)) {}
  const Json& json() const { return json_; }

  void must(const char* key, const auto& value) { json_[key] = value_of(value); }
  void may(const char* key, const auto& value) { must(key, value); }
  void derived(const char* key, const auto& value) { must(key, value); }
  template <typename T>
  void if_any(const char* key, const T& value, const T& nothing = {}) {
    bool is_any = false;
    if constexpr (Optional<T>) {
      is_any = value.has_value();
    } else if constexpr (Vector<T>) {
      is_any = !value.empty();
    } else {
      is_any = value != nothing;
    }
    if (is_any) must(key, value);
  }
  void part(const char*, const auto& optional, const auto& fields_of) {
    if (optional) fields_of(*this, *optional);
  }
  void list(const char* key, const auto& values, const auto& fields_of) {
    Json list = Json::array();
    for (const auto& value : values) list.push_back(made([&](JsonWriter& one) { fields_of(one, value); }));
    json_[key] = std::move(list);
  }
  void object(const char* key, const auto& fields_of) { json_[key] = made(fields_of); }

 private:
  Json made(const auto& fields_of) const {
    JsonWriter one(infinite_);
    fields_of(one);
    return std::move(one.json_);
  }

  template <typename T>
  Json value_of(const T& value) const {
    if constexpr (ClockLike<T>) {
      return value.value;
    } else if constexpr (Is<T, Threshold>) {
      return value.is_infinite() ? infinite_ : Json(value.value());
    } else if constexpr (Is<T, WorkerId>) {
      return to_string(value);
    } else if constexpr (Is<T, std::chrono::nanoseconds>) {
      return value.count();
    } else if constexpr (Optional<T>) {
      return value ? value_of(*value) : Json(nullptr);
    } else if constexpr (Vector<T>) {
      Json list = Json::array();
      for (const auto& each : value) list.push_back(value_of(each));
      return list;
    } else if constexpr (requires(JsonWriter& io) { fields(io, value); }) {
      return made([&](JsonWriter& one) { fields(one, value); });
    } else {
      return value;
    }
  }

  Json infinite_;
  Json json_ = Json::object();
};

class JsonReader {
 public:
  using Json = nlohmann::ordered_json;

  // `json` outlives it. Where `lacking` is given, a key that is missing or of another type is named there and
  // its member left as it is; else, and for what lies deeper, it throws Json::exception.
  explicit JsonReader(const Json& json, Json infinite = nullptr, std::vector<std::string>* lacking = nullptr)
      : json_(json), infinite_(std::move(infinite)), lacking_(lacking) {}

  void must(const char* key, auto& into) {
    attempt(key, into, [&](auto& value) { read(json_.at(key), value); });
  }
  void may(const char* key, auto& into) {
    if (json_.contains(key)) must(key, into);
  }
  template <typename T>
  void if_any(const char* key, T& into, const T& = {}) {
    may(key, into);
  }
  void derived(const char*, const auto&) {}
  void part(const char* key, auto& optional, const auto& fields_of) {
    if (!json_.contains(key)) return;
    attempt(key, optional, [&](auto& value) {
      JsonReader whole(json_, infinite_);
      fields_of(whole, value.emplace());
    });
  }
  void list(const char* key, auto& into, const auto& fields_of) {
    attempt(key, into, [&](auto& values) {
      for (const Json& each : array(json_.at(key))) {
        JsonReader one(each, infinite_);
        fields_of(one, values.emplace_back());
      }
    });
  }
  void object(const char* key, const auto& fields_of) {
    JsonReader one(json_.at(key), infinite_);
    fields_of(one);
  }

 private:
  template <typename T>
  void attempt(const char* key, T& into, const auto& read_into) {
    T value = into;
    try {
      read_into(value);
    } catch (const Json::exception&) {
      if (lacking_ == nullptr) throw;
      lacking_->push_back(key);
      return;
    }
    into = std::move(value);
  }

  template <typename T>
  void read(const Json& json, T& into) const {
    if constexpr (ClockLike<T>) {
      into = T(json.get<std::int64_t>());
    } else if constexpr (Is<T, Threshold>) {
      into = json == infinite_ ? Threshold::infinite() : Threshold(json.get<std::int64_t>());
    } else if constexpr (Is<T, WorkerId>) {
      const std::string text = json.get<std::string>();
      const std::optional<WorkerId> worker = parse_worker(text);
      if (!worker) fail("a worker must be like \"1.2\", but is \"" + quotable(text) + "\"", json);
      into = *worker;
    } else if constexpr (Is<T, std::chrono::nanoseconds>) {
      into = std::chrono::nanoseconds(json.get<std::int64_t>());
    } else if constexpr (Optional<T>) {
      into.reset();
      if (!json.is_null()) read(json, into.emplace());
    } else if constexpr (Vector<T>) {
      into.clear();
      for (const Json& each : array(json)) read(each, into.emplace_back());
    } else if constexpr (requires(JsonReader& io) { fields(io, into); }) {
      JsonReader one(json, infinite_);
      fields(one, into);
    } else {
      into = json.get<T>();
    }
  }

  static const Json& array(const Json& json) {
    if (!json.is_array()) fail(std::string("type must be array, but is ") + json.type_name(), json);
    return json;
  }
  [[noreturn]] static void fail(const std::string& what, const Json& json) {
    throw Json::type_error::create(302, what, &json);
  }

  const Json& json_;
  const Json infinite_;
  std::vector<std::string>* const lacking_;
};

}  // namespace paceline
