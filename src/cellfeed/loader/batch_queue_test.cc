#include "cellfeed/loader/batch_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "cellfeed/base/error.h"

namespace cellfeed::loader {
namespace {

using namespace std::chrono_literals;

std::exception_ptr an_error(const char* text) {
  return std::make_exception_ptr(Error(ErrorKind::kIo, text));
}

TEST(BatchQueue, HandsBatchesOverInOrderHoweverTheyGetReady) {
  BatchQueue queue(3);
  const auto first = std::make_shared<PendingBatch>(), second = std::make_shared<PendingBatch>();
  EXPECT_TRUE(queue.push(first));
  EXPECT_TRUE(queue.push(second));
  queue.set_ready(*second);
  EXPECT_EQ(queue.pop(1ms).pending, nullptr);
  queue.set_ready(*first);
  const auto popped = queue.pop(1ms);
  EXPECT_EQ(popped.pending, first);
  EXPECT_EQ(popped.n_ready, 2);
  EXPECT_FALSE(queue.is_empty());
  EXPECT_EQ(queue.pop(1ms).pending, second);
  EXPECT_TRUE(queue.is_empty());
}

TEST(BatchQueue, ItsEndComesAfterTheBatches) {
  BatchQueue queue(2);
  const auto pending = std::make_shared<PendingBatch>();
  queue.push(pending);
  queue.end(an_error("of the end"));
  EXPECT_FALSE(queue.pop(1ms).is_over);
  queue.fail(*pending, an_error("of the batch"));
  queue.fail(*pending, an_error("a second one"));
  auto popped = queue.pop(1ms);
  ASSERT_TRUE(popped.error);
  EXPECT_THROW(std::rethrow_exception(popped.error), Error);
  EXPECT_FALSE(popped.is_over);
  popped = queue.pop(1ms);
  EXPECT_TRUE(popped.is_over);
  EXPECT_TRUE(popped.error);
  popped = queue.pop(1ms);  // the error is thrown once
  EXPECT_TRUE(popped.is_over);
  EXPECT_FALSE(popped.error);
}

TEST(BatchQueue, ClosingItWakesWhoeverWaits) {
  BatchQueue queue(1);
  queue.push(std::make_shared<PendingBatch>());
  bool is_pushed = true;
  bool is_over = false;
  {
    const std::jthread driver([&] { is_pushed = queue.push(std::make_shared<PendingBatch>()); });
    const std::jthread consumer([&] { is_over = queue.pop(10s).is_over; });
    std::this_thread::sleep_for(5ms);
    queue.close();
    queue.close();
  }
  EXPECT_FALSE(is_pushed);
  EXPECT_TRUE(is_over);
  EXPECT_TRUE(queue.is_empty());
  queue.end(an_error("too late"));
  EXPECT_FALSE(queue.pop(1ms).error);
}

}  // namespace
}  // namespace cellfeed::loader
