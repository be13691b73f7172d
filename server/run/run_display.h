// RunDisplay: what a server shows of its run: on the terminal, for run.http, and in the log what does not come for
// longer than usual (common/log/stall_log.h). Made once a second where somebody may look.
//
// Thread: the server's loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/live/run_status.h"
#include "common/log/stall_log.h"
#include "common/pause.h"
#include "server/http/http_server.h"
#include "server/loop/server_setup.h"
#include "server/run/status_display.h"

namespace paceline::server {

class RunDisplay {
 public:
  // How the run goes now, as the server says it.
  using Status = std::function<RunStatus(Ticks now)>;
  // `setup` outlives this.
  RunDisplay(const ServerSetup& setup, Status status)
      : setup_(setup),
        status_(std::move(status)),
        display_(setup.options.progress, setup.options.progress_style, terminal_size) {}

  // From now on there is something to show. Of the authority that serves: errors of run.http.
  void begin(Ticks now) { next_status_ = next_check_ = now; }
  [[nodiscard]] paceline::Status open_http(Ticks now);
  std::string http_address() const { return http_ ? http_->address() : ""; }

  // In each tick. `trains`: training is under way; as it begins it is shown, too, for that says that everybody
  // is there.
  void update(bool trains, Ticks now);
  // A last time: nothing is waited for any more.
  void end(Ticks now);

  // In each tick: waits that have become long.
  void check_stalls(const std::function<std::vector<Wait>()>& waits, Ticks now);
  // Somebody asks what is waited for.
  void explain(const std::vector<Wait>& waits, Ticks now);
  // What the status says of them.
  std::string stall() const { return stalls_.standing(); }
  void discount_pause(const Pause& pause) { stalls_.discount_pause(pause); }

 private:
  bool is_shown() const { return setup_.is_authority() && (http_ || setup_.options.progress != nullptr); }
  void show(bool trains, Ticks now);

  const ServerSetup& setup_;
  const Status status_;
  StatusDisplay display_;
  StallLog stalls_;
  std::unique_ptr<HttpServer> http_;  // the authority's, with run.http
  Ticks next_status_;
  Ticks next_check_;  // for stalls
  bool training_shown_ = false;
};

}  // namespace paceline::server
