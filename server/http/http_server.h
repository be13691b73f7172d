// HttpServer: the run shown over HTTP/1.1 while it goes (answers.h says what at which path). It never holds
// up the run: it has a thread of its own, and the server's loop gives it immutable states and waits for
// nothing.
//
//   loop    publish(state) ──────> newest state, one wake-up however often
//   thread  accept -> read request (bounded, 10 s) -> answer (30 s) -> next request or end
//                                  /events: the newest state each time one comes; a reader that has not taken
//                                  one within 10 s is dropped, one that lags behind is sent only the newest
//
// Everything has a bound (Limits). Only http_server.cc sees Boost.Beast.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"
#include "server/http/live_state.h"

namespace paceline::server {

class HttpServer {
 public:
  struct Limits {
    bool this_machine_only = false;  // refuse an address that other machines reach, whatever its name
    std::size_t connections = 64;    // further ones are closed at once
    std::size_t header_bytes = 8192;
    std::chrono::milliseconds read{10'000};    // for a whole request, and between two of them
    std::chrono::milliseconds answer{30'000};  // for a whole answer to leave
    std::chrono::milliseconds event{10'000};   // for one event to leave
  };

  // Listens at "host:port" (port 0: the system chooses) and answers from `first` on. Errors: kUnavailable
  // naming the address and why it cannot be had, or may not.
  static Result<std::unique_ptr<HttpServer>> start(const std::string& address, LivePages pages,
                                                   LiveState first, Limits limits);
  // Ends all connections. Before that it waits for:
  //   what the thread does just then, at most one page to be made
  //   where there are pages, at most two seconds, until each reader of events has asked for the page's data
  //     once more: the run's files are complete now
  //   half a second, for readers of events to take the last status
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  // "127.0.0.1:8080", with the port that was chosen.
  const std::string& address() const;

  // From now on this is what is shown. Waits for nobody. Thread: the loop's.
  void publish(LiveState state);

  // What has ended the endpoint's thread before its time: nobody is answered any more. Nothing while it goes.
  std::optional<std::string> fault() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::server
