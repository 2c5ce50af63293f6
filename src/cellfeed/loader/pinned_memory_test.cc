// Page-locked batches over a torch of our own: what is taken comes back, whoever drops it, and
// refusals lose nothing.
#include "cellfeed/loader/pinned_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::loader {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kPinnedRows = 300;

// A torch whose tensors are counted, and which refuses when told to.
struct FakeTensor {
  std::shared_ptr<std::byte> storage;
  std::size_t bytes;
};
struct Fake {
  std::atomic<int> live{0};
  std::atomic<int> made{0};
  std::atomic<int> left = std::numeric_limits<int>::max();  // tensors until it refuses
  std::atomic<bool> hides_data{false};
  std::atomic<std::size_t> misaligned_by{0};
} fake;

TorchFunctions fake_torch() {
  fake.made = fake.live = 0;
  fake.left = std::numeric_limits<int>::max();
  fake.hides_data = false;
  fake.misaligned_by = 0;
  TorchFunctions torch{};
  torch.uint8 = 7;
  torch.cpu = 3;
  torch.empty_pinned = [](std::int64_t n_dims, const std::int64_t* sizes,
                          const std::int64_t* strides, std::int32_t dtype, std::int32_t device,
                          std::int32_t, void** tensor) {
    EXPECT_EQ(n_dims, 1);
    EXPECT_EQ(strides[0], 1);
    EXPECT_EQ(dtype, 7);
    EXPECT_EQ(device, 3);
    if (fake.left-- <= 0) return 1;
    ++fake.live;
    ++fake.made;
    const auto bytes = static_cast<std::size_t>(sizes[0]);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
    *tensor = new FakeTensor{{data, [](std::byte* p) { std::free(p); }}, bytes};
    return 0;
  };
  torch.data_pointer = [](void* tensor, void** data) {
    if (fake.hides_data) return 1;
    *data = static_cast<FakeTensor*>(tensor)->storage.get() + fake.misaligned_by;
    return 0;
  };
  torch.view = [](void* tensor, std::int64_t, const std::int64_t* sizes, const std::int64_t*,
                  std::int64_t offset, void** view) {
    const auto* whole = static_cast<FakeTensor*>(tensor);
    if (offset != 0 || static_cast<std::size_t>(sizes[0]) > whole->bytes) return 1;
    ++fake.live;
    *view = new FakeTensor{whole->storage, static_cast<std::size_t>(sizes[0])};
    return 0;
  };
  torch.delete_tensor = [](void* tensor) {
    --fake.live;
    delete static_cast<FakeTensor*>(tensor);
    return 0;
  };
  torch.last_error = [] { return "no room left to lock"; };
  return torch;
}

std::shared_ptr<const LoaderCore> core_with(Output output, std::shared_ptr<PinnedMemory> pinned) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(
      testing::random_csr({.n_rows = kPinnedRows, .n_cols = 80, .density = 0.3}))));
  LoaderOptions options{.output = output, .threads = 2};
  options.pinned = std::move(pinned);
  return make_loader_core(std::make_shared<const collection::Collection>(
                              std::move(stores), collection::CollectionOptions{}),
                          options);
}

std::vector<std::shared_ptr<LoadedBatch>> load(std::shared_ptr<const LoaderCore> core) {
  const sampling::Plan plan(std::make_shared<sampling::BlockShuffling>(kPinnedRows, 1),
                            {.batch_size = 32, .fetch_factor = 2}, 5, 0);
  BatchIterator iterator(std::move(core), plan);
  return testing::drain(iterator);
}

const matrix::ValueBuffer& x_values(const matrix::Batch& batch) {
  if (const auto* csr = std::get_if<matrix::CsrBlock>(&batch.x)) return csr->values;
  return std::get<matrix::DenseBlock>(batch.x).values;
}

std::vector<float> floats_of(const matrix::Batch& batch) {
  const auto& buffer = std::get<matrix::Buffer<float>>(x_values(batch));
  return {buffer.begin(), buffer.end()};
}

