// Reads the fields of one message from the network, and remembers the first one that has the wrong form. A
// reader keeps reading after a fault, with a harmless value, so that each message's decoding is a plain list
// of its fields; whoever uses the struct asks status() first.
//
//   Fields f("Push");
//   push.offset = f.number("offset", in.offset(), 0, kFloatsMax);
//   f.status()   // kInvalidArgument "Push.offset: got -4, expected 0 to 1099511627776"
//
// Thread: one.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/status.h"
#include "common/wire/text.h"

namespace paceline::wire {

class Fields {
 public:
  // `message` is the message's name for errors; must outlive this.
  explicit Fields(const char* message) : message_(message) {}

  const Status& status() const { return status_; }
  bool is_ok() const { return status_.is_ok(); }

  void refuse(const char* field, const std::string& got, const std::string& expected) {
    if (!status_.is_ok()) return;
    status_ =
        invalid_argument(std::string(message_) + "." + field + ": got " + got + ", expected " + expected);
  }

  // `value` in [min, max]; min otherwise.
  std::int64_t number(const char* field, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value >= min && value <= max) return value;
    refuse(field, std::to_string(value), std::to_string(min) + " to " + std::to_string(max));
    return min;
  }

  // A finite number >= 0.
  double finite(const char* field, double value) {
    if (std::isfinite(value) && value >= 0.0) return value;
    refuse(field, std::to_string(value), "a finite number >= 0");
    return 0.0;
  }

  // Printable UTF-8 of min to max bytes.
  std::string text(const char* field, const std::string& value, std::int64_t min, std::int64_t max) {
    const auto size = static_cast<std::int64_t>(value.size());
    if (size < min || size > max) {
      refuse(field, std::to_string(size) + " bytes",
             std::to_string(min) + " to " + std::to_string(max) + " bytes");
      return {};
    }
    if (is_printable(value)) return value;
    refuse(field, "bytes that are not printable", "UTF-8 without control characters");
    return {};
  }

  // Whether a part that must be there is there.
  bool present(const char* field, bool is_present) {
    if (!is_present) refuse(field, "nothing", "a value");
    return is_present;
  }

  // Whether a list has at least min and at most max elements; only then may it be read.
  bool length(const char* field, int size, std::int64_t min, std::int64_t max) {
    if (size >= min && size <= max) return true;
    refuse(field, std::to_string(size) + " elements", std::to_string(min) + " to " + std::to_string(max));
    return false;
  }

 private:
  const char* message_;
  Status status_;
};

}  // namespace paceline::wire
