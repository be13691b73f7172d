// What every function of the C interface ends with: a code, and a text that paceline_error() has; no exception leaves.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "common/status.h"
#include "include/paceline/paceline.h"

namespace paceline {

// Of the thread's last call that failed.
inline thread_local std::string error_text;

inline paceline_code code_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return PACELINE_OK;
    case StatusCode::kInvalidArgument:
      return PACELINE_INVALID_ARGUMENT;
    case StatusCode::kFailedPrecondition:
      return PACELINE_FAILED_PRECONDITION;
    case StatusCode::kNotFound:
      return PACELINE_NOT_FOUND;
    case StatusCode::kUnavailable:
      return PACELINE_UNAVAILABLE;
    case StatusCode::kDeadlineExceeded:
      return PACELINE_DEADLINE_EXCEEDED;
    case StatusCode::kResourceExhausted:
      return PACELINE_RESOURCE_EXHAUSTED;
    case StatusCode::kAborted:
      return PACELINE_ABORTED;
    case StatusCode::kOutOfOrder:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      return PACELINE_INTERNAL;
  }
  return PACELINE_INTERNAL;
}

inline paceline_code say(paceline_code code, std::string text) {
  error_text = std::move(text);
  return code;
}
inline paceline_code say(const Status& status) {
  return status.is_ok() ? PACELINE_OK : say(code_of(status.code()), status.message());
}

// `call` returns a paceline_code or a Status.
template <typename Call>
paceline_code guarded(const Call& call) noexcept {
  try {
    const auto ended = call();
    if constexpr (std::is_same_v<decltype(ended), const Status>) {
      return say(ended);
    } else {
      return ended;
    }
  } catch (const std::bad_alloc&) {
    return say(PACELINE_RESOURCE_EXHAUSTED, "no memory is left");
  } catch (const std::system_error& error) {
    return say(PACELINE_RESOURCE_EXHAUSTED, std::string("the system refuses: ") + error.what());
  } catch (const std::exception& error) {
    return say(PACELINE_INTERNAL, error.what());
  }
}

}  // namespace paceline