TEST(PinnedMemory, HoldsTheSameBatchesAndComesBack) {
  for (const Output output : {Output::kCsr, Output::kDense}) {
    const auto plain = load(core_with(output, nullptr));
    auto batches = load(core_with(output, std::make_shared<PinnedMemory>(fake_torch())));
    ASSERT_EQ(batches.size(), plain.size());
    for (std::size_t k = 0; k < plain.size(); ++k) {
      EXPECT_EQ(floats_of(batches[k]->batch()), floats_of(plain[k]->batch()));
      EXPECT_NE(std::get<matrix::Buffer<float>>(x_values(batches[k]->batch())).handle(), nullptr);
      EXPECT_EQ(std::get<matrix::Buffer<float>>(x_values(plain[k]->batch())).handle(), nullptr);
    }
    const int buffers = output == Output::kCsr ? 2 : 1;
    EXPECT_EQ(fake.live, buffers * static_cast<int>(batches.size()));
    batches.clear();
    EXPECT_EQ(fake.live, 0);
  }
}

TEST(PinnedMemory, TensorsOutliveTheirBatch) {
  const auto memory = std::make_shared<PinnedMemory>(fake_torch());
  auto batches = load(core_with(Output::kDense, memory));
  batches.resize(1);
  const auto expected = floats_of(batches[0]->batch());
  auto* tensor = static_cast<FakeTensor*>(
      memory->make_tensor(std::get<matrix::Buffer<float>>(x_values(batches[0]->batch())).handle(),
                          expected.size() * sizeof(float)));
  batches.clear();
  EXPECT_EQ(fake.live, 1);
  EXPECT_EQ(tensor->bytes, expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(tensor->storage.get(), expected.data(), tensor->bytes), 0);
  fake_torch().delete_tensor(tensor);
}

TEST(PinnedMemory, ARefusalSaysWhatToDoAndLosesNothing) {
  for (const int tensors : {0, 1, 2, 5}) {
    const auto core = core_with(Output::kCsr, std::make_shared<PinnedMemory>(fake_torch()));
    fake.left = tensors;
    try {
      load(core);
      FAIL() << "the refusal was not reported";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), HasSubstr("no room left to lock"));
      EXPECT_THAT(error.what(), HasSubstr("leave pin_memory out"));
    }
    EXPECT_EQ(fake.made, tensors);
    EXPECT_EQ(fake.live, 0);
  }
}

TEST(PinnedMemory, MemoryThatCannotBeUsedIsGivenBack) {
  PinnedMemory memory(fake_torch());
  fake.hides_data = true;
  EXPECT_THROW(memory.allocate(100), Error);
  fake.hides_data = false;
  fake.misaligned_by = 8;
  EXPECT_THROW(memory.allocate(100), Error);
  EXPECT_EQ(fake.made, 2);
  EXPECT_EQ(fake.live, 0);
}

TEST(PinnedMemory, BudgetCountsWhatTorchRoundsUpTo) {
  const auto memory = std::make_shared<PinnedMemory>(fake_torch());
  const auto account = std::make_shared<const MemoryAccount>(std::int64_t{1} << 30);
  const Recycler recycler(4, account, memory);
  EXPECT_EQ(recycler.taken_bytes(8 << 20), 16 << 20);
  EXPECT_EQ(recycler.taken_bytes((8 << 20) - 64), 8 << 20);
  // A kept buffer has room for somewhat longer rows; large ones are whole huge pages.
  EXPECT_EQ(Recycler(4, account).taken_bytes(800), 900);
  EXPECT_EQ(Recycler(4, account).taken_bytes(8 << 20), 10 << 20);
}

TEST(PinnedMemory, AForkedChildLeavesTorchAlone) {
  const auto memory = std::make_shared<PinnedMemory>(fake_torch());
  auto buffer = std::make_unique<matrix::Buffer<float>>(100, memory);
  (*buffer)[0] = 3;
  const pid_t child = ::fork();
  if (child == 0) {
    bool is_good = (*buffer)[0] == 3;
    buffer.reset();
    is_good = is_good && fake.live == 1 && fake.made == 1;
    try {
      memory->allocate(100);
      is_good = false;
    } catch (const Error& error) {
      is_good = is_good && error.kind() == ErrorKind::kInvalidArgument;
    }
    ::_exit(is_good && fake.made == 1 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  buffer.reset();
  EXPECT_EQ(fake.live, 0);
}

TEST(TorchFunctions, AreNamedWhereTheyAreMissing) {
  const auto message = [](const std::string& library) -> std::string {
    try {
      load_torch_functions(library);
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message("/no/such/libtorch_cpu.so"), HasSubstr("/no/such/libtorch_cpu.so"));
  EXPECT_THAT(message("libc.so.6"), HasSubstr("aoti_torch_empty_strided_pinned"));
}

}  // namespace
}  // namespace cellfeed::loader
