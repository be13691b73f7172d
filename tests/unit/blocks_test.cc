// Blocks: shared ones never change, single ones are rewritten in place, returned ones are used again.
#include "common/params/blocks.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <thread>

using namespace paceline;

namespace {

// Sets every element of the range to `value`.
void fill(BlockRange& range, BlockPool& pool, float value) {
  for (std::int64_t i = 0; i < range.block_count(); ++i) {
    range.rewrite(i, pool, [&](std::span<const float>, std::span<float> out) {
      std::fill(out.begin(), out.end(), value);
    });
  }
}

std::vector<float> values_of(const BlockRange& range) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < range.block_count(); ++i) {
    values.insert(values.end(), range.block(i).begin(), range.block(i).end());
  }
  return values;
}

}  // namespace

TEST_CASE("blocks_come_from_the_memory_given_and_keep_it_for_as_long_as_they_are_out") {
  class Counting final : public std::pmr::memory_resource {
   public:
    explicit Counting(std::int64_t& out) : out_(out) {}
    ~Counting() override { out_ = -1; }

   private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
      ++out_;
      return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
      --out_;
      std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
    std::int64_t& out_;
  };
  std::int64_t out = 0;
  auto pool = std::make_unique<BlockPool>(8, 1, std::make_shared<Counting>(out));
  BlockRef a = pool->acquire(), b = pool->acquire();
  CHECK(out == 2);
  b.reset();
  CHECK(out == 2);  // idle
  pool.reset();
  CHECK(out >= 1);  // the pool is there for as long as its blocks
  a.reset();
  CHECK(out == -1);  // and so is the memory
}

TEST_CASE("a_returned_block_is_handed_out_again_and_the_surplus_is_freed") {
  BlockPool pool(8, 1);
  BlockRef a = pool.acquire(), b = pool.acquire();
  const float* const address = a.data();
  CHECK(reinterpret_cast<std::uintptr_t>(address) % 64 == 0);
  CHECK(pool.in_use() == 2);
  a.reset();
  b.reset();
  CHECK(pool.in_use() == 0);
  CHECK(pool.idle() == 1);
  CHECK(pool.acquire().data() == address);
}

TEST_CASE("a_block_is_unique_again_when_the_other_reference_is_dropped") {
  BlockPool pool(8, 4);
  BlockRef mine = pool.acquire();
  CHECK(mine.unique());
  BlockRef other = mine;
  CHECK_FALSE(mine.unique());
  BlockRef moved = std::move(other);
  CHECK_FALSE(mine.unique());
  moved = BlockRef();
  CHECK(mine.unique());
  CHECK_FALSE(BlockRef().unique());
}

TEST_CASE("blocks_outlive_their_pool") {
  BlockRef block;
  {
    BlockPool pool(4, 4);
    block = pool.acquire();
    block.writable_data()[3] = 7.0F;
  }
  CHECK(block.data()[3] == 7.0F);
}

TEST_CASE("a_range_begins_as_zeros_and_its_last_block_may_be_short") {
  BlockPool pool(4, 4);
  BlockRange range(pool, 10);
  CHECK(range.block_count() == 3);
  CHECK(range.elements(2) == Range{8, 10});
  CHECK(range.block(2).size() == 2);
  CHECK(values_of(range) == std::vector<float>(10, 0.0F));
  CHECK(BlockRange(pool, 0).block_count() == 0);
}

TEST_CASE("a_snapshot_keeps_its_values_while_the_range_goes_on") {
  BlockPool pool(4, 8);
  BlockRange range(pool, 10);
  fill(range, pool, 1.0F);
  CHECK(pool.in_use() == 3);  // nobody else held them: rewritten in place
  const BlockRange snapshot = range;
  fill(range, pool, 2.0F);
  CHECK(pool.in_use() == 6);
  CHECK(values_of(snapshot) == std::vector<float>(10, 1.0F));
  CHECK(values_of(range) == std::vector<float>(10, 2.0F));
}

TEST_CASE("only_the_blocks_that_a_reply_holds_are_copied") {
  BlockPool pool(4, 8);
  BlockRange range(pool, 10);
  fill(range, pool, 1.0F);
  const float* const first = range.block(0).data();
  const BlockRef reply = range.ref(1);
  fill(range, pool, 2.0F);
  CHECK(pool.in_use() == 4);
  CHECK(range.block(0).data() == first);
  CHECK(range.block(1).data() != reply.data());
  CHECK(reply.data()[0] == 1.0F);
}

TEST_CASE("floats_are_copied_in_and_out_across_blocks_and_snapshots_keep_the_old_ones") {
  BlockPool pool(4, 8);
  BlockRange range(pool, 10);
  fill(range, pool, 1.0F);
  const BlockRange snapshot = range;
  range.copy_from(3, std::vector<float>{2, 3, 4, 5, 6, 7}, pool);
  CHECK(values_of(range) == std::vector<float>{1, 1, 1, 2, 3, 4, 5, 6, 7, 1});
  CHECK(values_of(snapshot) == std::vector<float>(10, 1.0F));
  std::vector<float> out(5);
  range.copy_to(5, out);
  CHECK(out == std::vector<float>{4, 5, 6, 7, 1});
  range.copy_to(10, std::span<float>());
}

TEST_CASE("a_reader_on_another_thread_never_sees_a_block_change") {
  // The writer gives snapshots away through a bounded queue and goes on rewriting, in place as soon as the
  // reader has let go. What the reader sees must be the value of its snapshot's time; the thread sanitizer
  // watches the hand-over.
  constexpr int kSnapshots = 2000;
  BlockPool pool(64, 8);
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::optional<std::pair<BlockRange, float>>> queue;
  std::int64_t wrong = 0;

  std::thread reader([&] {
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !queue.empty(); });
      auto item = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      changed.notify_all();
      if (!item) return;
      for (float value : values_of(item->first)) wrong += value == item->second ? 0 : 1;
    }
  });

  BlockRange range(pool, 200);
  for (int i = 0; i < kSnapshots; ++i) {
    fill(range, pool, static_cast<float>(i));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.size() < 2; });
    queue.emplace_back(std::pair(range, static_cast<float>(i)));
    lock.unlock();
    changed.notify_all();
  }
  {
    const std::lock_guard lock(mutex);
    queue.emplace_back(std::nullopt);
  }
  changed.notify_all();
  reader.join();
  CHECK(wrong == 0);
  CHECK(pool.in_use() == 4);
  CHECK(pool.idle() <= 8);
}
