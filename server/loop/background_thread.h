// BackgroundThread: a Background with one thread, which the first work starts.
//
// Thread: the loop's.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "common/ticks.h"
#include "server/loop/background.h"

namespace paceline::server {

class BackgroundThread final : public Background {
 public:
  // `loop` calls each `done`, and `after_each` after it; it outlives this.
  BackgroundThread(boost::asio::io_context& loop, std::function<void()> after_each)
      : loop_(loop), after_each_(std::move(after_each)) {}
  // Waits until all work is done. Nobody is told of it any more.
  ~BackgroundThread() override {
    if (pool_) pool_->join();
  }
  BackgroundThread(const BackgroundThread&) = delete;

  using Background::run;
  void run(Work work, Done done, Here here) override {
    if (!pool_) pool_ = std::make_unique<boost::asio::thread_pool>(1);
    boost::asio::post(
        *pool_, [this, work = std::move(work), done = std::move(done), here = std::move(here)]() mutable {
          const Status result = std::exchange(work, {})();  // what it worked on goes before anybody is told
          boost::asio::post(loop_, [this, result, done = std::move(done), here = std::move(here)] {
            if (here) here(result, result);
            done(result, steady_now());
            after_each_();
          });
        });
  }

 private:
  boost::asio::io_context& loop_;
  const std::function<void()> after_each_;
  std::unique_ptr<boost::asio::thread_pool> pool_;
};

}  // namespace paceline::server
