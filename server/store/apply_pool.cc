#include "server/store/apply_pool.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <mutex>

namespace paceline::server {

struct ApplyPool::Helpers {
  explicit Helpers(std::size_t threads) : pool(threads) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t busy = 0;
  boost::asio::thread_pool pool;  // last: its threads use what stands above
};

ApplyPool::ApplyPool(std::size_t threads) : threads_(std::max<std::size_t>(1, threads)) {}
ApplyPool::ApplyPool(ApplyPool&&) noexcept = default;
ApplyPool::~ApplyPool() = default;

void ApplyPool::run(std::int64_t count, const std::function<void(std::size_t, std::int64_t)>& work) noexcept {
  if (threads_ == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) work(0, i);
    return;
  }
  if (!helpers_) helpers_ = std::make_unique<Helpers>(threads_ - 1);
  std::atomic<std::int64_t> next{0};
  const auto take_blocks = [&](std::size_t thread) noexcept {
    for (std::int64_t i = next++; i < count; i = next++) work(thread, i);
  };
  helpers_->busy = threads_ - 1;  // nobody else is here: the last run() has waited for all of them
  for (std::size_t thread = 1; thread < threads_; ++thread) {
    boost::asio::post(helpers_->pool, [&take_blocks, helpers = helpers_.get(), thread] {
      take_blocks(thread);
      const std::lock_guard lock(helpers->mutex);
      if (--helpers->busy == 0) helpers->changed.notify_one();
    });
  }
  take_blocks(0);
  std::unique_lock lock(helpers_->mutex);
  helpers_->changed.wait(lock, [this] { return helpers_->busy == 0; });
}

}  // namespace paceline::server
