// What the files of the C interface have in common: how a call ends, which configuration it is about, and threads
// that leave the caller's signals alone.
#pragma once

#include <signal.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <type_traits>

#include "common/config/load.h"
#include "common/config/run_config.h"
#include "common/status.h"
#include "include/paceline/paceline.h"

namespace paceline {

// Ends a call of the calling thread: the text is what paceline_error() says, and the code is returned.
paceline_code end_call(paceline_code code, std::string text);
paceline_code end_call(const Status& status);
const char* last_error();

// `call` returns a paceline_code or a Status. No exception leaves.
template <typename Call>
paceline_code guarded(const Call& call) noexcept {
  try {
    const auto ended = call();
    if constexpr (std::is_same_v<decltype(ended), const Status>) {
      return end_call(ended);
    } else {
      return ended;
    }
  } catch (const std::bad_alloc&) {
    return end_call(PACELINE_RESOURCE_EXHAUSTED, "no memory is left");
  } catch (const std::system_error& error) {
    return end_call(PACELINE_RESOURCE_EXHAUSTED, std::string("the system refuses: ") + error.what());
  } catch (const std::exception& error) {
    return end_call(PACELINE_INTERNAL, error.what());
  }
}

// Threads that start meanwhile take no signals: those are the caller's to handle, on threads of the
// caller's. A write that nobody reads any more is an error there, and no SIGPIPE that ends the process.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// The configuration that the options name, for a node of a run or, kReading, for its data alone. `of_call`: whose
// options they are. Errors: kInvalidArgument no options, not exactly one of file and text, or no such node; those of
// load_config(), and for a node of check_daemon_config().
Result<RunConfig> config_of(const paceline_options* options, const char* of_call, LoadFor what);

// A process that calls the library is one worker. Errors: kInvalidArgument.
Status check_one_worker(const RunConfig& config);

}  // namespace paceline
