// Numbers, durations, sizes and texts; the layers of a network are in layer_domain.cc.
#include "common/config/domain.h"

#include <array>
#include <charconv>
#include <cmath>

namespace paceline::config {
namespace {

// The whole of `text` as a T; nothing when a character is left over or the number does not fit.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_plain_scalar(const Value& value) { return value.kind == Value::Kind::kScalar && !value.quoted; }

bool looks_like_a_number(const Value& value) {
  return is_plain_scalar(value) && parse_number<double>(value.text).has_value();
}

// NaN or infinity, in YAML's spelling (.nan, -.inf) or in C's.
bool is_not_finite(const std::string& text) {
  const std::size_t start = text.find_first_not_of("+-.");
  if (start == std::string::npos) return false;
  const auto number = parse_number<double>(std::string_view(text).substr(start));
  return number && !std::isfinite(*number);
}

std::string write_double(double number) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  PACELINE_ASSERT(error == std::errc(), "32 characters hold any double");
  return {buffer.data(), end};
}

// Why a scalar is no whole number that fits: 1e3 and 2.0 are refused for how they are written.
const char* not_whole(const Value& value) {
  if (!looks_like_a_number(value)) return "wrong type";
  const bool digits = value.text.find_first_not_of("0123456789", value.text[0] == '-') == std::string::npos;
  return digits ? "out of range" : "not written as a whole number";
}

template <typename T>
Domain<T> whole_number(T low, T high, const std::string& expected) {
  return {expected,
          [=](const Value& value, T& field) -> std::optional<Fault> {
            const auto number = is_plain_scalar(value) ? parse_number<T>(value.text) : std::nullopt;
            if (!number) return fault(value, not_whole(value), expected);
            if (*number < low || *number > high) return fault(value, "out of range", expected);
            field = *number;
            return std::nullopt;
          },
          [](const T& field) { return std::to_string(field); }};
}

// A number and the word after it: "1.5s" is 1.5 and "s".
struct Quantity {
  double number = 0.0;
  std::optional<std::int64_t> whole;  // exact, when written without a fraction
  std::string unit;
};
std::optional<Quantity> parse_quantity(const Value& value) {
  if (!is_plain_scalar(value)) return std::nullopt;
  const std::string& text = value.text;
  const std::size_t digits = std::min(text.find_first_not_of("0123456789.-"), text.size());
  const std::string_view number = std::string_view(text).substr(0, digits);
  std::size_t unit = digits;
  while (unit < text.size() && text[unit] == ' ') ++unit;
  const auto parsed = parse_number<double>(number);
  if (!parsed || !std::isfinite(*parsed)) return std::nullopt;
  return Quantity{*parsed, parse_number<std::int64_t>(number), text.substr(unit)};
}

struct Unit {
  const char* name;
  std::int64_t size;
};
// Largest first: writing takes the first that divides.
constexpr std::array<Unit, 6> kDurationUnits{{{"h", 3'600'000'000'000},
                                              {"m", 60'000'000'000},
                                              {"s", 1'000'000'000},
                                              {"ms", 1'000'000},
                                              {"us", 1'000},
                                              {"ns", 1}}};
constexpr std::array<Unit, 4> kByteUnits{{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}};

// number x unit, or nothing when the unit is unknown or the product is no int64.
template <std::size_t N>
std::optional<std::int64_t> in_base_units(const Quantity& quantity, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (quantity.unit != unit.name) continue;
    std::int64_t exact = 0;
    if (quantity.whole && !__builtin_mul_overflow(*quantity.whole, unit.size, &exact)) return exact;
    const double product = quantity.number * static_cast<double>(unit.size);
    if (std::abs(product) < 9e18) return static_cast<std::int64_t>(std::llround(product));
  }
  return std::nullopt;
}

template <std::size_t N>
std::string write_quantity(std::int64_t amount, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (amount % unit.size == 0 && (amount != 0 || unit.size == units[N - 1].size)) {
      return std::to_string(amount / unit.size) + unit.name;
    }
  }
  return std::to_string(amount);
}

}  // namespace

Domain<std::int64_t> whole(std::int64_t low, std::int64_t high) {
  return whole_number<std::int64_t>(
      low, high, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

Domain<std::uint32_t> whole32(std::uint32_t low, std::uint32_t high) {
  return whole_number<std::uint32_t>(
      low, high, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
}

Domain<std::uint64_t> any_uint64() {
  return whole_number<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max(),
                                     "a whole number from 0 to 18446744073709551615");
}

Domain<double> real(Interval in) {
  std::string expected = "a number";
  if (std::isfinite(in.low)) expected += (in.open_low ? " above " : " at least ") + write_double(in.low);
  if (std::isfinite(in.low) && std::isfinite(in.high)) expected += " and";
  if (std::isfinite(in.high)) expected += (in.open_high ? " below " : " at most ") + write_double(in.high);
  return {expected,
          [=](const Value& value, double& field) -> std::optional<Fault> {
            if (is_plain_scalar(value) && is_not_finite(value.text)) {
              return fault(value, "not a finite number", expected);
            }
            const auto number = is_plain_scalar(value) ? parse_number<double>(value.text) : std::nullopt;
            if (!number) return fault(value, "wrong type", expected);
            const bool too_low = in.open_low ? *number <= in.low : *number < in.low;
            const bool too_high = in.open_high ? *number >= in.high : *number > in.high;
            if (too_low || too_high) return fault(value, "out of range", expected);
            field = *number;
            return std::nullopt;
          },
          write_double};
}

std::string write_duration(Duration d) { return write_quantity(d.count(), kDurationUnits); }

Domain<Duration> duration(Duration low, Duration high) {
  const std::string expected = "a duration from " + write_duration(low) + " to " + write_duration(high) +
                               " with its unit (ns us ms s m h)";
  return {expected,
          [=](const Value& value, Duration& field) -> std::optional<Fault> {
            const auto quantity = parse_quantity(value);
            if (!quantity) return fault(value, "wrong type", expected);
            if (quantity->unit.empty()) return fault(value, "a duration without a unit", expected);
            const auto ns = in_base_units(*quantity, kDurationUnits);
            if (!ns) return fault(value, "not a duration", expected);
            if (Duration(*ns) < low || Duration(*ns) > high) return fault(value, "out of range", expected);
            field = Duration(*ns);
            return std::nullopt;
          },
          write_duration};
}

Domain<std::int64_t> bytes(std::int64_t low, std::int64_t high, std::int64_t multiple) {
  const std::string expected = "a multiple of " + std::to_string(multiple) + " bytes from " +
                               write_quantity(low, kByteUnits) + " to " + write_quantity(high, kByteUnits) +
                               " (plain, or with KiB, MiB, GiB)";
  return {expected,
          [=](const Value& value, std::int64_t& field) -> std::optional<Fault> {
            const auto quantity = parse_quantity(value);
            const auto amount = quantity ? in_base_units(*quantity, kByteUnits) : std::nullopt;
            if (!amount) return fault(value, "wrong type", expected);
            if (*amount < low || *amount > high || *amount % multiple != 0) {
              return fault(value, "impossible size", expected);
            }
            field = *amount;
            return std::nullopt;
          },
          [](const std::int64_t& field) { return write_quantity(field, kByteUnits); }};
}

Domain<bool> boolean() {
  return {"true or false",
          [](const Value& value, bool& field) -> std::optional<Fault> {
            if (!is_plain_scalar(value) || (value.text != "true" && value.text != "false")) {
              return fault(value, "wrong type", "true or false");
            }
            field = value.text == "true";
            return std::nullopt;
          },
          [](const bool& field) { return std::string(field ? "true" : "false"); }};
}

Domain<std::string> text(std::string expected, std::function<std::string(const std::string&)> check) {
  return {expected,
          [=](const Value& value, std::string& field) -> std::optional<Fault> {
            if (value.kind != Value::Kind::kScalar) return fault(value, "wrong type", expected);
            for (char c : value.text) {
              if (static_cast<unsigned char>(c) < 0x20) return fault(value, "a control character", expected);
            }
            if (std::string wrong = check(value.text); !wrong.empty()) return fault(value, wrong, expected);
            field = value.text;
            return std::nullopt;
          },
          [](const std::string& field) { return quote(field); }};
}

Domain<std::string> one_of(std::vector<std::string> words) {
  const std::string expected = alternatives(words);
  return {expected,
          [=](const Value& value, std::string& field) -> std::optional<Fault> {
            for (const std::string& word : words) {
              if (value.kind != Value::Kind::kScalar || value.text != word) continue;
              field = word;
              return std::nullopt;
            }
            return fault(value, "unknown choice", expected);
          },
          [](const std::string& field) { return field; }};
}

std::string wrong_path(const std::string& given) {
  const bool home = given.starts_with("~/") || given == "~";
  return home ? "a path from ~, which a shell expands and nobody else" : "";
}

Domain<std::string> path_or_null() {
  const std::string expected = "a path, or null";
  const Domain<std::string> path = text(expected, [](const std::string& given) {
    return given.empty() ? std::string("an empty path") : wrong_path(given);
  });
  return {
      expected,
      [path](const Value& value, std::string& field) -> std::optional<Fault> {
        if (value.kind != Value::Kind::kNull) return path.read(value, field);
        field.clear();
        return std::nullopt;
      },
      [path](const std::string& field) { return field.empty() ? std::string("null") : path.write(field); }};
}

std::string alternatives(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " | ") + word;
  return joined;
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace paceline::config
