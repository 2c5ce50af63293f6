// FilterPipeline: any order of filters, masks, sizes that do not fit, names of what is refused.
#include "cellfeed/hdf5/filter_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libdeflate.h>

#include <cstring>
#include <random>

#include "cellfeed/base/error.h"

namespace cellfeed::hdf5 {
namespace {

using ::testing::HasSubstr;
using Data = std::vector<std::byte>;

constexpr std::size_t kWidth = 4;

FilterDescription filter(std::uint16_t id, std::vector<std::uint32_t> values = {}) {
  return {.id = id, .name = "", .is_optional = false, .client_values = std::move(values)};
}

FilterPipeline pipeline(std::vector<FilterDescription> filters) {
  return {std::move(filters), kWidth, "file.h5", "X/data"};
}

Data some_data(std::size_t n) {
  std::mt19937 random(3);
  Data data(n);
  for (std::size_t i = 0; i < n; ++i)
    data[i] = static_cast<std::byte>(i % 4 == 0 ? random() % 20 : 0);
  return data;
}

// The filters as HDF5 applies them when writing.
Data deflate(const Data& data) {
  libdeflate_compressor* state = libdeflate_alloc_compressor(6);
  Data out(data.size() + 1000);
  out.resize(libdeflate_zlib_compress(state, data.data(), data.size(), out.data(), out.size()));
  libdeflate_free_compressor(state);
  return out;
}

Data shuffle(const Data& data, std::size_t width = kWidth) {
  const std::size_t count = data.size() / width;
  Data out = data;
  for (std::size_t i = 0; i < count * width; ++i) out[i % width * count + i / width] = data[i];
  return out;
}

Data append_checksum(Data data) {
  const std::uint32_t sum = io::fletcher32(data);
  for (int i = 0; i < 4; ++i) data.push_back(static_cast<std::byte>(sum >> (8 * i)));
  return data;
}

Data apply(const std::vector<std::uint16_t>& ids, std::uint32_t skipped, Data data) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if ((skipped >> i & 1) != 0) continue;
    if (ids[i] == kDeflateFilter) data = deflate(data);
    if (ids[i] == kShuffleFilter) data = shuffle(data);
    if (ids[i] == kFletcher32Filter) data = append_checksum(data);
  }
  return data;
}

template <typename Call>
std::string refusal(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(FilterPipeline, UndoesEveryOrderUnderEveryMask) {
  const std::vector<std::vector<std::uint16_t>> orders = {
      {}, {1}, {2}, {3}, {2, 1}, {1, 2}, {3, 2, 1}, {2, 1, 3}, {3, 1}, {1, 3, 2}, {3, 3, 2, 1, 3}};
  const Data data = some_data(4003);
  for (const auto& ids : orders) {
    std::vector<FilterDescription> filters;
    for (const auto id : ids)
      filters.push_back(filter(id, id == 2 ? std::vector{4u} : std::vector<std::uint32_t>{}));
    const FilterPipeline undoing = pipeline(filters);
    for (std::uint32_t skipped = 0; skipped < 1u << ids.size(); ++skipped) {
      Data out(data.size());
      undoing.undo(apply(ids, skipped, data), skipped, out, {});
      EXPECT_EQ(out, data) << undoing.name() << ", mask " << skipped;
    }
  }
}

TEST(FilterPipeline, AMaskOfAllOnesLeavesTheBytesAsTheyAre) {
  const Data data = some_data(100);
  Data out(100);
  pipeline({filter(kShuffleFilter), filter(kDeflateFilter)}).undo(data, ~0u, out, {});
  EXPECT_EQ(out, data);
}

TEST(FilterPipeline, RefusesAnyOtherSizeThanTheChunks) {
  const Data data = some_data(400);
  for (const std::vector<std::uint16_t>& ids :
       std::vector<std::vector<std::uint16_t>>{{}, {1}, {2}, {3}, {2, 1}, {1, 2}, {2, 3}}) {
    std::vector<FilterDescription> filters;
    for (const auto id : ids) filters.push_back(filter(id));
    const Data stored = apply(ids, 0, data);
    for (const std::size_t size : {0u, 396u, 399u, 401u, 404u, 4000u}) {
      Data out(size);
      const auto what = refusal(ErrorKind::kCorruptData, [&] {
        pipeline(filters).undo(stored, 0, out, {.path = "file.h5", .offset = 4711});
      });
      EXPECT_THAT(what, HasSubstr("4711"));
    }
  }
}

TEST(FilterPipeline, FindsADamagedChecksum) {
  Data stored = append_checksum(some_data(100));
  stored[17] ^= std::byte{1};
  Data out(100);
  EXPECT_THAT(refusal(ErrorKind::kCorruptData,
                      [&] { pipeline({filter(kFletcher32Filter)}).undo(stored, 0, out, {}); }),
              HasSubstr("Fletcher-32"));
}

TEST(FilterPipeline, ShufflesAsWideAsTheFileSays) {
  const Data data = some_data(99);
  Data out(99);
  pipeline({filter(kShuffleFilter, {3})}).undo(shuffle(data, 3), 0, out, {});
  EXPECT_EQ(out, data);
  EXPECT_THAT(refusal(ErrorKind::kCorruptData, [&] { pipeline({filter(kShuffleFilter, {0})}); }),
              HasSubstr("X/data"));
}

TEST(FilterPipeline, NamesWhatItDoesNotRead) {
  const auto refused = [](FilterDescription description) {
    return refusal(ErrorKind::kUnsupported, [&] { pipeline({description}); });
  };
  EXPECT_THAT(refused(filter(kSzipFilter)), HasSubstr("filter 4 (szip) on 'X/data'"));
  EXPECT_THAT(refused(filter(kNbitFilter)), HasSubstr("filter 5 (n-bit)"));
  EXPECT_THAT(refused(filter(kScaleOffsetFilter)), HasSubstr("filter 6 (scale-offset)"));
  EXPECT_THAT(refused(filter(kBlosc2Filter)), HasSubstr("filter 32026 (blosc2)"));
  EXPECT_THAT(refused(filter(511)), HasSubstr("filter 511 (without a name)"));
  FilterDescription named = filter(511);
  named.name = "my\ncodec";
  EXPECT_THAT(refused(named), HasSubstr("filter 511 (my?codec)"));
  // A codec of bitshuffle that no version of it has.
  EXPECT_THAT(refused(filter(kBitshuffleFilter, {0, 5, 4, 0, 9})), HasSubstr("bitshuffle"));
  EXPECT_THAT(refusal(ErrorKind::kUnsupported,
                      [&] { pipeline({filter(kDeflateFilter), filter(kLzfFilter)}); }),
              HasSubstr("gzip+lzf"));
}

TEST(FilterPipeline, KnowsWhatNoChunkCanBecome) {
  const FilterPipeline gzip = pipeline({filter(kShuffleFilter), filter(kDeflateFilter)});
  const FilterPipeline none = pipeline({filter(kShuffleFilter)});
  EXPECT_NO_THROW(gzip.check_expansion(1000, 1000 * 1000, {}));
  EXPECT_NO_THROW(none.check_expansion(1000, 1000, {}));
  EXPECT_THROW(gzip.check_expansion(1000, 1'200'000, {}), Error);
  EXPECT_THROW(none.check_expansion(1000, 1001, {}), Error);
  // What deflate really makes of the most compressible data there is stays below the bound.
  const Data zeros(10'000'000);
  EXPECT_NO_THROW(gzip.check_expansion(deflate(zeros).size(), zeros.size(), {}));
}

}  // namespace
}  // namespace cellfeed::hdf5
