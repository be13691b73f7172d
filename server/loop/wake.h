// Wake: has something done on a loop's thread at the word of any thread, for as long as the loop is there;
// words said before it is done are one. What ZeroMQ lets go of after a server has ended wakes nobody.
//
// Thread: any.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace paceline::server {

class Wake : public std::enable_shared_from_this<Wake> {
 public:
  Wake(boost::asio::io_context& io, std::function<void()> action) : io_(&io), action_(std::move(action)) {}

  void call() {
    const std::lock_guard lock(mutex_);
    if (io_ == nullptr || called_) return;
    called_ = true;
    boost::asio::post(*io_, [self = shared_from_this()] { self->act(); });
  }

  // From now on nothing is done. Before the loop goes.
  void close() {
    const std::lock_guard lock(mutex_);
    io_ = nullptr;
  }

 private:
  void act() {
    {
      const std::lock_guard lock(mutex_);
      called_ = false;
      if (io_ == nullptr) return;
    }
    action_();
  }

  std::mutex mutex_;
  boost::asio::io_context* io_;
  bool called_ = false;
  const std::function<void()> action_;
};

}  // namespace paceline::server
