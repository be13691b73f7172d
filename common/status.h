// Status and Result<T>: how a fault of the world (a peer gone, bad bytes, a missing file) travels to whoever
// can say something useful about it. Our own bugs are not Statuses: they are PACELINE_ASSERTs
// (common/assert.h).
//
// Header-only, so that the pure core can use it and still link to nothing.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {

enum class StatusCode {
  kOk,
  kInvalidArgument,     // somebody handed us something malformed: wrong YAML, wrong length, wrong type
  kFailedPrecondition,  // well-formed, but not allowed in the present state
  kOutOfOrder,          // a clock that is not the worker's next
  kNotFound,            // a missing file, an unknown peer
  kUnavailable,         // a peer or a resource that is not there now
  kDeadlineExceeded,    // silence for longer than the agreed time
  kDataLoss,            // truncated or corrupted bytes
  kResourceExhausted,   // a bound was reached: queue, memory, disk
  kAborted,             // the run was stopped on purpose
  kInternal,            // a library failed in a way we cannot explain further
};

// The code's name as it is printed and sent over the wire, e.g. "INVALID_ARGUMENT".
constexpr const char* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kOutOfOrder:
      return "OUT_OF_ORDER";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kAborted:
      return "ABORTED";
    case StatusCode::kInternal:
      return "INTERNAL";
  }
  return "UNKNOWN";
}

// A code and one line that says who, what, got, expected. Thread: a value, freely copied.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }

  bool is_ok() const { return code_ == StatusCode::kOk; }
  explicit operator bool() const { return is_ok(); }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // Puts "<context>: " before the message; an OK status stays OK.
  Status with_context(const std::string& context) && {
    if (!is_ok()) message_ = context + ": " + message_;
    return std::move(*this);
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
inline Status failed_precondition(std::string m) { return {StatusCode::kFailedPrecondition, std::move(m)}; }
inline Status out_of_order(std::string message) { return {StatusCode::kOutOfOrder, std::move(message)}; }
inline Status not_found(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
inline Status unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
inline Status deadline_exceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
inline Status data_loss(std::string message) { return {StatusCode::kDataLoss, std::move(message)}; }
inline Status resource_exhausted(std::string m) { return {StatusCode::kResourceExhausted, std::move(m)}; }
inline Status aborted(std::string message) { return {StatusCode::kAborted, std::move(message)}; }
inline Status internal_error(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

// A value, or the Status that says why there is none. Reading the value of a failed Result is our own bug.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit so that `return value;` works
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit so that `return status;` works
    PACELINE_ASSERT(!status_.is_ok(), "a Result without a value needs an error");
  }

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  const Status& status() const { return status_; }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& checked() {
    PACELINE_ASSERT(value_.has_value(), status_.message());
    return *value_;
  }
  Status status_;
  std::optional<T> value_;
};

// Returns the Status of `expr` from the enclosing function when it is an error.
#define PACELINE_RETURN_IF_ERROR(expr)                                                                    \
  do {                                                                                                    \
    if (::paceline::Status paceline_status_ = (expr); !paceline_status_.is_ok()) return paceline_status_; \
  } while (false)

#define PACELINE_CONCAT_INNER(a, b) a##b
#define PACELINE_CONCAT(a, b) PACELINE_CONCAT_INNER(a, b)

// PACELINE_ASSIGN_OR_RETURN(auto file, open(path)): the value, or return its Status from the enclosing
// function.
#define PACELINE_ASSIGN_OR_RETURN(lhs, expr) \
  PACELINE_ASSIGN_OR_RETURN_INNER(PACELINE_CONCAT(paceline_result_, __LINE__), lhs, expr)
#define PACELINE_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                    \
  if (!result.is_ok()) return result.status();             \
  lhs = std::move(result).value()

}  // namespace paceline
